"""The trash is emptied after its days; a clock that leaps ahead does not empty it."""

from collections.abc import Generator
from pathlib import Path

import pytest

from media.ticks import DAY_US
from storage.cleanup.confirmation import TooMuchDue
from storage.cleanup.old_trash import empty_old_trash
from storage.objects.disk import DiskObjects
from storage.objects.trash import discard, find_trash

pytestmark = pytest.mark.anyio

NOW_US = 1_790_000_000_000_000
HOUR_US = DAY_US // 24


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path) as opened:
        yield opened


async def discard_hourly(objects: DiskObjects, hours: int) -> None:
    """Fill the trash as the cleanups of the last hours do."""
    for ago in range(hours):
        await objects.put(f"videos/{ago}/x", b"x")
        await discard(objects, f"videos/{ago}", NOW_US - ago * HOUR_US)


async def test_what_was_there_for_its_days_goes(objects: DiskObjects) -> None:
    await discard_hourly(objects, 26)
    assert await empty_old_trash(objects, NOW_US, days=1) == 2
    assert len(await find_trash(objects)) == 24
    assert await empty_old_trash(objects, NOW_US, days=1) == 0


async def test_a_clock_that_leaps_ahead_deletes_nothing_for_good(objects: DiskObjects) -> None:
    await discard_hourly(objects, 11)
    ahead_us = NOW_US + 30 * DAY_US
    with pytest.raises(TooMuchDue, match="11 of 11 folders of the trash"):
        await empty_old_trash(objects, ahead_us, days=7)
    assert len(await find_trash(objects)) == 11
    assert await empty_old_trash(objects, ahead_us, days=7, confirmed=True) == 11


async def test_with_zero_days_all_goes_at_once(objects: DiskObjects) -> None:
    await discard_hourly(objects, 11)
    assert await empty_old_trash(objects, NOW_US, days=0) == 11
