import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import FILES, LIVE, VIEWERS, DiskThreads
from storage.objects.incoming_file import PIECE_BYTES, open_incoming_file


@contextmanager
def occupied(threads: DiskThreads, tasks: asyncio.TaskGroup, count: int = 64) -> Generator[None]:
    """Occupy all threads of a pool with waiting work for the length of the block."""
    going_on = threading.Event()
    for _ in range(count):
        tasks.create_task(threads.run(going_on.wait))
    try:
        yield
    finally:
        going_on.set()


async def upload(objects: DiskObjects) -> None:
    async with open_incoming_file(objects, max_bytes=1 << 30) as incoming:
        await incoming.write(bytes(PIECE_BYTES))


async def test_work_runs_in_a_thread_that_names_its_pool() -> None:
    for threads, name in ((LIVE, "disk-live"), (VIEWERS, "disk-viewers"), (FILES, "disk-files")):
        assert (await threads.run(lambda: threading.current_thread().name)).startswith(name)


async def test_an_error_of_the_work_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await FILES.run(lambda: 1 // 0)


async def test_no_more_threads_than_the_pool_has_work_at_once() -> None:
    threads = DiskThreads("test", 3)
    at_work, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.02)
        with lock:
            at_work -= 1

    async def scenario() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(threads.run(work))

    await scenario()
    assert most == 3


async def test_a_live_segment_is_stored_while_uploads_occupy_their_threads(tmp_path: Path) -> None:
    async def scenario() -> float:
        with DiskObjects(tmp_path) as objects:
            live = objects.using(LIVE)
            async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
                with occupied(FILES, tasks):
                    uploading = tasks.create_task(upload(objects))
                    began = time.monotonic()
                    await live.put("live/Ab3dEf6hIj9l/run/720p/0.m4s", b"segment")
                    elapsed = time.monotonic() - began
                    assert not uploading.done()
            assert await objects.get("live/Ab3dEf6hIj9l/run/720p/0.m4s") == b"segment"
            return elapsed

    assert await scenario() < 1.0
