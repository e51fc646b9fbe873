"""A list in pages on a real disk, with pages that a power cut took."""

from pathlib import Path

import pytest

from delivery.run.page_log import PageLog
from storage.objects.base import StoreFull
from storage.objects.disk import DiskObjects
from tests.support.storage.engine_reports import FailingObjects


@pytest.fixture
def objects(tmp_path: Path) -> FailingObjects:
    return FailingObjects(DiskObjects(tmp_path))


def log_on(objects: FailingObjects) -> PageLog[list[int]]:
    return PageLog(objects, list[int], lambda number: f"log/{number}.json")


async def test_pages_are_read_in_the_order_asked_for(objects: FailingObjects) -> None:
    log = log_on(objects)
    for number in range(40):
        await log.write(number, [number] * 3)
    assert await log.read(7) == [7] * 3
    assert [page async for page in log.read_all(range(5, 40))] == [[n] * 3 for n in range(5, 40)]
    assert [page async for page in log.read_all(())] == []


async def test_what_a_power_cut_took_reads_as_nothing(objects: FailingObjects) -> None:
    log = log_on(objects)
    for number in range(4):
        await log.write(number, [number])
    await objects.delete("log/0.json")
    objects.disk.path("log/1.json").write_bytes(b"[1")
    objects.disk.path("log/2.json").write_bytes(b"")
    assert [page async for page in log.read_all(range(5))] == [None, None, None, [3], None]


async def test_a_page_that_finds_no_room_leaves_the_log_as_it_was(objects: FailingObjects) -> None:
    log = log_on(objects)
    objects.full = {"log/0.json"}
    with pytest.raises(StoreFull):
        await log.write(0, [0])
    assert await log.read(0) is None
