"""Copies of objects as files: made once, bounded, kept while they are lent."""

import asyncio
import threading
from pathlib import Path

import pytest

from storage.objects.base import ObjectMissing
from storage.objects.disk_threads import FILES, DiskThreads
from storage.objects.file_cache import FileCache, MakeRoom
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


class CountingSource:
    """A source of copies: the name of an object is its length in bytes."""

    def __init__(self, folder: Path, most: int = 100) -> None:
        self.asked: list[str] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.cache = FileCache(
            folder / "copies", self.copy, most_bytes=most, threads=FILES,
            may_change=lambda address: address.startswith("live"),
        )  # fmt: skip

    async def copy(self, address: str, path: Path, make_room: MakeRoom) -> int:
        self.asked.append(address)
        await self.may_go_on.wait()
        size = int(address.rpartition("/")[2])
        if not size:
            raise ObjectMissing(address)
        await make_room(size)
        write(path, size)
        return size

    async def fetch(self, address: str) -> Path:
        async with self.cache.lend(address) as path:
            assert path.stat().st_size == int(address.rpartition("/")[2])
            return path

    def kept(self) -> list[str]:
        root = self.cache.root
        return sorted(
            path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()
        )


async def test_a_copy_is_made_once_however_many_ask(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    origin.may_go_on.clear()
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(origin.fetch("a/10")) for _ in range(9)]
        await asyncio.sleep(0)
        origin.may_go_on.set()
    assert {task.result() for task in asking} == {origin.cache.root / "a/10"}
    assert await origin.fetch("a/10") == origin.cache.root / "a/10"
    assert origin.asked == ["a/10"]


async def test_all_callers_learn_that_there_is_no_object(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    origin.may_go_on.clear()

    async def ask() -> None:
        with pytest.raises(ObjectMissing):
            await origin.fetch("a/0")

    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(ask())
        await asyncio.sleep(0)
        origin.may_go_on.set()
    assert origin.asked == ["a/0"]


async def test_waiting_callers_continue_when_the_first_one_leaves(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    origin.may_go_on.clear()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(origin.fetch("a/10"))
        second = group.create_task(origin.fetch("a/10"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        origin.may_go_on.set()
    assert second.result().read_bytes() == bytes(10)
    assert origin.asked == ["a/10", "a/10"]


async def test_the_oldest_copies_go_where_there_are_too_many_bytes(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    for address in ("a/40", "b/40", "a/20", "b/30"):
        await origin.fetch(address)
    assert origin.kept() == ["a/20", "b/30", "b/40"]
    await origin.fetch("a/500")  # one that alone is more than the bound
    assert origin.kept() == ["a/500"]
    await origin.fetch("a/20")
    assert origin.kept() == ["a/20"]


async def test_a_lent_copy_stays(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    async with origin.cache.lend("a/90") as path, origin.cache.lend("a/90"):
        await origin.fetch("b/90")
        await origin.fetch("c/90")
        assert path.read_bytes() == bytes(90)
        assert origin.kept() == ["a/90", "c/90"]
    await origin.fetch("b/90")
    assert origin.kept() == ["b/90"]
    with pytest.raises(ObjectMissing):
        async with origin.cache.lend("a/0"):
            pass


async def test_copies_are_dropped_with_their_objects(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    for address in ("a/1", "a/b/2", "ab/3"):
        await origin.fetch(address)
    await origin.cache.drop(["a/1", "none/1"])
    assert origin.kept() == ["a/b/2", "ab/3"]
    await origin.cache.drop_tree("a")
    assert origin.kept() == ["ab/3"]


async def test_a_received_file_is_a_copy_at_once(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    (tmp_path / "received").write_bytes(b"a film")
    for _ in range(2):
        await origin.cache.add("sources/a/6", tmp_path / "received")
    (tmp_path / "received").unlink()
    assert (await origin.fetch("sources/a/6")).read_bytes() == b"a film"
    assert origin.asked == []
    (tmp_path / "large").write_bytes(bytes(26))  # a quarter of the bound is 25
    await origin.cache.add("sources/b/26", tmp_path / "large")
    assert origin.kept() == ["sources/a/6"]


async def test_an_object_that_changes_is_read_anew_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.objects.file_cache._CHANGING_SECONDS", 0.05)
    origin = CountingSource(tmp_path)
    await origin.fetch("live/a/10")
    await origin.fetch("videos/a/10")
    await until(lambda: origin.kept() == ["videos/a/10"])
    await origin.fetch("live/a/10")
    assert origin.asked == ["live/a/10", "videos/a/10", "live/a/10"]


async def test_a_copy_that_is_deleted_is_made_anew_when_its_file_is_gone(tmp_path: Path) -> None:
    """That holds however long the disk takes."""
    origin, gate = CountingSource(tmp_path), threading.Event()
    await origin.fetch("a/10")
    threads = DiskThreads("slow", 1)
    origin.cache = FileCache(tmp_path / "slow", origin.copy, most_bytes=100, threads=threads)
    await origin.fetch("a/10")
    busy = threads.submit(gate.wait)
    async with asyncio.TaskGroup() as group:
        group.create_task(origin.cache.drop(["a/10"]))
        await asyncio.sleep(0)
        again = group.create_task(origin.fetch("a/10"))
        await asyncio.sleep(0.01)
        assert not again.done()
        gate.set()
    await busy
    assert again.result().read_bytes() == bytes(10)
    assert origin.asked == ["a/10"] * 3


async def test_what_was_replaced_while_it_was_copied_is_copied_again(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)
    origin.may_go_on.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(origin.fetch("a/10"))
        await asyncio.sleep(0)
        await origin.cache.drop(["a/10"])
        origin.may_go_on.set()
    assert origin.asked == ["a/10", "a/10"]
    assert origin.kept() == ["a/10"]


async def test_a_caller_that_leaves_leaves_no_copy_behind(tmp_path: Path) -> None:
    origin = CountingSource(tmp_path)

    async def copy(address: str, path: Path, make_room: MakeRoom) -> int:
        size = await origin.copy(address, path, make_room)
        await asyncio.Event().wait()
        return size

    origin.cache = FileCache(tmp_path / "copies", copy, most_bytes=100, threads=FILES)
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(origin.fetch("a/10"))
        await until(lambda: origin.kept() == ["a/10"])
        leaving.cancel()
    await until(lambda: origin.kept() == [])
