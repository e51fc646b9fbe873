"""Former files: no cleanup takes them while they can be taken back, and then they are deleted."""

import asyncio
from pathlib import Path

from media.no_op import do_nothing_async
from media.ticks import DAY_US
from storage.catalog import open_catalog
from storage.catalog.records.videos import VideoFile
from storage.cleanup.former_files import keep_removing_former_files
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_video
from tests.support.waiting import until

HASH = "AAAAAAAAAAAA"
FIRST, SECOND, STRAY = (f"sources/{HASH}/{name}" for name in ("1", "r-two", "r-stray"))


async def test_a_former_file_stays_for_a_week_and_is_deleted_then(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("programmes", 1)
            for address in (FIRST, SECOND, STRAY):
                await objects.put(address, b"x")
            stat = await objects.stat(FIRST)
            assert stat is not None
            now_us = stat.modified_us
            whole = await catalog.videos.add(project.id, new_video(HASH), now_us, by=None)
            assert whole.video.source == FIRST
            await catalog.videos.replace(
                whole.video.id, VideoFile(source=SECOND, size=1), now_us, by=None
            )
            assert await remove_orphans(objects, catalog.references, now_us + 2 * AGE_US) == 1
            assert await objects.addresses(f"sources/{HASH}") == [FIRST, SECOND]

            async def gone() -> bool:
                return await objects.addresses(f"sources/{HASH}") == [SECOND]

            async with asyncio.TaskGroup() as tasks:
                chore = tasks.create_task(
                    keep_removing_former_files(
                        objects,
                        catalog.former_files,
                        lambda: now_us + 7 * DAY_US,
                        do_nothing_async,
                    )
                )
                await until(gone)
                chore.cancel()
            assert await objects.addresses("trash") != [], "the stray, not the former file"
            assert not [each for each in await objects.addresses("trash") if each.endswith(FIRST)]
