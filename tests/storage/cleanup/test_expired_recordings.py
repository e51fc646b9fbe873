"""Expired recordings go to the trash with all their media; many at once wait for an operator."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from api.http.filenames import slug
from media.ticks import DAY_US
from storage.catalog import Catalog, open_catalog
from storage.catalog.schema.tables import videos
from storage.catalog.videos.recordings import MadeRecording
from storage.cleanup.confirmation import TooMuchDue
from storage.cleanup.expired_recordings import remove_expired_recordings
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.storage.many_rows import copy_rows, padded
from tests.support.storage.new_videos import new_video
from tests.support.storage.undeletable_disk import UndeletableDisk

pytestmark = pytest.mark.anyio

NOW_US = 1_769_860_859_123_456
MADE = MadeRecording(
    media="1-1", size=3, length_us=2_000_000, width=0, height=0, rungs=()
)  # sound alone
NAME = "1-1/audio/0.m4s"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as opened:
        await opened.installation.first_start(NOW_US)
        yield opened


async def recorded(catalog: Catalog, objects: DiskObjects, run: str, days: int) -> str:
    (stream,) = await catalog.streams.find_all()
    row = await catalog.recordings.begin(stream.key.hash, run, days, NOW_US)
    assert row is not None
    await objects.put(f"videos/{row.hash}/{NAME}", b"one")
    await catalog.recordings.finish(row, MADE, NOW_US, slug)
    return row.hash


async def test_expired_recordings_go_to_the_trash_and_others_stay(
    catalog: Catalog, objects: DiskObjects
) -> None:
    expired = [await recorded(catalog, objects, f"a{n}", 1) for n in range(3)]
    kept = await recorded(catalog, objects, "b", 2)
    day_us = NOW_US + DAY_US
    assert await remove_expired_recordings(objects, catalog.recordings, day_us - 1) == 0
    assert await remove_expired_recordings(objects, catalog.recordings, day_us) == 3
    assert await objects.addresses("videos") == [f"videos/{kept}/{NAME}"]
    trashed = [each.split("/", 2)[2] for each in await objects.addresses("trash")]
    assert trashed == sorted(f"videos/{each}/{NAME}" for each in expired)
    assert await catalog.videos.find_known([*expired, kept]) == {kept}
    events = await catalog.events.find_page(1)
    assert [event.subject for event in events.items][:3] == list(reversed(expired))


async def test_many_at_once_wait_for_an_operator(
    catalog: Catalog, objects: DiskObjects, tmp_path: Path
) -> None:
    for number in range(11):
        await recorded(catalog, objects, f"a{number}", 20)
    # Videos that never expire do not count.
    file, location = new_video(), tmp_path / "catalog.db"
    added = await catalog.videos.add(1, file, NOW_US, by=None)
    copy_rows(location, videos, added.video.id, 200, {"hash": padded(location, "V")})
    ahead_us = NOW_US + 30 * DAY_US
    with pytest.raises(TooMuchDue, match="the time of 11 of 11 recordings is over"):
        await remove_expired_recordings(objects, catalog.recordings, ahead_us)
    assert len(await objects.addresses("videos")) == 11
    removed = await remove_expired_recordings(objects, catalog.recordings, ahead_us, confirmed=True)
    assert removed == 11
    assert await objects.addresses("videos") == []


async def test_media_that_cannot_be_moved_stop_nothing(catalog: Catalog, tmp_path: Path) -> None:
    objects = UndeletableDisk(tmp_path / "stuck")
    with objects:
        stuck = await recorded(catalog, objects, "a", 1)
        await recorded(catalog, objects, "b", 1)
        objects.stuck.add(stuck)
        later_us = NOW_US + DAY_US
        assert await remove_expired_recordings(objects, catalog.recordings, later_us) == 2
        assert await objects.addresses("videos") == [f"videos/{stuck}/{NAME}"]


async def test_recordings_in_progress_are_not_deleted(
    catalog: Catalog, objects: DiskObjects
) -> None:
    (stream,) = await catalog.streams.find_all()
    row = await catalog.recordings.begin(stream.key.hash, "a", 1, NOW_US)
    assert row is not None
    await objects.put(f"videos/{row.hash}/{NAME}", b"one")
    stat = await objects.stat(f"videos/{row.hash}/{NAME}")
    assert stat is not None
    later_us = stat.modified_us + 2 * AGE_US
    assert await remove_orphans(objects, catalog.references, later_us) == 0
    await catalog.recordings.remove(row.id)
    assert await remove_orphans(objects, catalog.references, later_us) == 1
