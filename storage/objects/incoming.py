"""A file on its way in: taken piece by piece, counted, and kept as an object or not at all.

It stands in a temporary of this process until `keep` renames it, so whatever ends its arrival (a
client that goes away, a limit, an error, a kill) leaves nothing at any address, and nothing on the
disk once the block or the process is over. Nothing is fsynced (see `storage.objects.disk`).

A piece is written in a thread as soon as `PIECE_BYTES` have come, and `write` waits for it: who
sends faster than the disk takes is held up, and no more than a piece is in memory.
"""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from storage.errors import StorageError
from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects

__all__ = ["PIECE_BYTES", "IncomingFile", "IncomingFileTooLarge", "open_incoming_file"]

PIECE_BYTES: Final = 1 << 19
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# A disk that does not take half a megabyte in this time is as good as broken.
_SECONDS: Final = 20.0
_NAME: Final = "incoming file"  # it has no address yet, and its path is nobody's business


class IncomingFileTooLarge(StorageError):
    """More than `most` bytes came; whose fault it is, the sender's."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes came")
        self.limit = limit


class IncomingFile:
    """A file that is arriving; one task at a time may use it."""

    def __init__(self, objects: DiskObjects, *, max_bytes: int, min_free_bytes: int) -> None:
        self._objects = objects
        self._most = max_bytes
        self._spare = min_free_bytes
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._lock = threading.Lock()  # a write that was given up on may still be under way
        self._file: int | None = None
        self._over = False
        self.path: Path = objects.temporary()
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Take bytes, which must not be changed afterwards.

        Raises:
            IncomingFileTooLarge: they are more than may come.
            StoreFull: there is no room, or less than is to stay free.
            StoreFailed: the disk failed.
        """
        self.size += len(data)
        if self.size > self._most:
            raise IncomingFileTooLarge(self._most)
        self._pieces.append(data)
        self._waiting += len(data)
        if self._waiting >= PIECE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Have all that came stand at `path`, for who reads the file before it is kept.

        Raises:
            StoreFull: as in `write`.
            StoreFailed: as in `write`.
        """
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        await _in_thread(lambda: self._write(pieces))

    async def restart(self) -> None:
        """Forget what came: it comes again, from its beginning.

        Raises:
            StoreFailed: the disk failed.
        """
        self._pieces, self._waiting, self.size = [], 0, 0
        await _in_thread(self._restart)

    async def keep(self, address: str) -> None:
        """Make an object of the file, at an address that has none.

        Raises:
            StoreFull: as in `write`.
            StoreFailed: as in `write`.
        """
        target = self._objects.path(address)
        await self.flush()
        await _in_thread(lambda: self._keep(target))

    async def discard(self) -> None:
        """Remove what is not kept; the file that is stays."""
        # What a disk that hangs does not let go of now goes with the process.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                await asyncio.to_thread(self._discard)

    # -- what runs in threads ---------------------------------------------------------------------

    def _write(self, pieces: list[bytes]) -> None:
        with self._lock:
            if self._over:
                return
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._file = os.open(self.path, flags, 0o600)
            if self._spare:
                room = os.fstatvfs(self._file)
                if room.f_bavail * room.f_frsize < self._spare:
                    raise OSError(errno.ENOSPC, "less room than is to stay free")
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(self._file, rest) :]

    def _restart(self) -> None:
        with self._lock:
            if self._file is not None:
                os.ftruncate(self._file, 0)
                os.lseek(self._file, 0, os.SEEK_SET)

    def _keep(self, target: Path) -> None:
        with self._lock:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.path.rename(target)

    def _discard(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._over = True
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self.path.unlink(missing_ok=True)


async def _in_thread(work: Callable[[], None]) -> None:
    try:
        async with asyncio.timeout(_SECONDS):
            await asyncio.to_thread(work)
    except TimeoutError as error:
        raise StoreFailed(_NAME, f"no answer within {_SECONDS:.0f} s") from error
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreFailed
        # The library's text would name the path on this machine.
        raise kind(_NAME, os.strerror(error.errno or errno.EIO)) from error


@asynccontextmanager
async def open_incoming_file(
    objects: DiskObjects, *, max_bytes: int, min_free_bytes: int = 0
) -> AsyncGenerator[IncomingFile, None]:
    """Take a file of at most `most` bytes in; it is gone after the block unless it was kept.

    `spare` is how many bytes of the disk are to stay free.
    """
    inflow = IncomingFile(objects, max_bytes=max_bytes, min_free_bytes=min_free_bytes)
    try:
        yield inflow
    finally:
        await inflow.discard()
