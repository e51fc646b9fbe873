"""Room for what is vital, on a disk that is really full."""

import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from storage.objects.base import StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.reserve import Reserve
from tests.support.storage.full_disk import KIB, MIB, SmallDisk, small_disk

RESERVE = 64 * KIB
NOTES = b"n" * 20_000


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with small_disk(tmp_path / "disk", 2 * MIB) as volume:
        yield volume


async def test_what_is_vital_is_written_on_a_full_disk_again_and_again(disk: SmallDisk) -> None:
    with DiskObjects(disk.folder, reserve_bytes=RESERVE) as objects:
        await objects.put("run/state.json", NOTES, vital=True)
        disk.fill()
        for number in range(50):
            with pytest.raises(StoreFull):
                await objects.put("run/1.m4s", bytes(20_000))
            await objects.put("run/state.json", NOTES + bytes(number), vital=True)
            assert await objects.get("run/state.json") == NOTES + bytes(number)
        assert await objects.addresses("run") == ["run/state.json"]


async def test_without_a_reserve_nothing_is_written_and_the_old_bytes_stay(disk: SmallDisk) -> None:
    with DiskObjects(disk.folder, reserve_bytes=RESERVE) as objects:
        await objects.put("run/state.json", NOTES, vital=True)
        disk.fill()
        # Another program takes the reserve's room at the moment when it is lent.
        for path in disk.folder.glob(".temporary/*/reserve"):
            path.unlink()
        disk.fill()
        with pytest.raises(StoreFull):
            await objects.put("run/state.json", b"new" * 10_000, vital=True)
        assert await objects.get("run/state.json") == NOTES


async def test_a_store_that_is_only_read_keeps_no_room(disk: SmallDisk) -> None:
    with DiskObjects(disk.folder, reserve_bytes=RESERVE) as objects:
        assert await objects.addresses("run") == []
        assert disk.free == 2 * MIB


def test_a_reserve_is_made_when_there_is_room_and_not_before(disk: SmallDisk) -> None:
    disk.fill(leave=4 * RESERVE)
    reserve = Reserve(disk.folder / "reserve", RESERVE)
    reserve.renew()
    assert not reserve.held
    assert disk.free == 4 * RESERVE
    disk.empty()
    reserve.renew()
    assert reserve.held
    assert (disk.folder / "reserve").stat().st_blocks * 512 == RESERVE


def test_a_reserve_that_finds_no_room_after_a_loan_leaves_no_part_of_itself(
    disk: SmallDisk,
) -> None:
    reserve = Reserve(disk.folder / "reserve", RESERVE)
    reserve.renew()
    disk.fill()
    with reserve.borrowed():
        assert disk.free == RESERVE
        (disk.folder / "notes").write_bytes(bytes(RESERVE // 2))
    assert not reserve.held
    assert not (disk.folder / "reserve").exists()
    assert disk.free == RESERVE // 2


def test_loans_come_one_after_the_other(disk: SmallDisk) -> None:
    reserve = Reserve(disk.folder / "reserve", RESERVE)
    reserve.renew()
    disk.fill()
    free: list[int] = []

    def borrow() -> None:
        for _ in range(50):
            with reserve.borrowed():
                free.append(disk.free)

    threads = [threading.Thread(target=borrow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert free == [RESERVE] * 200
    assert reserve.held
