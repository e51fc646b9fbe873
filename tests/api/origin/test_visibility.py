"""Verdicts: what is asked, how often, and of whom. How an audience asks is the origin's tests'."""

import asyncio

import msgspec

from api.http.client_address import RawHeaders
from api.origin.access import Access
from api.origin.visibility import Verdict, Verdicts, Viewer
from storage.catalog.records.common import Shown
from tests.support.storage.engine_reports import FakeClock

HASH = "abcdefABCDEF"
STREAM = Shown(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True
)
TOKEN = "Bearer the-owners"


class Shelf:
    """A showcase of one stream, a world in which peers are named for their countries."""

    def __init__(self, countries: str = "") -> None:
        self.stream = msgspec.structs.replace(STREAM, countries=frozenset(countries.split()))
        self.asked = self.located = self.owners = 0
        self.clock = FakeClock()
        self.verdicts = Verdicts(self, self.is_owner, self.country, clock=self.clock)

    async def find(self, hash_: str, /) -> Shown | None:
        self.asked += 1
        return self.stream if hash_ == HASH else None

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        self.owners += 1
        return authorization == TOKEN

    def country(self, peer: str | None, headers: RawHeaders) -> str | None:
        self.located += 1
        return peer

    def ask(self, peer: str, token: str | None = None, hash_: str = HASH) -> Verdict:
        headers = [] if token is None else [(b"authorization", token.encode())]
        return asyncio.run(self.verdicts.ask(hash_, Viewer(peer, headers)))


def test_what_is_open_to_all_asks_nobody_where_they_are_or_who() -> None:
    shelf = Shelf()
    for _ in range(5):
        assert shelf.ask("DE", TOKEN).access is Access.OPEN
    assert (shelf.asked, shelf.located, shelf.owners) == (1, 0, 0)
    found = shelf.verdicts.at_hand(HASH, "DE", [])
    assert found is not None
    assert found.shown is shelf.stream


def test_what_is_restricted_asks_for_each_viewer_where_they_are() -> None:
    shelf = Shelf("RO")
    found = [shelf.ask(peer).access for peer in ("RO", "DE", "RO")]
    assert found == [Access.RESTRICTED_OPEN, Access.BLOCKED, Access.RESTRICTED_OPEN]
    assert (shelf.asked, shelf.located, shelf.owners) == (1, 3, 0)


def test_only_what_strangers_may_see_is_at_hand() -> None:
    shelf = Shelf("RO")
    assert shelf.verdicts.at_hand(HASH, "RO", []) is None  # nobody asked yet
    shelf.ask("RO")
    assert shelf.verdicts.at_hand(HASH, "RO", []) is not None
    assert shelf.verdicts.at_hand(HASH, "DE", []) is None


def test_a_token_that_reaches_it_opens_a_country() -> None:
    shelf = Shelf("RO")
    assert shelf.ask("DE", TOKEN).access is Access.OWNER
    assert shelf.ask("DE", "Bearer another").access is Access.BLOCKED
    assert shelf.ask("RO", TOKEN).access is Access.RESTRICTED_OPEN
    assert shelf.owners == 2


def test_a_change_counts_after_a_second() -> None:
    shelf = Shelf()
    assert shelf.ask("DE").access is Access.OPEN
    shelf.stream = msgspec.structs.replace(shelf.stream, countries=frozenset({"RO"}))
    shelf.clock.now += 0.99
    assert shelf.ask("DE").access is Access.OPEN
    shelf.clock.now += 0.01
    assert shelf.ask("DE").access is Access.BLOCKED


def test_what_does_not_exist_has_no_owner() -> None:
    shelf = Shelf()
    assert shelf.ask("DE", TOKEN, "zzzzzzzzzzzz") == Verdict(Access.NONE, None)
    assert shelf.owners == 0
