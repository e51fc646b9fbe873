"""Former files: no cleanup takes them while they can be taken back, and then they go to the trash.

Neither does one whose clock is ahead, where they are many.
"""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from media.ticks import DAY_US
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.videos import VideoFile
from storage.cleanup.confirmation import TooMuchDue
from storage.cleanup.former_files import remove_former_files
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

HASH = "AAAAAAAAAAAA"
FIRST, SECOND, STRAY = (f"sources/{HASH}/{name}" for name in ("1", "r-two", "r-stray"))


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as opened:
        await opened.projects.add("programmes", 1)
        yield opened


async def replaced(catalog: Catalog, hash_: str, source: str, now_us: int) -> None:
    """Add a video and replace its file."""
    whole = await catalog.videos.add(1, new_video(hash_), now_us, by=None)
    file = VideoFile(source=source, size=1)
    await catalog.videos.replace(whole.video.id, file, now_us, by=None)


async def test_a_former_file_stays_for_a_week_and_goes_to_the_trash_then(
    catalog: Catalog, objects: DiskObjects
) -> None:
    for address in (FIRST, SECOND, STRAY):
        await objects.put(address, b"x")
    stat = await objects.stat(FIRST)
    assert stat is not None
    now_us = stat.modified_us
    await replaced(catalog, HASH, SECOND, now_us)
    assert await remove_orphans(objects, catalog.references, now_us + 2 * AGE_US) == 1
    week_us = now_us + 7 * DAY_US
    assert await remove_former_files(objects, catalog.former_files, week_us - 1) == 0
    assert await objects.addresses(f"sources/{HASH}") == [FIRST, SECOND]
    assert await remove_former_files(objects, catalog.former_files, week_us) == 1
    assert await objects.addresses(f"sources/{HASH}") == [SECOND]
    trashed = [each.split("/", 2)[2] for each in await objects.addresses("trash")]
    assert sorted(trashed) == sorted([FIRST, STRAY])


async def test_many_at_once_wait_for_an_operator(catalog: Catalog, objects: DiskObjects) -> None:
    now_us = 1
    for number in range(11):
        await replaced(catalog, f"A{number:011}", f"sources/A{number:011}/r-two", now_us)
        await objects.put(f"sources/A{number:011}/1", b"x")
    ahead_us = now_us + 30 * DAY_US
    with pytest.raises(TooMuchDue, match="11 of 11 former files"):
        await remove_former_files(objects, catalog.former_files, ahead_us)
    assert len(await objects.addresses("sources")) == 11
    removed = await remove_former_files(objects, catalog.former_files, ahead_us, confirmed=True)
    assert removed == 11
