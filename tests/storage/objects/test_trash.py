"""The trash on the real disk: what goes there, how it is put back, and when it is emptied."""

import shutil
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed
from storage.objects.disk import DiskObjects
from storage.objects.trash import discard, empty_trash, find_trash
from tests.support.storage.undeletable_disk import UndeletableDisk

pytestmark = pytest.mark.anyio

DAY_US = 86_400_000_000
NOW_US = int(datetime(2026, 11, 22, 16, 13, 57, tzinfo=UTC).timestamp()) * 1_000_000
STAMP = "trash/20261122T161357Z"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path) as opened:
        yield opened


async def test_objects_and_folders_keep_their_addresses_below_the_time(
    objects: DiskObjects,
) -> None:
    await objects.put("videos/a/1-1/360p/0.m4s", b"media")
    await objects.put("videos/a/1-2/360p/0.m4s", b"kept")
    await objects.put("slates/p-a/x.jpg", b"picture")
    await discard(objects, "videos/a/1-1", NOW_US)
    await discard(objects, "slates/p-a/x.jpg", NOW_US)
    assert await objects.addresses("videos") == ["videos/a/1-2/360p/0.m4s"]
    assert await objects.addresses("slates") == []
    assert await objects.addresses("trash") == [
        f"{STAMP}/slates/p-a/x.jpg",
        f"{STAMP}/videos/a/1-1/360p/0.m4s",
    ]


async def test_what_is_put_back_is_as_it_was(objects: DiskObjects, tmp_path: Path) -> None:
    await objects.put("videos/a/1-1/360p/0.m4s", b"media")
    await objects.put("videos/a/1-2/360p/0.m4s", b"kept")
    await discard(objects, "videos/a/1-1", NOW_US)
    shutil.copytree(tmp_path / STAMP, tmp_path, dirs_exist_ok=True)
    assert await objects.get("videos/a/1-1/360p/0.m4s") == b"media"
    assert await objects.get("videos/a/1-2/360p/0.m4s") == b"kept"


async def test_what_is_gone_already_is_no_error(objects: DiskObjects) -> None:
    await discard(objects, "videos/none", NOW_US)
    assert await objects.addresses("trash") == []


async def test_nothing_in_the_trash_is_replaced(objects: DiskObjects) -> None:
    for data in (b"one", b"two"):
        await objects.put("videos/a/x", data)
        if data == b"one":
            await discard(objects, "videos/a", NOW_US)
    with pytest.raises(StoreFailed):
        await discard(objects, "videos/a", NOW_US)
    assert await objects.get(f"{STAMP}/videos/a/x") == b"one"
    assert await objects.get("videos/a/x") == b"two"


async def test_what_cannot_be_deleted_keeps_nothing_else(tmp_path: Path) -> None:
    with UndeletableDisk(tmp_path, STAMP) as objects:
        for later in range(3):
            await objects.put(f"videos/{later}/x", b"x")
            await discard(objects, f"videos/{later}", NOW_US + later * DAY_US)
        with pytest.raises(StoreFailed):
            await empty_trash(objects, NOW_US + DAY_US)
        assert [each.split("/")[-2] for each in await objects.addresses("trash")] == ["0", "2"]


async def test_it_is_emptied_by_the_time_of_the_cleanup(objects: DiskObjects) -> None:
    for age in (2, 1, 0):
        await objects.put(f"videos/{age}/x", b"x")
        await discard(objects, f"videos/{age}", NOW_US - age * DAY_US)
    await objects.put("trash/mine/x", b"an operator's")
    assert len(await find_trash(objects)) == 3
    assert await empty_trash(objects, NOW_US - 2 * DAY_US - 1_000_000) == 0
    assert await empty_trash(objects, NOW_US - 1 * DAY_US) == 2
    assert await find_trash(objects) == [STAMP]
    assert await empty_trash(objects, NOW_US) == 1
    assert await objects.addresses("trash") == ["trash/mine/x"]
