"""A file that arrives in several requests: one at a time, truncated, and across crashes."""

import asyncio
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import FILES
from storage.objects.incoming_file import PIECE_BYTES
from storage.objects.resumable_file import FileStillLocked, open_resumable_file
from tests.storage.objects.test_disk_threads import occupied
from tests.support.storage.full_disk import MIB, small_disk

HOME, MOVED = "uploads/one", "sources/hash/1"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


async def test_bytes_go_behind_those_that_count(objects: DiskObjects) -> None:
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        assert await file.truncate(0) == 0
        await file.write(b"0123456789")
        await file.flush()
        assert await file.sync() == 10
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        digest = hashlib.sha256()
        assert await file.truncate(4, digest) == 4
        for letter in b"abc":
            await file.write(bytes([letter]))
        await file.flush()
        assert (file.position, await file.sync(), file.size()) == (7, 7, 7)
        assert digest.digest() == hashlib.sha256(b"abc").digest()
    assert objects.path(HOME).read_bytes() == b"0123abc"
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        assert await file.truncate(1000) == 7  # a power cut took the rest


async def test_what_is_not_flushed_is_not_there(objects: DiskObjects) -> None:
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        await file.truncate(0)
        await file.write(b"x" * 1000)
        assert (file.position, await file.sync()) == (1000, 0)
    assert objects.path(HOME).stat().st_size == 0


async def test_a_write_that_was_cancelled_is_made_up_for(objects: DiskObjects) -> None:
    digest = hashlib.sha256()
    async with (
        open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file,
        asyncio.TaskGroup() as tasks,
    ):
        await file.truncate(0, digest)
        with occupied(FILES, tasks):
            await asyncio.sleep(0)  # the threads get their work
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await file.write(b"x" * PIECE_BYTES)
        await file.write(b"y")
        await file.flush()
        assert file.position == await file.sync() == PIECE_BYTES + 1
    data = objects.path(HOME).read_bytes()
    assert data == b"x" * PIECE_BYTES + b"y"
    assert digest.digest() == hashlib.sha256(data).digest()


async def test_a_write_that_ended_after_it_was_cancelled_is_not_repeated(
    objects: DiskObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on, write = threading.Event(), os.pwrite

    def write_some(file: int, data: memoryview, start: int) -> int:
        going_on.wait()
        return write(file, data[:5], start)

    monkeypatch.setattr(os, "pwrite", write_some)
    digest = hashlib.sha256()
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        await file.truncate(0, digest)
        for data in (b"0123456", b"789"):
            await file.write(data)
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await file.flush()
        finally:
            going_on.set()
        await file.write(b"abc")
        await file.flush()
    data = objects.path(HOME).read_bytes()
    assert data == b"0123456789abc"
    assert digest.digest() == hashlib.sha256(data).digest()


async def test_one_at_a_time_holds_it(objects: DiskObjects) -> None:
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        await file.truncate(0)
        with pytest.raises(FileStillLocked):
            async with open_resumable_file(objects, HOME, MOVED, wait_seconds=0.1):
                pass
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=0.1) as file:
        assert await file.truncate(0) == 0


async def test_who_gave_up_holds_no_lock(
    objects: DiskObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk locks the file only when the caller has given up."""
    may_lock = threading.Event()
    lock = fcntl.flock

    def flock(file: int, operation: int) -> None:
        may_lock.wait()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(TimeoutError):
        async with (
            asyncio.timeout(0.05),
            open_resumable_file(objects, HOME, MOVED, wait_seconds=10),
        ):
            pass
    may_lock.set()
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=5) as file:
        assert await file.truncate(0) == 0


async def test_a_closed_file_changes_no_other_file(objects: DiskObjects) -> None:
    """Another file has the descriptor by then."""
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        await file.truncate(0)
    await objects.put("a/other", b"other")
    others = [os.open(objects.path("a/other"), os.O_RDWR) for _ in range(20)]
    try:
        with pytest.raises(StoreFailed, match="Bad file descriptor"):
            await file.truncate(0)
        with pytest.raises(StoreFailed, match="Bad file descriptor"):
            await file.sync()
        with pytest.raises(StoreFailed, match="Bad file descriptor"):
            await file.keep(MOVED)
    finally:
        for other in others:
            os.close(other)
    assert await objects.get("a/other") == b"other"
    assert objects.path(HOME).exists()


async def test_a_file_that_was_moved_is_found_and_taken_back(objects: DiskObjects) -> None:
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        await file.truncate(0)
        await file.write(b"whole")
        await file.flush()
        await file.keep(MOVED)
        assert file.is_relocated
        assert not objects.path(HOME).exists()
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        assert file.is_relocated  # reading changes nothing
    assert objects.path(MOVED).read_bytes() == b"whole"
    async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
        assert await file.truncate(5) == 5
        assert not file.is_relocated
    assert objects.path(HOME).read_bytes() == b"whole"
    assert not objects.path(MOVED).exists()


async def test_the_lock_goes_with_the_process(objects: DiskObjects, tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from storage.objects.resumable_file import open_resumable_file\n"
        "from storage.objects.disk import DiskObjects\n"
        "async def go():\n"
        "    with DiskObjects(Path(sys.argv[1])) as objects:\n"
        f"        opening = open_resumable_file(objects, {HOME!r}, {MOVED!r}, wait_seconds=10)\n"
        "        async with opening as file:\n"
        "            await file.truncate(0)\n"
        "            await file.write(b'x' * 1_000_000)\n"
        "            print('held', flush=True)\n"
        "            await asyncio.sleep(600)\n"
        "asyncio.run(go())\n"
    )
    child = subprocess.Popen(  # noqa: ASYNC220  # a process to be killed
        [sys.executable, "-c", script, str(objects.root)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(FileStillLocked):
            async with open_resumable_file(objects, HOME, MOVED, wait_seconds=0.1):
                pass
        child.send_signal(signal.SIGKILL)
        async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
            assert await file.truncate(10) == 10
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


async def test_a_full_disk_keeps_what_fits_and_reports_how_much(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 8 * MIB) as disk,
        DiskObjects(disk.folder / "objects", reserve_bytes=0) as objects,
    ):
        async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
            await file.truncate(0)
            with pytest.raises(StoreFull):
                while True:
                    await file.write(b"x" * MIB)
            written_bytes = await file.sync()
            assert written_bytes == file.size() > 0
        async with open_resumable_file(objects, HOME, MOVED, wait_seconds=10) as file:
            assert await file.truncate(written_bytes) == written_bytes


async def test_room_that_is_to_stay_free_stays_so(objects: DiskObjects) -> None:
    async with open_resumable_file(
        objects, HOME, MOVED, wait_seconds=10, min_free_bytes=1 << 60
    ) as file:
        await file.truncate(0)
        await file.write(b"x")
        with pytest.raises(StoreFull):
            await file.flush()
        assert await file.sync() == 0
