"""Leftovers of attempts are removed; what is shown or about to be used stays."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from transcode.vod.attempt_cleanup import (
    mark_replaced,
    remove_attempt,
    remove_old_attempts,
    remove_unlisted,
)

HASH = "Ab3dEf6hIj9l"
FOLDERS = (
    *("1-1", "1-2", "1-3", "2-2", "poster-1-1", "poster-1-2", "own-abc", "1-s4-1-1", "1-s4-1-2"),
    *("1-s5-1-1", "2-s5-1-1"),
)


@pytest.fixture
async def objects(tmp_path: Path) -> AsyncGenerator[DiskObjects]:
    with DiskObjects(tmp_path) as opened:
        for folder in FOLDERS:
            await opened.put(f"videos/{HASH}/{folder}/360p/0.m4s", b"x")
        yield opened


async def remaining_folders(objects: DiskObjects) -> set[str]:
    return {name.split("/")[2] for name in await objects.addresses(f"videos/{HASH}")}


async def test_older_attempts_and_their_stretches_go(objects: DiskObjects) -> None:
    await remove_old_attempts(objects, HASH, keep=(), generations=range(1, 2), attempt=2, job=4)
    assert await remaining_folders(objects) == {"1-3", "2-2", "own-abc", "1-s5-1-1", "2-s5-1-1"}


async def test_what_is_kept_stays_and_so_does_what_another_file_was_made_into(
    objects: DiskObjects,
) -> None:
    keep = ("1-1", "1-s4-1-2", "poster-1-2", None)
    await remove_old_attempts(objects, HASH, keep=keep, generations=range(1, 2), attempt=9, job=9)
    assert await remaining_folders(objects) == {
        "2-2",
        "2-s5-1-1",
        "own-abc",
        "1-1",
        "1-s4-1-2",
        "poster-1-2",
    }
    await remove_old_attempts(objects, HASH, keep=("2-2",), generations=range(3), attempt=9, job=9)
    assert await remaining_folders(objects) == {"2-2", "own-abc"}


async def test_what_was_replaced_stays_for_its_viewers(objects: DiskObjects) -> None:
    """An older attempt of the same file has its own folder, an older file all of its folders."""
    await mark_replaced(objects, HASH, "1-1", generation=1, by=("1-2",))
    await remove_old_attempts(objects, HASH, keep=("1-2",), generations=range(3), attempt=9, job=9)
    assert await remaining_folders(objects) == {"1-1", "1-2", "own-abc"}
    await mark_replaced(objects, HASH, "1-2", generation=2, by=("2-2",))
    await remove_old_attempts(objects, HASH, keep=(), generations=range(3), attempt=9, job=9)
    assert await remaining_folders(objects) == {"1-1", "1-2", "own-abc"}


async def test_a_worker_that_slept_while_its_media_were_replaced_leaves_them_to_viewers(
    objects: DiskObjects,
) -> None:
    await mark_replaced(objects, HASH, "1-1", generation=1, by=("1-2",))
    await remove_attempt(objects, HASH, ["1-1", "poster-1-1", "1-9"])
    assert await remaining_folders(objects) == set(FOLDERS) - {"poster-1-1"}


async def test_what_plays_on_is_not_marked(objects: DiskObjects) -> None:
    await mark_replaced(objects, HASH, "1-1", generation=1, by=("1-1", "1-s4-1-2"))
    await mark_replaced(objects, HASH, "2-2", generation=1, by=("1-1",))
    await mark_replaced(objects, HASH, None, generation=1, by=("1-1",))
    names = await objects.addresses(f"videos/{HASH}")
    assert not any(name.endswith("/replaced") for name in names)


async def test_renditions_that_no_playlist_lists_go(objects: DiskObjects) -> None:
    await objects.put(f"videos/{HASH}/1-1/index.m3u8", b"x")
    await objects.put(f"videos/{HASH}/1-1/480p/index.m3u8", b"x")
    await objects.put(f"videos/{HASH}/1-1/480p/0.m4s", b"x")
    before = {
        name for name in await objects.addresses(f"videos/{HASH}") if "/1-1/360p/" not in name
    }
    await remove_unlisted(objects, HASH, "1-1")
    await remove_unlisted(objects, HASH, "own-abc")
    await remove_unlisted(objects, HASH, None)
    assert set(await objects.addresses(f"videos/{HASH}")) == before
