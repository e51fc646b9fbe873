"""Files on their way in: kept whole, or gone."""

import asyncio
import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import (
    PIECE_BYTES,
    IncomingFileTooLarge,
    open_incoming_file,
    write_at,
)


def remaining_files(root: Path) -> list[Path]:
    """Return every file below the root, but for the reserve."""
    return [path for path in root.rglob("*") if path.is_file() and path.name != "reserve"]


async def test_a_kept_file_is_whole_at_its_address(tmp_path: Path) -> None:
    whole = os.urandom(3 * PIECE_BYTES + 12_345)
    with DiskObjects(tmp_path) as objects:
        async with open_incoming_file(objects, max_bytes=len(whole)) as inflow:
            for start in range(0, len(whole), 65_537):
                await inflow.write(whole[start : start + 65_537])
            assert inflow.size == len(whole)
            await inflow.keep("sources/a/1")
        assert await objects.get("sources/a/1") == whole
        assert remaining_files(tmp_path) == [tmp_path / "sources/a/1"]


async def test_a_flushed_file_can_be_read_before_it_is_kept(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        async with open_incoming_file(objects, max_bytes=10) as inflow:
            await inflow.write(b"abc")
            await inflow.flush()
            assert inflow.path.read_bytes() == b"abc"
            await inflow.write(b"def")
            await inflow.keep("sources/a/1")
        assert await objects.get("sources/a/1") == b"abcdef"


async def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        async with open_incoming_file(objects, max_bytes=10) as inflow:
            await inflow.keep("sources/a/1")
        assert await objects.get("sources/a/1") == b""


@pytest.mark.parametrize("most", [0, 5, PIECE_BYTES, 2 * PIECE_BYTES])
async def test_one_byte_too_many_leaves_nothing(tmp_path: Path, most: int) -> None:
    with DiskObjects(tmp_path) as objects:
        with pytest.raises(IncomingFileTooLarge):
            async with open_incoming_file(objects, max_bytes=most) as inflow:
                await inflow.write(b"x" * most)
                await inflow.write(b"x")
        assert remaining_files(tmp_path) == []


async def test_whatever_ends_the_block_leaves_nothing(tmp_path: Path) -> None:
    async def endless(objects: DiskObjects) -> None:
        async with open_incoming_file(objects, max_bytes=1 << 40) as inflow:
            while True:
                await inflow.write(b"x" * PIECE_BYTES)

    with DiskObjects(tmp_path) as objects:
        with pytest.raises(ZeroDivisionError):
            async with open_incoming_file(objects, max_bytes=1 << 30) as inflow:
                await inflow.write(b"x" * 2 * PIECE_BYTES)
                assert remaining_files(tmp_path)
                raise ZeroDivisionError
        assert remaining_files(tmp_path) == []
        for moment in (0.0, 0.001, 0.01, 0.05):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(moment):
                    await endless(objects)
        assert remaining_files(tmp_path) == []


async def test_room_that_is_to_stay_free_is_not_taken(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        with pytest.raises(StoreFull):
            async with open_incoming_file(objects, max_bytes=10, min_free_bytes=1 << 60) as inflow:
                await inflow.write(b"x")
                await inflow.flush()
        assert remaining_files(tmp_path) == []


async def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        # A device that is always full replaces the file.
        async with open_incoming_file(objects, max_bytes=1 << 20) as inflow:
            descriptor = os.open("/dev/full", os.O_WRONLY)
            inflow._file = descriptor  # pyright: ignore[reportPrivateUsage]
            await inflow.write(b"x")
            with pytest.raises(StoreFull) as caught:
                await inflow.flush()
            assert str(tmp_path) not in str(caught.value)


async def test_an_address_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        (tmp_path / "sources").write_bytes(b"in the way")
        with pytest.raises(StoreFailed) as caught:
            async with open_incoming_file(objects, max_bytes=10) as inflow:
                await inflow.write(b"x")
                await inflow.keep("sources/a/1")
        assert caught.value.reason in (os.strerror(errno.ENOTDIR), os.strerror(errno.EEXIST))
        assert remaining_files(tmp_path) == [tmp_path / "sources"]


async def test_a_killed_process_leaves_nothing_once_the_store_is_opened_again(
    tmp_path: Path,
) -> None:
    script = """
        import asyncio, os, signal, sys
        from pathlib import Path
        from storage.objects.disk import DiskObjects
        from storage.objects.incoming_file import open_incoming_file

        async def go():
            with DiskObjects(Path(sys.argv[1])) as objects:
                async with open_incoming_file(objects, max_bytes=1 << 30) as inflow:
                    await inflow.write(b"x" * (1 << 21))
                    os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(go())
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    await asyncio.to_thread(subprocess.run, command, timeout=60, check=False)
    assert remaining_files(tmp_path)
    with DiskObjects(tmp_path):
        assert remaining_files(tmp_path) == []


def test_bytes_go_where_they_belong_in_a_file(tmp_path: Path) -> None:
    write_at(tmp_path / "file", b"cd", 2)
    write_at(tmp_path / "file", memoryview(b"ab"), 0)
    assert (tmp_path / "file").read_bytes() == b"abcd"
