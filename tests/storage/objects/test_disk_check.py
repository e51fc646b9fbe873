"""The check of a disk: whether it is there, has room, and can be written."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import open_incoming_file
from storage.objects.resumable_file import open_resumable_file
from tests.support.storage.full_disk import KIB, MIB, small_disk

pytestmark = pytest.mark.anyio


def all_paths(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("thorough", [False, True])
async def test_a_healthy_disk_passes_the_check_and_is_not_changed(
    tmp_path: Path, *, thorough: bool
) -> None:
    with DiskObjects(tmp_path) as objects:
        before = all_paths(tmp_path)
        await objects.check(min_free_bytes=1, thorough=thorough)
        assert all_paths(tmp_path) == before


async def test_a_disk_without_the_room_that_is_to_stay_free_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 * MIB) as disk, DiskObjects(disk.folder) as objects:
        await objects.check(min_free_bytes=MIB)
        disk.fill(512 * KIB)
        with pytest.raises(StoreFull, match=r"storage\.min_free_bytes is 1048576"):
            await objects.check(min_free_bytes=MIB)
        await objects.check(thorough=True)
        disk.fill(0)
        with pytest.raises(StoreFull):
            await objects.check(thorough=True)


async def test_a_folder_whose_disk_is_away_gets_nothing_in_its_place(tmp_path: Path) -> None:
    """The mount point is there, and empty; what would be written to it is lost with the mount."""
    root, away = tmp_path / "objects", tmp_path / "away"
    with DiskObjects(root) as objects:
        await objects.put("sources/AAAAAAAAAAAA/1", b"x")
        async with (
            open_resumable_file(objects, "uploads/a", "sources/a/1", wait_seconds=0) as resumed,
            open_incoming_file(objects, max_bytes=9) as inflow,
        ):
            await resumed.write(b"half")
            await inflow.write(b"half")
            await inflow.flush()
            root.rename(away)
            root.mkdir()
            calls = (
                partial(objects.put, "slates/s-a/1.jpg", b"x"),
                partial(objects.put_if, "live/a/1", b"x", None),
                partial(objects.link, "sources/AAAAAAAAAAAA/1", "videos/a/1"),
                partial(objects.move, "sources/AAAAAAAAAAAA/1", "trash/1/sources/a/1"),
                partial(resumed.keep, "sources/a/1"),
                partial(inflow.keep, "sources/b/1"),
                partial(begin_upload, objects, "uploads/b"),
                partial(receive, objects, "sources/c/1"),
            )
            for call in calls:
                with pytest.raises(StoreFailed):
                    await call()
            for read in (objects.get, objects.stat, objects.folders, objects.folder_names):
                with pytest.raises(StoreFailed, match="is its disk mounted"):
                    await read("sources")
            assert all_paths(root) == []
            root.rmdir()
            away.rename(root)
            await resumed.keep("sources/a/1")
            await inflow.keep("sources/b/1")
            await begin_upload(objects, "uploads/b")
        assert await objects.get("sources/a/1") == b""  # never flushed
        assert await objects.get("sources/b/1") == b"half"


async def begin_upload(objects: DiskObjects, address: str) -> None:
    async with open_resumable_file(objects, address, "sources/none", wait_seconds=0):
        pass


async def receive(objects: DiskObjects, address: str) -> None:
    async with open_incoming_file(objects, max_bytes=9) as inflow:
        await inflow.write(b"whole")
        await inflow.keep(address)


async def test_a_folder_whose_disk_is_away_is_not_well(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        shutil.move(tmp_path / "objects", tmp_path / "away")
        os.mkdir(tmp_path / "objects")  # noqa: PTH102  # what is left of a mount
        with pytest.raises(StoreFailed, match="not there"):
            await objects.check()
        os.rmdir(tmp_path / "objects")  # noqa: PTH106
        shutil.move(tmp_path / "away", tmp_path / "objects")
        await objects.check(thorough=True)
