"""The health of the store: judged by checks, logged once each way, and awaited by writers."""

import asyncio

import pytest

from storage.errors import CatalogUnavailable
from storage.objects.base import ObjectMissing, StoreClaimed, StoreFailed, StoreFull
from storage.workers.store_health import StoreHealth

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
    assert store.checks == [True, False, True, True]  # the first one is thorough, too


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


async def test_a_store_is_checked_thoroughly_at_first_and_every_five_minutes() -> None:
    store = Store()
    for _ in range(320):
        assert await store.health.is_well()
    thorough = [number for number, each in enumerate(store.checks) if each]
    assert thorough == [0, 301]


async def test_the_problem_of_a_store_is_what_its_check_says() -> None:
    store = Store()
    assert await store.health.problem() is None
    store.away = StoreFailed("the folder videos of the store", "Read-only file system")
    assert await store.health.problem() is store.away
    store.away = None
    store.health.report(CatalogUnavailable("away"))
    assert await store.health.problem() is None  # a database that is away is found elsewhere


def denied(folder: str = "videos", video: int = 1) -> StoreFailed:
    return StoreFailed(f"{folder}/{video}/a.m4s", "Permission denied")


@pytest.mark.parametrize(
    ("failures", "paused"),
    [
        pytest.param([(1, denied())], False, id="one video"),
        pytest.param([(1, denied()), (1, denied())], False, id="one video twice"),
        pytest.param([(1, denied()), (2, denied(video=2))], True, id="two videos"),
        pytest.param([(1, denied()), (2, denied("sources"))], False, id="in two folders"),
        pytest.param(
            [(1, denied()), (2, StoreFailed("videos/b", "no answer"))], False, id="two errors"
        ),
        pytest.param([(1, denied()), (3, None), (2, denied())], False, id="not in a row"),
        pytest.param(
            [(1, ObjectMissing("videos/a")), (2, ObjectMissing("videos/a"))], False, id="missing"
        ),
        pytest.param(
            [(1, FileNotFoundError(2, "No such")), (2, FileNotFoundError(2, "No such"))],
            False,
            id="missing files",
        ),
        pytest.param([(1, OSError(5, "EIO")), (2, OSError(5, "EIO"))], True, id="the disk"),
    ],
)
def test_two_videos_in_a_row_with_the_same_error_of_the_store_pause_leasing(
    failures: list[tuple[int, Exception | None]], *, paused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    health = StoreHealth()
    blamed = [health.is_to_blame(video, error) for video, error in failures]
    assert blamed == [False] * (len(failures) - 1) + [paused]
    assert (health.pause is not None) is paused
    assert len(caplog.records) == paused


def test_videos_of_a_store_that_another_catalog_has_do_not_count_and_pause_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = StoreHealth()
    claimed = StoreClaimed("videos/a/1", "the lease of the store was not renewed in time")
    assert not health.is_to_blame(1, denied())
    for video in (1, 2, 3):
        assert health.is_to_blame(video, claimed)
    assert (health.pause, caplog.records) == (None, [])
    assert health.is_to_blame(2, denied(video=2)), "it says nothing about the one before"


async def test_a_pause_ends_by_itself_and_grows_until_something_succeeds() -> None:
    store = Store()
    health = StoreHealth(store.check, clock=lambda: store.now, poll_seconds=0)
    assert [health.is_to_blame(video, denied()) for video in (1, 2)] == [False, True]
    assert health.is_to_blame(3, denied()), "it was under way when the pause began"
    pauses: list[float] = []
    for _ in range(7):
        began = store.now
        await health.wait_to_lease()
        pauses.append(store.now - began)
        # Those that are tried after it do not count, until something succeeds.
        assert health.is_to_blame(1, denied())
    assert pauses == pytest.approx([30, 60, 120, 240, 480, 600, 600], abs=1)
    assert health.pause is not None
    assert health.pause.endswith("two videos in a row failed with: videos: Permission denied")
    health.record_success()
    assert health.pause is None
    began = store.now
    await health.wait_to_lease()
    assert store.now - began <= 1
    assert not health.is_to_blame(1, denied())


async def test_nothing_is_leased_after_a_pause_while_a_check_fails() -> None:
    store = Store()
    health = StoreHealth(store.check, clock=lambda: store.now, poll_seconds=0, steady_seconds=3)
    assert [health.is_to_blame(video, denied()) for video in (1, 2)] == [False, True]
    store.away, store.returns = denied(), 100
    await health.wait_to_lease()
    assert len(store.checks) > 100
