"""The check of a disk: whether it is there, has room, and can be written where media go."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from storage.objects.addresses import MEDIA_FOLDERS
from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.disk_check import check_folder, room_problem
from storage.objects.incoming_file import open_incoming_file
from storage.objects.resumable_file import open_resumable_file
from tests.support.storage.full_disk import KIB, MIB, small_disk

pytestmark = pytest.mark.anyio

VIDEO = "videos/AAAAAAAAAAAA/1-1/index.m3u8"
LINUX_CAPABILITY_VERSION_3 = 0x20080522


def all_paths(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def make_folders(root: Path) -> None:
    for name in MEDIA_FOLDERS:
        (root / name).mkdir()


@pytest.mark.parametrize("thorough", [False, True])
async def test_a_healthy_disk_passes_the_check_and_is_not_changed(
    tmp_path: Path, *, thorough: bool
) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put(VIDEO, b"media")
        before = all_paths(tmp_path)
        await objects.check(min_free_bytes=1, thorough=thorough)
        assert all_paths(tmp_path) == before


async def test_a_check_that_was_killed_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put(VIDEO, b"media")
        (tmp_path / "videos" / ".check").write_bytes(b"of a killed process")
        assert await objects.folder_names("videos") == {"AAAAAAAAAAAA"}
        await objects.check(thorough=True)
        assert [each.name for each in (tmp_path / "videos").iterdir()] == ["AAAAAAAAAAAA"]


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


async def test_a_disk_with_free_bytes_and_no_inodes_is_full(tmp_path: Path) -> None:
    lacking = r"room for 0 more files, .* no inodes are left"
    mounted = small_disk(tmp_path / "disk", 64 * MIB, inodes=1100)
    with mounted as disk, DiskObjects(disk.folder) as objects:
        await objects.check(min_free_bytes=MIB, thorough=True)
        taken = [disk.folder / f"{number}" for number in range(1100)]
        with pytest.raises(OSError, match="No space left on device"):
            for path in taken:
                path.touch()
        assert disk.free > 60 * MIB
        for thorough in (False, True):
            with pytest.raises(StoreFull, match=lacking):
                await objects.check(min_free_bytes=MIB, thorough=thorough)
        for path in taken:
            path.unlink(missing_ok=True)
        await objects.check(min_free_bytes=MIB, thorough=True)


def test_a_disk_that_counts_no_inodes_lacks_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As btrfs answers, whose inodes are made as they are needed."""
    fields = list(os.statvfs(tmp_path))
    fields[5:8] = 0, 0, 0

    def without_inodes(folder: Path) -> os.statvfs_result:
        assert folder == tmp_path
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", without_inodes)
    assert room_problem(tmp_path, 1) is None


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
            for read in (objects.get, objects.stat, objects.folder_names):
                with pytest.raises(StoreFailed, match="is its disk mounted"):
                    await read("sources")
            with pytest.raises(StoreFailed, match="is its disk mounted"):
                await objects.get_all(["sources/AAAAAAAAAAAA/1"])
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


@pytest.mark.parametrize("name", ["videos", "live", "trash"])
async def test_a_folder_that_is_a_disk_of_its_own_cannot_be_written(
    tmp_path: Path, name: str
) -> None:
    with DiskObjects(tmp_path) as objects, small_disk(tmp_path / "other", MIB) as disk:
        (tmp_path / name).symlink_to(disk.folder)
        with pytest.raises(StoreFailed, match=r": Invalid cross-device link$"):
            await objects.put(f"{name}/a", b"media")
        for thorough in (False, True):
            with pytest.raises(StoreFailed, match=f"the folder {name} of the store: it is a disk"):
                await objects.check(thorough=thorough)


@contextmanager
def bind_mounted(folder: Path, *options: str) -> Generator[None]:
    """Mount a folder onto itself for the length of the block."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        if options:
            subprocess.run(
                ["mount", "-o", ",".join(("remount", "bind", *options)), folder], check=True
            )
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a folder")
async def test_a_folder_that_is_mounted_without_writing_is_named(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        make_folders(tmp_path)
        with (
            bind_mounted(tmp_path / "videos", "ro"),
            pytest.raises(StoreFailed, match="folder videos of the store: Read-only file system"),
        ):
            await objects.check()
        await objects.check(thorough=True)
        # The same disk, and yet another mount: only a rename shows it.
        with bind_mounted(tmp_path / "videos"):
            await objects.check()
            with pytest.raises(StoreFailed, match="videos of the store: it is a disk of its own"):
                await objects.check(thorough=True)


def without_capabilities() -> None:
    """Let this thread, and no other, obey the permissions of files even if it is root's."""
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, data) == 0


def test_a_folder_of_another_user_is_named(tmp_path: Path) -> None:
    make_folders(tmp_path)
    (tmp_path / "videos").chmod(0o555)
    check = partial(check_folder, tmp_path, tmp_path / "temporary", min_free_bytes=0)

    def check_without_capabilities() -> None:
        without_capabilities()
        for thorough in (False, True):
            with pytest.raises(StoreFailed, match="folder videos of the store: Permission denied"):
                check(thorough=thorough)
        (tmp_path / "videos").chmod(0o755)
        check(thorough=True)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(check_without_capabilities).result()
