"""The health of the store: judged by checks, logged once each way, and awaited by writers."""

import asyncio

import pytest

from storage.errors import CatalogUnavailable
from storage.objects.base import StoreFailed, StoreFull
from transcode.jobs.store_health import StoreHealth

pytestmark = pytest.mark.anyio

STEADY = 5.0


class Store:
    """A store that is away while `away` is set, by a clock that each check moves on.

    It returns at the check `returns`.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.away: StoreFailed | StoreFull | None = None
        self.returns = 1000
        self.checks: list[bool] = []
        self.health = StoreHealth(
            self.check, clock=lambda: self.now, poll_seconds=0, steady_seconds=STEADY
        )

    async def check(self, *, thorough: bool) -> None:
        self.now += 1
        self.checks.append(thorough)
        if self.away is not None and len(self.checks) < self.returns:
            raise self.away


async def test_a_store_that_is_away_is_checked_thoroughly() -> None:
    store = Store()
    assert await store.health.is_well()
    store.away = StoreFailed("a", "gone")
    assert not await store.health.is_well()
    assert not await store.health.is_well()
    assert not await store.health.check_thoroughly()
    assert store.checks == [False, False, True, True]


async def test_each_way_is_one_line_for_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store = Store()
    store.away, store.returns = StoreFull("the store", "free space is 1 bytes"), 40
    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(store.health.wait())
    logged = [(record.message, record.levelname) for record in caplog.records]
    assert logged == [("jobs not leased", "WARNING"), ("jobs leased again", "INFO")]
    assert vars(caplog.records[0])["cause"] == "the store: free space is 1 bytes"


async def test_a_store_that_comes_and_goes_is_not_well() -> None:
    store = Store()
    store.health.report(CatalogUnavailable("away"))
    for _ in range(5):
        assert not await store.health.is_well()
    store.away = StoreFailed("a", "again")
    assert not await store.health.is_well()
    store.away = None
    states = [await store.health.is_well() for _ in range(7)]
    assert states == [False] * 5 + [True] * 2


async def test_a_recent_check_serves_all() -> None:
    store = Store()
    health = StoreHealth(store.check, clock=lambda: store.now, poll_seconds=2.0)
    assert [await health.is_well() for _ in range(3)] == [True] * 3
    assert len(store.checks) == 1


async def test_a_write_that_fails_while_the_store_is_away_is_repeated() -> None:
    store = Store()
    tries: list[float] = []

    async def write() -> str:
        tries.append(store.now)
        if len(tries) == 1:
            store.away, store.returns = StoreFailed("a", "gone"), 10
            raise store.away
        return "written"

    assert await store.health.write(write) == "written"
    assert len(tries) == 2


async def test_a_write_that_a_healthy_store_refuses_is_not_repeated() -> None:
    store = Store()
    tries: list[None] = []

    async def write() -> None:
        tries.append(None)
        raise StoreFailed("a", "File name too long")

    with pytest.raises(StoreFailed, match="too long"):
        await store.health.write(write)
    assert len(tries) == 1
