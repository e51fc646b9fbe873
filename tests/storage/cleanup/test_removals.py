"""What a transaction recorded as to be deleted is deleted, whatever happens in between."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from itertools import pairwise
from pathlib import Path

import pytest

from delivery.edge.memory import MemoryEdge
from headend.duties.media_remover import StoredMedia
from media.no_op import do_nothing_async
from storage.catalog import Catalog, open_catalog
from storage.catalog.queries.removals import FIRST_US
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.cleanup.removals import LAST_US, keep_removing, remove_due
from storage.installation_key import StoreMismatch
from storage.objects.base import StoreFailed
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_video
from tests.support.storage.undeletable_disk import UndeletableDisk
from tests.support.waiting import until

HASH, OTHER = "AAAAAAAAAAAA", "BBBBBBBBBBBB"
MINUTE_US = 60_000_000


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as opened:
        await opened.clock.synchronize()
        yield opened


@pytest.fixture
def objects(tmp_path: Path) -> Generator[UndeletableDisk]:
    disk = UndeletableDisk(tmp_path / "objects")
    with disk:
        yield disk


async def deleted(catalog: Catalog, objects: UndeletableDisk, *hashes: str) -> int:
    """Add videos and delete their rows, as a process does that is killed then; return when."""
    project = await catalog.projects.add("films", Change(1))
    for hash_ in hashes:
        await objects.put_all({f"sources/{hash_}/1": b"x", f"videos/{hash_}/1-1/0.m4s": b"x"})
        whole = await catalog.videos.add(project.id, new_video(hash_), Change(1))
        await catalog.videos.remove(whole.video.id, Change(1))
    return catalog.clock.now_us() + FIRST_US


async def media(objects: UndeletableDisk) -> list[str]:
    return [*await objects.addresses("sources"), *await objects.addresses("videos")]


async def test_media_of_a_process_that_was_killed_are_deleted_twice_and_forgotten(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    now_us = await deleted(catalog, objects, HASH)
    edge = MemoryEdge()
    assert await remove_due(objects, edge.drop_folder, catalog.removals, now_us - FIRST_US) == 0
    assert len(await media(objects)) == 2, "the process that deleted the row may be deleting them"
    assert await remove_due(objects, edge.drop_folder, catalog.removals, now_us) == 0
    assert await media(objects) == []
    # A worker that did not know yet that its job is over.
    await objects.put(f"videos/{HASH}/1-2/0.m4s", b"x")
    assert await remove_due(objects, edge.drop_folder, catalog.removals, now_us + LAST_US) == 2
    assert await media(objects) == []
    assert await objects.addresses("trash") == []
    assert await catalog.removals.find_due(1 << 62, 1) == ()


async def test_what_is_to_be_deleted_is_no_orphan(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    """Cleanups leave it alone: owners rely on its removal, and the trash would keep it for days."""
    now_us = await deleted(catalog, objects, *(f"{number:012}" for number in range(12)))
    project = await catalog.projects.add("more", Change(1))
    whole = await catalog.videos.add(project.id, new_video(HASH), Change(1))
    replaced = (f"sources/{HASH}/1", f"sources/{HASH}/r-a", f"sources/{HASH}/r-b")
    for address in replaced:
        await objects.put(address, b"x")
    for address in replaced[1:]:
        file = VideoFile(source=address, size=1)
        await catalog.videos.replace(whole.video.id, file, Change(1))
    later_us = now_us + 2 * AGE_US
    before = await media(objects)
    assert await remove_orphans(objects, catalog.references, later_us) == 0
    assert await media(objects) == before
    await remove_due(objects, do_nothing_async, catalog.removals, later_us)
    assert await media(objects) == [replaced[2]]
    await objects.put(f"videos/{OTHER}/1-1/0.m4s", b"x")
    assert await remove_orphans(objects, catalog.references, later_us) == 1, "nobody deleted it"


async def test_a_store_that_is_away_is_tried_again_less_and_less_often(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    begun_us = now_us = await deleted(catalog, objects, HASH, OTHER)
    objects.stuck = {HASH}
    tries: list[int] = []
    while now_us < begun_us + 6 * 60 * MINUTE_US:
        try:
            await remove_due(objects, do_nothing_async, catalog.removals, now_us)
        except StoreFailed:
            tries.append(now_us)
        now_us += MINUTE_US
    assert await objects.addresses("videos") == [f"videos/{HASH}/1-1/0.m4s"], "no other waits"
    overdue = await catalog.removals.find_overdue(now_us - 60 * MINUTE_US, 9)
    assert (overdue.count, overdue.cause) == (2, "Operation not permitted")
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 2 * MINUTE_US
    assert 60 * MINUTE_US <= pauses[-1] <= 61 * MINUTE_US
    objects.stuck = set()
    assert (
        await remove_due(objects, do_nothing_async, catalog.removals, now_us + 60 * MINUTE_US) == 2
    )
    assert await media(objects) == []


async def test_a_pass_ends_with_the_first_failing_batch(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    """Each call that a store does not answer takes 20 s."""
    hashes = [f"U{number:011}" for number in range(60)]
    now_us = await deleted(catalog, objects, *hashes)
    objects.stuck, objects.calls = set(hashes), 0
    with pytest.raises(StoreFailed):
        await remove_due(objects, do_nothing_async, catalog.removals, now_us)
    assert objects.calls == 40


async def test_nothing_is_deleted_from_a_store_of_another_installation(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    now_us = await deleted(catalog, objects, HASH)
    asked = asyncio.Event()
    belongs = False

    async def verify() -> None:
        asked.set()
        if not belongs:
            raise StoreMismatch("objects", "catalog")

    for belongs in (False, True):
        asked.clear()
        async with asyncio.TaskGroup() as tasks:
            removing = keep_removing(
                objects, do_nothing_async, catalog.removals, lambda: now_us, verify
            )
            chore = tasks.create_task(removing)
            await asked.wait()
            if belongs:
                await until(lambda: gone(objects))
            chore.cancel()
        assert len(await media(objects)) == (0 if belongs else 2)


async def gone(objects: UndeletableDisk) -> bool:
    return await media(objects) == []


async def test_nothing_is_deleted_while_a_backup_holds_removals(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    await catalog.installation.first_start(1)
    now_us = await deleted(catalog, objects, HASH)
    assert not await catalog.removals.hold(30.0), "nothing was held before"
    assert await remove_due(objects, do_nothing_async, catalog.removals, now_us) == 0
    await StoredMedia(objects, do_nothing_async, catalog.removals.are_held).remove([HASH])
    assert len(await media(objects)) == 2
    assert await catalog.removals.hold(0.01), "a shorter hold of another backup shortens none"
    assert await catalog.removals.are_held()


async def test_a_hold_of_a_backup_that_was_killed_ends(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    await catalog.installation.first_start(1)
    now_us = await deleted(catalog, objects, HASH)
    await catalog.removals.hold(0.0)
    assert not await catalog.removals.are_held()
    await remove_due(objects, do_nothing_async, catalog.removals, now_us)
    assert await media(objects) == []
