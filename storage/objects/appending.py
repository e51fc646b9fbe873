"""A file that comes in several goes, over hours and restarts: appended to by one at a time.

It stands at an address of its own from its first byte on. Who appends holds the kernel's lock on
the file, which goes with the process; how much of it counts is for the caller to remember, and what
stands behind that is cut off by whoever appends next. `sync` has what came outlive a power cut.

A piece is written in a thread as soon as `PIECE_BYTES` have come, and `write` waits for it: who
sends faster than the disk takes is held up, and no more than a piece is in memory.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar

from storage.errors import StorageError
from storage.objects.base import StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.incoming import PIECE_BYTES

__all__ = ["Digest", "FileStillLocked", "ResumableFile", "open_resumable_file"]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# A disk that does not take half a megabyte, or sync some, in this time is as good as broken.
_SECONDS: Final = 30.0
_NAME: Final = "incoming file"  # its path is nobody's business
# Whoever held it was told to let go before; they look every second.
_WAIT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05

T = TypeVar("T")


class FileStillLocked(StorageError):
    """Whoever appended before does not let go of the file."""

    def __init__(self) -> None:
        super().__init__("the file is still being written to")


class Digest(Protocol):
    """A checksum in the making."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take bytes."""
        ...


class ResumableFile:
    """A file that is held; one task at a time may use it.

    `position` is where the next byte goes.
    """

    def __init__(self, path: Path, home: Path, file: int, *, min_free_bytes: int) -> None:
        self.path = path
        self._home = home
        self.position = 0
        self._file = file
        self._spare = min_free_bytes
        self._written = 0
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._digest: Digest | None = None
        self._lock = threading.Lock()  # a write that was given up on may still be under way
        self._over = False

    async def truncate(self, size: int, digest: Digest | None = None) -> int:
        """Go on behind the first `at` bytes, or behind all there are where they are fewer.

        Returns which; what stands behind is cut off. What comes from then on goes into `digest`.
        A file that was moved already is taken back to its own address.

        Raises:
            StoreFailed: the disk failed.
        """
        self._digest = digest
        self._pieces, self._waiting = [], 0
        self.position = self._written = await _in_thread(lambda: self._begin(size))
        return self.position

    async def write(self, data: bytes) -> None:
        """Take bytes, which must not be changed afterwards.

        Raises:
            StoreFull: there is no room, or less than is to stay free.
            StoreFailed: the disk failed.
        """
        self._pieces.append(data)
        self._waiting += len(data)
        self.position += len(data)
        if self._waiting >= PIECE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Have all that came stand in the file.

        Raises:
            StoreFull, StoreFailed: as in `write`; `written` says how much of it does.
        """
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        if pieces:
            await _in_thread(lambda: self._write(pieces))

    @property
    def written(self) -> int:
        """How much of the file stands in it."""
        return self._written

    async def sync(self) -> int:
        """Have all that is written outlive a power cut; returns how much that is.

        Raises:
            StoreFailed: the disk failed.
        """
        return await _in_thread(self._sync)

    async def relocate(self, path: Path) -> None:
        """Have the file stand elsewhere on the same file system; it stays held.

        Raises:
            StoreFull, StoreFailed: as in `write`.
        """
        await _in_thread(lambda: self._move(path))

    def size(self) -> int:
        """Return how many bytes stand in the file, in bytes."""
        return os.fstat(self._file).st_size

    @property
    def is_relocated(self) -> bool:
        """Whether the file stands at the address that it gets in the end."""
        return self.path != self._home

    async def remove(self) -> None:
        """Remove the file; it stays held until the block ends.

        Raises:
            StoreFailed: the disk failed.
        """
        await _in_thread(lambda: self.path.unlink(missing_ok=True))

    async def close(self) -> None:
        """Let go of the file."""
        # What a disk that hangs does not let go of now goes with the process.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                await asyncio.to_thread(self._close)

    # -- what runs in threads ---------------------------------------------------------------------

    def _begin(self, at: int) -> int:
        with self._lock:
            if self.path != self._home:
                self.path = self.path.rename(self._home)
            at = min(at, os.fstat(self._file).st_size)
            os.ftruncate(self._file, at)
            return at

    def _write(self, pieces: list[bytes]) -> None:
        with self._lock:
            if self._over:
                return
            if self._spare:
                room = os.fstatvfs(self._file)
                if room.f_bavail * room.f_frsize < self._spare:
                    raise OSError(errno.ENOSPC, "less room than is to stay free")
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    taken = os.pwrite(self._file, rest, self._written)
                    if self._digest is not None:
                        self._digest.update(rest[:taken])
                    self._written += taken
                    rest = rest[taken:]

    def _sync(self) -> int:
        with self._lock:
            written = self._written
            os.fdatasync(self._file)
            return written

    def _move(self, path: Path) -> None:
        with self._lock:
            path.parent.mkdir(parents=True, exist_ok=True)
            # As new as any other that stands there: its last byte may have come long ago, and what
            # is old and not written down yet would be swept away.
            os.utime(self._file)
            self.path = self.path.rename(path)

    def _close(self) -> None:
        with self._lock:
            self._over = True
            os.close(self._file)


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(_SECONDS):
            return await asyncio.to_thread(work)
    except TimeoutError as error:
        raise StoreFailed(_NAME, f"no answer within {_SECONDS:.0f} s") from error
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreFailed
        # The library's text would name the path on this machine.
        raise kind(_NAME, os.strerror(error.errno or errno.EIO)) from error


def _hold(home: Path, moved: Path) -> tuple[Path, int] | None:
    """Open the file, at either place, and lock it; it is made where there is none.

    None where another has it, or it went elsewhere meanwhile.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    gone = not home.exists() and moved.exists()
    place = moved if gone else home
    try:
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC | (0 if gone else os.O_CREAT), 0o600)
    except FileNotFoundError:
        return None
    held = False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(file)
        held = os.path.samestat(found, place.stat())
    except (BlockingIOError, FileNotFoundError):
        held = False
    finally:
        if not held:
            os.close(file)
    return (place, file) if held else None


@asynccontextmanager
async def open_resumable_file(
    objects: DiskObjects,
    address: str,
    final_address: str,
    *,
    min_free_bytes: int = 0,
    wait_seconds: float = _WAIT_SECONDS,
) -> AsyncGenerator[ResumableFile, None]:
    """Hold the file at an address for the length of the block; it is made where there is none.

    `moved` is the address that it gets in the end, where it is looked for too. `spare` is how many
    bytes of the disk are to stay free.

    Raises:
        FileStillLocked: whoever holds it did not let go within `wait_seconds`.
        StoreFull, StoreFailed: the file cannot be made.
    """
    home, target = objects.path(address), objects.path(final_address)
    clock = asyncio.get_running_loop().time
    until = clock() + wait_seconds
    while (found := await _in_thread(lambda: _hold(home, target))) is None:
        if clock() >= until:
            raise FileStillLocked
        await asyncio.sleep(_LOOK_SECONDS)
    path, file = found
    held = ResumableFile(path, home, file, min_free_bytes=min_free_bytes)
    try:
        yield held
    finally:
        await held.close()
