"""Reading files for viewers."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from api.http.open_file import FileOpener, open_file
from tests.support.manual_clock import ManualClock
from tests.support.waiting import until

MEGABYTE = 1 << 20


async def test_a_file_is_read_in_pieces_of_any_range(tmp_path: Path) -> None:
    data = os.urandom(MEGABYTE + 12_345)
    path = tmp_path / "x"
    path.write_bytes(data)

    for start, stop in [(0, len(data)), (0, 1), (MEGABYTE, len(data)), (300_000, 900_001)]:
        file = open_file(path)
        pieces = [piece async for piece in file.read(start, stop)]
        file.close()
        assert b"".join(pieces) == data[start:stop]
        assert max(map(len, pieces)) <= 256 * 1024


async def test_a_file_that_is_not_in_memory_is_read_too(tmp_path: Path) -> None:
    data = os.urandom(MEGABYTE)
    path = tmp_path / "x"
    path.write_bytes(data)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    file = open_file(path)
    assert b"".join([piece async for piece in file.read(0, file.size)]) == data
    file.close()


@pytest.mark.real
async def test_a_file_that_became_shorter_is_an_error_and_not_a_short_answer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(1000))

    file = open_file(path)
    os.truncate(path, 400)
    try:
        with pytest.raises(OSError, match="truncated"):
            [piece async for piece in file.read(0, file.size)]
    finally:
        file.close()


async def test_an_open_file_is_still_read_after_it_was_replaced(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "x", tmp_path / "y"
    path.write_bytes(b"old")
    other.write_bytes(b"newer")

    file = open_file(path)
    tag = file.tag
    other.replace(path)
    assert [piece async for piece in file.read(0, file.size)] == [b"old"]
    file.close()
    file = open_file(path)
    assert file.tag != tag
    file.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "x")


# -- opening --------------------------------------------------------------------------------------


def has_open(path: Path) -> bool:
    """Return whether this process has a file open."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            if descriptor.readlink() == path:
                return True
    return False


async def test_a_file_is_known_for_a_while_after_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"media")
    clock = ManualClock(100.0)
    opener = FileOpener(clock)
    assert opener.open_known(str(path)) is None
    first = await opener.open(str(path))
    assert first is not None
    first.close()
    for seconds in (9.0, 9.0):  # each opening renews the entry
        clock.now += seconds
        reopened = opener.open_known(str(path))
        assert reopened is not None
        assert reopened.size == 5
        reopened.close()
    clock.now += 10.1
    assert opener.open_known(str(path)) is None


async def test_opening_a_file_that_does_not_exist_returns_none(tmp_path: Path) -> None:
    path = tmp_path / "x"
    opener = FileOpener()
    assert await opener.open(str(path)) is None
    path.write_bytes(b"media")
    file = await opener.open(str(path))
    assert file is not None
    file.close()
    path.unlink()
    assert opener.open_known(str(path)) is None


async def test_the_event_loop_is_not_blocked_while_a_disk_opens_a_file(tmp_path: Path) -> None:
    """Opening a named pipe blocks until its other end is opened, like a file on a sleeping disk."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    opener = FileOpener()
    loop = asyncio.get_running_loop()
    turns: list[float] = []
    async with asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(opener.open(str(path)))
        while len(turns) < 5:
            await asyncio.sleep(0.01)
            turns.append(loop.time())
        assert not opening.done()
        os.close(os.open(path, os.O_WRONLY))
    file = opening.result()
    assert file is not None
    file.close()


async def test_a_file_opened_for_a_cancelled_request_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    opener = FileOpener()
    async with asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(opener.open(str(path)))
        await asyncio.sleep(0.05)
        opening.cancel()
    os.close(os.open(path, os.O_WRONLY))
    await until(lambda: not has_open(path))
    assert opening.cancelled()
