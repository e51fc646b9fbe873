"""Expired recordings are deleted with all their media."""

import asyncio
from pathlib import Path

from api.http.filenames import slug
from headend.roles.media_remover import (
    StoredMedia,
    delete_expired_recordings,
    keep_deleting_expired_recordings,
)
from media.no_op import do_nothing_async
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import StreamRecord
from storage.catalog.videos.recordings import MadeRecording
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.edge.memory import MemoryEdge
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.waiting import until

NOW_US = 1_769_860_859_123_456
DAY_US = 86_400_000_000
MADE = MadeRecording(
    media="1-1", size=3, length_us=2_000_000, width=0, height=0, rungs=()
)  # sound alone


async def recorded(
    catalog: Catalog, objects: DiskObjects, stream: StreamRecord, run: str, days: int
) -> str:
    row = await catalog.recordings.begin(stream.key.hash, run, days, NOW_US)
    assert row is not None
    await objects.put(f"videos/{row.hash}/1-1/audio/0.m4s", b"one")
    await catalog.recordings.finish(row, MADE, NOW_US, slug)
    return row.hash


async def test_expired_recordings_are_deleted_and_others_stay(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("programmes", NOW_US)
            stream = await catalog.streams.add(project.id, "Morning", NOW_US)
            media = StoredMedia(objects, MemoryEdge())
            expired = [await recorded(catalog, objects, stream, f"a{n}", 1) for n in range(3)]
            kept = await recorded(catalog, objects, stream, "b", 2)
            assert (
                await delete_expired_recordings(catalog.recordings, media, NOW_US + DAY_US - 1) == 0
            )
            assert await delete_expired_recordings(catalog.recordings, media, NOW_US + DAY_US) == 3
            assert await objects.addresses("videos") == [f"videos/{kept}/1-1/audio/0.m4s"]
            assert await catalog.videos.find_known([*expired, kept]) == {kept}
            events = await catalog.events.find_page(project.id)
            assert [event.subject for event in events.items][:3] == list(reversed(expired))


async def test_expired_recordings_are_deleted_at_the_start(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("programmes", NOW_US)
            stream = await catalog.streams.add(project.id, "Morning", NOW_US)
            await recorded(catalog, objects, stream, "a", 1)
            media = StoredMedia(objects, MemoryEdge())
            now_us = NOW_US + 2 * DAY_US

            async def gone() -> bool:
                return await objects.addresses("videos") == []

            async with asyncio.TaskGroup() as tasks:
                chore = tasks.create_task(
                    keep_deleting_expired_recordings(
                        catalog.recordings, media, lambda: now_us, do_nothing_async
                    )
                )
                await until(gone)
                chore.cancel()


async def test_recordings_in_progress_are_not_deleted(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
            project = await catalog.projects.add("programmes", NOW_US)
            stream = await catalog.streams.add(project.id, "Morning", NOW_US)
            row = await catalog.recordings.begin(stream.key.hash, "a", 1, NOW_US)
            assert row is not None
            await objects.put(f"videos/{row.hash}/1-1/audio/0.m4s", b"one")
            stat = await objects.stat(f"videos/{row.hash}/1-1/audio/0.m4s")
            assert stat is not None
            later_us = stat.modified_us + 2 * AGE_US
            assert await remove_orphans(objects, catalog.references, later_us) == 0
            await catalog.recordings.remove(row.id)
            assert await remove_orphans(objects, catalog.references, later_us) == 1
