"""A file that arrives in one go: written piece by piece, and kept as an object or removed.

The bytes go to a temporary file of this process until `keep` renames it. However the transfer ends
(the client disconnects, a limit, an error, a kill), no address ever shows a partial file, and
nothing is left on the disk once the block or the process is over. A file that was kept survives a
power cut: a row may name it.

A piece is written in a thread once `PIECE_BYTES` have arrived, and `write` waits for it: a sender
faster than the disk is slowed down, and no more than one piece is held in memory.
"""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from storage.errors import StorageError
from storage.objects.base import StoreFailed
from storage.objects.disk import SYNC_SECONDS
from storage.objects.disk_threads import FILES, DiskThreads
from storage.objects.read_only import disk_failure
from storage.objects.store import MediaStore

PIECE_BYTES: Final = 1 << 19
# A disk that cannot write half a megabyte in this time is treated as broken.
_SECONDS: Final = 20.0
# A large file is written through as it arrives, so that keeping it does not wait for all of it.
_SYNC_EVERY: Final = 64 << 20
_NAME: Final = "incoming file"  # shown in errors instead of the path on this machine


T = TypeVar("T")


class IncomingFileTooLarge(StorageError):
    """The sender sent more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes came")
        self.limit = limit


class IncomingFile:
    """A file that is being received. Only one task at a time may use it.

    `path` is its temporary place, `size` the bytes received so far.
    """

    def __init__(self, objects: MediaStore, *, max_bytes: int, min_free_bytes: int) -> None:
        self._objects = objects
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._lock = threading.Lock()  # a write that timed out may still be running
        self._file: int | None = None
        self._over = False
        self._unsynced = 0
        self.path: Path = objects.scratch.temporary()
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Append bytes, which must not be changed afterwards.

        Raises:
            IncomingFileTooLarge: the file exceeds its limit.
            StoreFull: the disk has no room, or less than `min_free_bytes`.
            StoreFailed: the disk failed.
        """
        self.size += len(data)
        if self.size > self._max_bytes:
            raise IncomingFileTooLarge(self._max_bytes)
        self._pieces.append(data)
        self._waiting += len(data)
        if self._waiting >= PIECE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write all received bytes to `path`, so that the file can be read before it is kept.

        Raises:
            StoreFull: as in `write`.
            StoreFailed: as in `write`.
        """
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        await in_thread(lambda: self._write(pieces))

    async def keep(self, address: str) -> None:
        """Turn the file into the object at `address`, which must not exist.

        The object survives a power cut.

        Raises:
            StoreFull: as in `write`.
            StoreFailed: as in `write`.
        """
        place = self._objects.placing(address)
        await self.flush()
        if place is not None:
            await in_thread(lambda: self._place(place), SYNC_SECONDS)
        else:
            await self._objects.send(self.path, address)

    async def discard(self) -> None:
        """Delete the file unless it was kept."""
        # If the disk hangs, the file goes with the process instead.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                await FILES.run(self._discard)

    # -- in threads -------------------------------------------------------------------------------

    def _write(self, pieces: list[bytes]) -> None:
        with self._lock:
            if self._over:
                return
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._file = os.open(self.path, flags, 0o600)
            check_free(self._file, self._min_free_bytes)
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                self._unsynced += len(piece)
            if self._unsynced >= _SYNC_EVERY:
                os.fdatasync(self._file)
                self._unsynced = 0

    def _place(self, place: Callable[[int, Path], Path]) -> None:
        with self._lock:
            if self._file is None:  # nothing was written: there is no file
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            place(self._file, self.path)

    def _discard(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._over = True
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self.path.unlink(missing_ok=True)


def check_free(file: int | Path, min_free_bytes: int) -> None:
    """Raise ENOSPC if the disk of a file has less than `min_free_bytes` free, unless that is 0."""
    if min_free_bytes:
        room = os.statvfs(file)
        if room.f_bavail * room.f_frsize < min_free_bytes:
            raise OSError(errno.ENOSPC, "less room than must stay free")


def write_at(path: Path, data: bytes | memoryview, start: int) -> None:
    """Write bytes at an offset of a file, which is created if there is none; it blocks.

    The file is opened for each call: a caller that is cancelled cannot close what a thread still
    writes to.
    """
    rest = memoryview(data)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while rest:
            count = os.pwrite(file, rest, start)
            rest, start = rest[count:], start + count
    finally:
        os.close(file)


async def in_thread(
    work: Callable[[], T],
    seconds: float = _SECONDS,
    *,
    name: str = _NAME,
    threads: DiskThreads = FILES,
) -> T:
    """Run blocking file work in a thread and translate its errors, which show `name`.

    Raises:
        StoreFull: the disk has no room.
        StoreFailed: the disk failed or did not answer within `seconds`.
    """
    async with disk_errors(seconds, name):
        return await threads.run(work)


@asynccontextmanager
async def disk_errors(seconds: float, name: str = _NAME) -> AsyncGenerator[None, None]:
    """Translate the errors of a block that waits for a thread, as `in_thread` does."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StoreFailed(name, f"no answer within {seconds:.0f} s") from error
    except OSError as error:
        raise disk_failure(name, error) from error


@asynccontextmanager
async def open_incoming_file(
    objects: MediaStore, *, max_bytes: int, min_free_bytes: int = 0
) -> AsyncGenerator[IncomingFile, None]:
    """Receive a file of at most `max_bytes`; it is deleted after the block unless it was kept.

    `min_free_bytes` of the disk stay free.
    """
    inflow = IncomingFile(objects, max_bytes=max_bytes, min_free_bytes=min_free_bytes)
    try:
        yield inflow
    finally:
        await inflow.discard()
