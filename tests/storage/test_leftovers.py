"""Files of videos that there are not."""

import time
from pathlib import Path

import pytest

from storage.catalog import open_catalog
from storage.catalog.videorecords import Arrived
from storage.leftovers import AGE_US, remove_leftovers
from storage.objects.disk import DiskObjects

pytestmark = pytest.mark.anyio

KEPT, GONE = "AAAAAAAAAAAA", "BBBBBBBBBBBB"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_files_of_no_video_go_once_they_are_old(tmp_path: Path) -> None:
    now_us = time.time_ns() // 1000
    arrived = Arrived(
        hash=KEPT, title=None, file_title="x", description="", name="x", size=1,
        source=f"sources/{KEPT}/1",
    )  # fmt: skip
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(tmp_path / "catalog.db", migrate=True) as catalog:
            project = await catalog.add_project("films", now_us)
            await catalog.videos.add(project.id, arrived, now_us, by=None)
            assert await remove_leftovers(objects, catalog.videos, now_us) == 0
            for hash_ in (KEPT, GONE):
                await objects.put(f"sources/{hash_}/1", b"x")
                await objects.put(f"videos/{hash_}/own-x/360p.jpg", b"x")
                await objects.put(f"live/{hash_}/index.m3u8", b"x")
            # Just written: it may be an upload that is about to be written down.
            assert await remove_leftovers(objects, catalog.videos, now_us) == 0
            later_us = now_us + AGE_US + 60_000_000
            assert await remove_leftovers(objects, catalog.videos, later_us) == 2
            assert await objects.addresses("sources") == [f"sources/{KEPT}/1"]
            assert await objects.addresses("videos") == [f"videos/{KEPT}/own-x/360p.jpg"]
            # Streams are not its business.
            assert len(await objects.addresses("live")) == 2
            assert await remove_leftovers(objects, catalog.videos, later_us) == 0
