"""The check of a disk: whether it is there, has room, and can be written."""

import os
import shutil
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
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


async def test_a_folder_whose_disk_is_away_is_not_well(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        shutil.move(tmp_path / "objects", tmp_path / "away")
        os.mkdir(tmp_path / "objects")  # noqa: PTH102  # what is left of a mount
        with pytest.raises(StoreFailed, match="not there"):
            await objects.check()
        os.rmdir(tmp_path / "objects")  # noqa: PTH106
        shutil.move(tmp_path / "away", tmp_path / "objects")
        await objects.check(thorough=True)
