"""Reads files without blocking the event loop.

A live segment is a few seconds old and in the page cache: `preadv` with RWF_NOWAIT copies it at
once (0.29 ms of CPU for 2 MB, against 0.99 ms through a thread) and fails if it would have to wait
for the disk; only then a thread reads. No such flag exists for opening, so a thread opens a file
whose directory entry the kernel may not have in memory: one that was not opened for a while.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Final

from storage.objects.disk_threads import VIEWERS

_PIECE: Final = 256 * 1024
_BYTE: Final = bytearray(1)  # a buffer whose content is not used
# The kernel keeps the entry of a file that was opened so recently.
_KNOWN_SECONDS: Final = 10.0
# As for other objects: a disk that does not answer for this long is treated as broken.
_OPEN_SECONDS: Final = 20.0
# Files that are remembered, 150 bytes each: what a thousand viewers get within that time.
_MAX_KNOWN: Final = 4096
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)  # Linux 4.14 and later


class OpenFile:
    """An open file; its content is stable, since objects are replaced by renaming."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        stat = os.fstat(handle)
        self.size = stat.st_size
        self.changed_ns = stat.st_mtime_ns

    @property
    def tag(self) -> str:
        """The entity tag, with quotes."""
        return f'"{self.changed_ns:x}-{self.size:x}"'

    def is_in_memory(self, start: int, stop: int) -> bool:
        """Return True if the first and the last byte of a range are in the page cache."""
        return _is_cached(self.handle, start) and _is_cached(self.handle, stop - 1)

    async def read(self, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `start` to before `stop`, in pieces.

        Raises:
            OSError: the disk failed, or the file was truncated.
        """
        while start < stop:
            piece = await self.read_some(start, min(_PIECE, stop - start))
            start += len(piece)
            yield piece

    async def read_some(self, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start` on, at least one.

        Raises:
            OSError: the disk failed, or the file was truncated.
        """
        piece = _read_cached(self.handle, length, start)
        if piece is None:
            piece = await VIEWERS.run(partial(os.pread, self.handle, length, start))
        if not piece:
            raise OSError("the file was truncated while it was being read")
        return piece

    def close(self) -> None:
        """Close the file."""
        os.close(self.handle)


def open_file(path: str | Path) -> OpenFile:
    """Open a file; the caller closes it.

    Raises:
        OSError: it does not exist or cannot be read.
    """
    return OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))


class FileOpener:
    """Opens files of viewers, and remembers which ones were opened recently.

    `clock` is a monotonic one in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._opened_at: dict[str, float] = {}

    def open_known(self, path: str) -> OpenFile | None:
        """Open a file that was opened recently; None if it was not, or does not exist any more.

        Raises:
            OSError: it cannot be read.
        """
        opened_at = self._opened_at.get(path)
        if opened_at is None or self._clock() - opened_at > _KNOWN_SECONDS:
            return None
        try:
            file = open_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        self._remember(path)
        return file

    async def open(self, path: str) -> OpenFile | None:
        """Open a file in a thread; None if it does not exist.

        Raises:
            OSError: it cannot be read, or the disk does not answer within 20 s (`TimeoutError`).
        """
        opening = VIEWERS.submit(partial(open_file, path))
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                file = await _unless_cancelled(opening)
        except (FileNotFoundError, NotADirectoryError):
            return None
        self._remember(path)
        return file

    def _remember(self, path: str) -> None:
        self._opened_at.pop(path, None)
        if len(self._opened_at) >= _MAX_KNOWN:
            del self._opened_at[next(iter(self._opened_at))]
        self._opened_at[path] = self._clock()


async def _unless_cancelled(opening: "asyncio.Future[OpenFile]") -> OpenFile:
    """Return the file that a thread opens; if the wait is cancelled, close it once it is open."""
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: "asyncio.Future[OpenFile]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _is_cached(handle: int, at: int) -> bool:
    if _NOWAIT is None:
        return False
    try:
        return os.preadv(handle, [_BYTE], at, _NOWAIT) == 1
    except OSError:
        return False


def _read_cached(handle: int, length: int, start: int) -> bytes | None:
    """Return bytes from the page cache, or None if the disk would have to be read."""
    if _NOWAIT is None:
        return None
    buffer = bytearray(length)
    try:
        count = os.preadv(handle, [buffer], start, _NOWAIT)
    except OSError:  # EAGAIN: not cached; EOPNOTSUPP: not supported by the file system
        return None
    return bytes(memoryview(buffer)[:count])
