"""Visibility: which questions the catalog gets, and how often."""

import asyncio

import msgspec

from api.http.client_address import RawHeaders
from api.origin.access import AccessLevel
from api.origin.visibility import Requester, ViewerAccess, VisibilityCache
from storage.catalog.records.common import PublicRecord
from tests.support.storage.engine_reports import FakeClock

HASH = "abcdefABCDEF"
STREAM = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True
)
TOKEN = "Bearer the-owners"


class CountingShowcase:
    """A showcase of one stream, a world in which peers are named for their countries."""

    def __init__(self, countries: str = "") -> None:
        self.stream = msgspec.structs.replace(STREAM, countries=frozenset(countries.split()))
        self.asked = self.located = self.owners = 0
        self.clock = FakeClock()
        self.verdicts = VisibilityCache(self, self.is_owner, self.country, clock=self.clock)

    async def find(self, hash_: str, /) -> PublicRecord | None:
        self.asked += 1
        return self.stream if hash_ == HASH else None

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        self.owners += 1
        return authorization == TOKEN

    def country(self, peer: str | None, headers: RawHeaders) -> str | None:
        self.located += 1
        return peer

    def ask(self, peer: str, token: str | None = None, hash_: str = HASH) -> ViewerAccess:
        headers = [] if token is None else [(b"authorization", token.encode())]
        return asyncio.run(self.verdicts.lookup(hash_, Requester(peer, headers)))


def test_what_is_open_to_all_asks_nobody_where_they_are_or_who() -> None:
    shelf = CountingShowcase()
    for _ in range(5):
        assert shelf.ask("DE", TOKEN).access is AccessLevel.OPEN
    assert (shelf.asked, shelf.located, shelf.owners) == (1, 0, 0)
    found = shelf.verdicts.cached(HASH, "DE", [])
    assert found is not None
    assert found.shown is shelf.stream


def test_what_is_restricted_asks_for_each_viewer_where_they_are() -> None:
    shelf = CountingShowcase("RO")
    found = [shelf.ask(peer).access for peer in ("RO", "DE", "RO")]
    assert found == [AccessLevel.RESTRICTED_OPEN, AccessLevel.BLOCKED, AccessLevel.RESTRICTED_OPEN]
    assert (shelf.asked, shelf.located, shelf.owners) == (1, 3, 0)


def test_only_what_strangers_may_see_is_at_hand() -> None:
    shelf = CountingShowcase("RO")
    assert shelf.verdicts.cached(HASH, "RO", []) is None  # nobody asked yet
    shelf.ask("RO")
    assert shelf.verdicts.cached(HASH, "RO", []) is not None
    assert shelf.verdicts.cached(HASH, "DE", []) is None


def test_a_token_that_reaches_it_opens_a_country() -> None:
    shelf = CountingShowcase("RO")
    assert shelf.ask("DE", TOKEN).access is AccessLevel.OWNER
    assert shelf.ask("DE", "Bearer another").access is AccessLevel.BLOCKED
    assert shelf.ask("RO", TOKEN).access is AccessLevel.RESTRICTED_OPEN
    assert shelf.owners == 2


def test_a_change_counts_after_a_second() -> None:
    shelf = CountingShowcase()
    assert shelf.ask("DE").access is AccessLevel.OPEN
    shelf.stream = msgspec.structs.replace(shelf.stream, countries=frozenset({"RO"}))
    shelf.clock.now += 0.99
    assert shelf.ask("DE").access is AccessLevel.OPEN
    shelf.clock.now += 0.01
    assert shelf.ask("DE").access is AccessLevel.BLOCKED


def test_what_does_not_exist_has_no_owner() -> None:
    shelf = CountingShowcase()
    assert shelf.ask("DE", TOKEN, "zzzzzzzzzzzz") == ViewerAccess(AccessLevel.NONE, None)
    assert shelf.owners == 0
