"""Visibility: which queries the catalog gets, and how often."""

import asyncio

import msgspec
import pytest

from api.http.client_address import RawHeaders
from api.origin.access import AccessLevel
from api.origin.viewer import Viewer
from api.origin.visibility import ViewerAccess, VisibilityCache
from storage.catalog.records.common import PublicRecord
from storage.errors import CatalogUnavailable
from tests.support.manual_clock import ManualClock
from tests.support.waiting import until

HASH = "abcdefABCDEF"
STREAM = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True
)
TOKEN = "Bearer the-owners"


class CountingRecords:
    """The public record of one stream; peers are named for their countries."""

    def __init__(self, countries: str = "") -> None:
        self.stream = msgspec.structs.replace(STREAM, countries=frozenset(countries.split()))
        self.asked = self.located = self.owners = 0
        self.failing = False
        self.clock = ManualClock()
        self.visibility = VisibilityCache(self, self.is_owner, self.country, clock=self.clock)

    async def find(self, hash_: str, /) -> PublicRecord | None:
        self.asked += 1
        if self.failing:
            raise CatalogUnavailable("the catalog cannot be reached")
        return self.stream if hash_ == HASH else None

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        self.owners += 1
        return authorization == TOKEN

    def country(self, peer: str | None, headers: RawHeaders) -> str | None:
        self.located += 1
        return peer

    def ask(self, peer: str, token: str | None = None, hash_: str = HASH) -> ViewerAccess:
        headers = [] if token is None else [(b"authorization", token.encode())]
        return asyncio.run(self.visibility.lookup(hash_, Viewer(peer, headers)))


def test_open_media_need_neither_country_nor_owner() -> None:
    public_records = CountingRecords()
    for _ in range(5):
        assert public_records.ask("DE", TOKEN).access is AccessLevel.OPEN
    assert (public_records.asked, public_records.located, public_records.owners) == (1, 0, 0)
    access = public_records.visibility.cached(HASH, Viewer("DE", []))
    assert access is not None
    assert access.shown is public_records.stream


def test_restricted_media_need_the_country_of_each_viewer() -> None:
    public_records = CountingRecords("RO")
    levels = [public_records.ask(peer).access for peer in ("RO", "DE", "RO")]
    assert levels == [AccessLevel.RESTRICTED_OPEN, AccessLevel.BLOCKED, AccessLevel.RESTRICTED_OPEN]
    assert (public_records.asked, public_records.located, public_records.owners) == (1, 3, 0)


def test_only_the_access_of_strangers_is_cached() -> None:
    public_records = CountingRecords("RO")
    assert public_records.visibility.cached(HASH, Viewer("RO", [])) is None  # not queried yet
    public_records.ask("RO")
    assert public_records.visibility.cached(HASH, Viewer("RO", [])) is not None
    assert public_records.visibility.cached(HASH, Viewer("DE", [])) is None


def test_the_owners_token_overrides_the_country() -> None:
    public_records = CountingRecords("RO")
    assert public_records.ask("DE", TOKEN).access is AccessLevel.OWNER
    assert public_records.ask("DE", "Bearer another").access is AccessLevel.BLOCKED
    assert public_records.ask("RO", TOKEN).access is AccessLevel.RESTRICTED_OPEN
    assert public_records.owners == 2


def test_a_change_counts_after_a_second() -> None:
    public_records = CountingRecords()
    assert public_records.ask("DE").access is AccessLevel.OPEN
    public_records.stream = msgspec.structs.replace(
        public_records.stream, countries=frozenset({"RO"})
    )
    public_records.clock.now += 0.99
    assert public_records.ask("DE").access is AccessLevel.OPEN
    public_records.clock.now += 0.01
    assert public_records.ask("DE").access is AccessLevel.BLOCKED


def test_what_does_not_exist_has_no_owner() -> None:
    public_records = CountingRecords()
    assert public_records.ask("DE", TOKEN, "zzzzzzzzzzzz") == ViewerAccess(AccessLevel.NONE, None)
    assert public_records.owners == 0


@pytest.mark.parametrize(
    ("countries", "expected"),
    [
        pytest.param("", AccessLevel.OPEN, id="public"),
        pytest.param("RO", AccessLevel.BLOCKED, id="restricted"),
        pytest.param("DE", AccessLevel.RESTRICTED_OPEN, id="open here"),
    ],
)
def test_while_the_catalog_fails_its_last_answer_counts_for_five_minutes(
    countries: str, expected: AccessLevel, caplog: pytest.LogCaptureFixture
) -> None:
    public_records = CountingRecords(countries)
    assert public_records.ask("DE").access is expected
    public_records.failing = True
    for _ in range(299):
        public_records.clock.now += 1
        assert public_records.ask("DE").access is expected
        assert (
            public_records.visibility.cached(HASH, Viewer("DE", [])) is not None
        ) is expected.is_visible
    assert public_records.asked == 300  # the catalog is still queried once a second
    public_records.clock.now += 1
    with pytest.raises(CatalogUnavailable):
        public_records.ask("DE")
    with pytest.raises(CatalogUnavailable):
        public_records.ask("DE", hash_="zzzzzzzzzzzz")  # nothing is remembered of it
    public_records.failing = False
    assert public_records.ask("DE").access is expected
    assert [each.levelname for each in caplog.records] == ["WARNING"]


class SlowCountingRecords(CountingRecords):
    """The public records, which are found while `answering` is set."""

    def __init__(self, *, patience: float) -> None:
        super().__init__()
        self.visibility = VisibilityCache(
            self, self.is_owner, self.country, clock=self.clock, patience=patience
        )
        self.answering = asyncio.Event()
        self.answering.set()

    async def find(self, hash_: str, /) -> PublicRecord | None:
        await self.answering.wait()
        return await super().find(hash_)


async def test_what_was_published_just_now_is_no_404_of_a_slow_catalog() -> None:
    # Ten times as long where nothing was to be seen: what a busy machine adds must fit in between.
    public_records = SlowCountingRecords(patience=0.1)
    public_records.stream = msgspec.structs.replace(STREAM, published=False)
    visibility = public_records.visibility
    viewer = Viewer("DE", [])
    async with asyncio.TaskGroup() as tasks:
        background = tasks.create_task(visibility.run_queries())
        await asyncio.sleep(0)  # it begins
        assert (await visibility.lookup(HASH, viewer)).access is AccessLevel.NONE
        public_records.stream = STREAM
        public_records.answering.clear()
        public_records.clock.now += 1
        asyncio.get_running_loop().call_later(0.15, public_records.answering.set)
        assert (await visibility.lookup(HASH, viewer)).access is AccessLevel.OPEN
        # A catalog that does not answer at all has its old answer counted in the end.
        public_records.stream = msgspec.structs.replace(STREAM, published=False)
        public_records.clock.now += 1
        assert (await visibility.lookup(HASH, viewer)).access is AccessLevel.NONE
        public_records.answering.clear()
        public_records.clock.now += 1
        assert (await visibility.lookup(HASH, viewer)).access is AccessLevel.NONE
        background.cancel()


async def test_known_viewers_do_not_wait_for_a_slow_catalog() -> None:
    public_records = SlowCountingRecords(patience=0.001)
    answering, visibility = public_records.answering, public_records.visibility
    viewer = Viewer("DE", [])
    async with asyncio.TaskGroup() as tasks:
        background = tasks.create_task(visibility.run_queries())
        await asyncio.sleep(0)  # it begins
        await visibility.lookup(HASH, viewer)
        answering.clear()
        public_records.stream = msgspec.structs.replace(STREAM, hidden=True)
        for _ in range(3):
            public_records.clock.now += 1
            assert (await visibility.lookup(HASH, viewer)).access is AccessLevel.OPEN
        answering.set()  # the one waiting query ends, and returns the changed record
        await until(lambda: public_records.asked == 2)
        public_records.clock.now += 1
        assert (await visibility.lookup(HASH, viewer)).access is AccessLevel.NONE
        background.cancel()


def test_guessed_hashes_do_not_push_out_what_is_known() -> None:
    public_records = CountingRecords()
    public_records.ask("DE")

    async def guess() -> None:
        for number in range(20_001):
            await public_records.visibility.lookup(f"{number:012}", Viewer("DE", []))

    asyncio.run(guess())
    public_records.failing = True
    public_records.clock.now += 5
    assert public_records.ask("DE").access is AccessLevel.OPEN


def test_a_signed_in_browser_sees_what_its_token_reaches() -> None:
    """If a request has a token and a cookie, only the token counts."""
    public_records = CountingRecords("RO")
    calls: list[tuple[str | None, str]] = []

    async def signed_in(cookie: str | None, hash_: str, /) -> bool:
        calls.append((cookie, hash_))
        return cookie == "a=b; session=mine"

    visibility = VisibilityCache(
        public_records,
        public_records.is_owner,
        public_records.country,
        is_signed_in=signed_in,
        clock=public_records.clock,
    )

    def ask(*headers: tuple[bytes, bytes]) -> AccessLevel:
        return asyncio.run(visibility.lookup(HASH, Viewer("DE", headers))).access

    assert ask((b"cookie", b"a=b"), (b"cookie", b"session=mine")) is AccessLevel.OWNER
    assert ask((b"cookie", b"session=other")) is AccessLevel.BLOCKED
    assert ask() is AccessLevel.BLOCKED
    assert calls == [("a=b; session=mine", HASH), ("session=other", HASH)]
    both = (b"cookie", b"a=b; session=mine"), (b"authorization", b"Bearer another")
    assert ask(*both) is AccessLevel.BLOCKED
    assert len(calls) == 2
    # A page on another port of the host, for whose requests browsers send the cookie, too.
    cookie = (b"cookie", b"a=b; session=mine")
    for site, access in (
        (b"same-origin", AccessLevel.OWNER),
        (b"none", AccessLevel.OWNER),
        (b"same-site", AccessLevel.BLOCKED),
        (b"cross-site", AccessLevel.BLOCKED),
    ):
        assert ask(cookie, (b"sec-fetch-site", site)) is access


async def test_a_waiting_request_is_answered_when_the_query_ends_in_an_unexpected_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class BrokenRecords(CountingRecords):
        async def find(self, hash_: str, /) -> PublicRecord | None:
            if self.failing:
                raise RuntimeError("a fault of ours")
            return await super().find(hash_)

    public_records = BrokenRecords()
    visibility, answers = public_records.visibility, list[bool]()
    async with asyncio.TaskGroup() as tasks:
        background = tasks.create_task(visibility.run_queries())
        await asyncio.sleep(0)  # it begins
        before = await visibility.lookup(HASH, Viewer("DE", []))
        public_records.failing = True
        public_records.clock.now += 5
        visibility.confirm(HASH, before, answers.append)
        visibility.confirm(HASH, before, answers.append)
        await until(lambda: len(answers) == 2)
        assert answers == [False, False]
        assert "a fault of ours" in caplog.text
        public_records.failing = False
        public_records.clock.now += 5
        visibility.confirm(HASH, before, answers.append)
        await until(lambda: len(answers) == 3)
        assert answers[-1]
        background.cancel()
