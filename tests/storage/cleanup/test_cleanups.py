"""Every cleanup of an installation, on each database: what a wrong clock does, and what it may."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from media.no_op import do_nothing_async
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import VideoFile
from storage.cleanup.cleanups import find_stopped, log_cleanups, media_cleanups, upload_cleanups
from storage.cleanup.confirmation import Unconfirmed
from storage.cleanup.removals import remove_due
from storage.objects import addresses
from storage.objects.disk import DiskObjects
from storage.objects.trash import discard
from storage.wall_clock import wall_clock_us
from tests.support.storage.new_videos import new_upload, new_video

pytestmark = pytest.mark.anyio

MONTH_US = 30 * 86_400_000_000
HOUR_US = 3_600_000_000
STRAY = "BBBBBBBBBBBB"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


async def clean(catalog: Catalog, objects: DiskObjects, now_us: int) -> tuple[int, int]:
    """Do every cleanup once; return how much was removed, and how many stopped."""
    removed = stopped = 0
    for cleanup in (
        *upload_cleanups(objects, catalog),
        *media_cleanups(objects, catalog, trash_days=7),
    ):
        try:
            removed += await cleanup.clean(now_us, confirmed=False)
        except Unconfirmed:
            stopped += 1
    return removed, stopped


async def fill(catalog: Catalog, objects: DiskObjects, count: int, now_us: int) -> None:
    """Add as many of all that goes by the clock, and a file that may be about to get its row."""
    for number in range(count):
        hash_ = f"A{number:011}"
        whole = await catalog.videos.add(1, new_video(hash_), Change(now_us))
        await objects.put(f"sources/{hash_}/1", b"former")
        await objects.put(f"sources/{hash_}/r-two", b"present")
        file = VideoFile(source=f"sources/{hash_}/r-two", size=1)
        await catalog.videos.replace(whole.video.id, file, Change(now_us, keep_us=HOUR_US))
        upload = new_upload(f"u{number}", hash_=f"U{number:011}", expires_us=now_us + HOUR_US)
        await catalog.uploads.begin(1, upload, now_us)
        await objects.put(addresses.upload(f"u{number}"), b"upload")
        await catalog.links.add(
            1, VideoDetails(), Change(now_us), most_bytes=1, expires_us=now_us + 1
        )
        await objects.put(f"slates/x/{number}", b"trash")
        await discard(objects, f"slates/x/{number}", now_us - number * 1_000_000)
    await objects.put(f"sources/{STRAY}/1", b"new")


async def everything(objects: DiskObjects) -> set[str]:
    rooms = ("sources", addresses.UPLOADS, addresses.TRASH)
    return {address for room in rooms for address in await objects.addresses(room)}


async def test_a_clock_that_is_a_month_ahead_removes_little(
    either_database: str | Path, objects: DiskObjects
) -> None:
    async with open_catalog(either_database, migrate=False) as catalog:
        now_us = wall_clock_us()
        await catalog.installation.first_start(now_us)
        await fill(catalog, objects, 11, now_us)
        before = await everything(objects)
        assert await clean(catalog, objects, now_us) == (0, 0)
        assert await find_stopped(catalog, now_us) == ()
        # Replaced files may be many: their owners have asked for that.
        assert await clean(catalog, objects, now_us + MONTH_US) == (11, 3)
        stopped = [str(each) for each in await find_stopped(catalog, now_us + MONTH_US)]
        whats = ("uploads", "upload links")
        assert [each.split(":")[0] for each in stopped] == [
            f"the time of 11 of 11 {what} is over" for what in whats
        ]
        assert await everything(objects) == before


async def test_what_a_clock_orders_can_be_taken_back(
    objects: DiskObjects, sqlite_database: Path
) -> None:
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        now_us = wall_clock_us()
        await catalog.installation.first_start(now_us)
        await fill(catalog, objects, 3, now_us)
        await objects.delete_tree(addresses.TRASH)
        assert await clean(catalog, objects, now_us + MONTH_US) == (9, 0)
        await remove_due(objects, do_nothing_async, catalog.removals, now_us + MONTH_US)
        trashed = {each.split("/", 2)[2] for each in await objects.addresses(addresses.TRASH)}
        former = {f"sources/A{number:011}/1" for number in range(3)}
        assert trashed == former | {addresses.upload(f"u{number}") for number in range(3)}


async def test_orphans_go_once_both_clocks_say_that_they_are_old(
    objects: DiskObjects, sqlite_database: Path
) -> None:
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        now_us = wall_clock_us()
        await catalog.installation.first_start(now_us)
        await objects.put(f"sources/{STRAY}/1", b"x")
        assert await clean(catalog, objects, now_us + MONTH_US) == (0, 0)
        old_ns = (now_us - 2 * HOUR_US) * 1000
        os.utime(objects.path(f"sources/{STRAY}"), ns=(old_ns, old_ns))
        assert await clean(catalog, objects, now_us - MONTH_US) == (0, 0)
        assert await clean(catalog, objects, now_us) == (1, 0)


async def test_old_events_go_by_the_clock_alone(sqlite_database: Path) -> None:
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        now_us = wall_clock_us()
        await catalog.installation.first_start(now_us - 4 * MONTH_US)
        await catalog.projects.edit(1, Change(now_us), name="New")
        (cleanup,) = log_cleanups(catalog)
        assert await cleanup.clean(now_us, confirmed=False) == 1
        assert [each.kind for each in (await catalog.events.find_page(1)).items] == [
            "project edited"
        ]
