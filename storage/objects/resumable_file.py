"""A file that arrives in several requests, over hours and restarts, with one writer at a time.

It has its own address from its first byte on. The writer holds a kernel lock (flock) on the file,
which ends with the process. The caller remembers how many bytes count; the next writer truncates
whatever follows. `sync` makes the written bytes survive a power cut.

A piece is written in a thread once `PIECE_BYTES` have arrived, and `write` waits for it: a sender
faster than the disk is slowed down, and no more than one piece is held in memory.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from storage.errors import StorageError
from storage.objects.disk import SYNC_SECONDS
from storage.objects.disk_threads import FILES
from storage.objects.incoming_file import (
    PIECE_BYTES,
    IncomingFileTooLarge,
    check_free,
    disk_errors,
    in_thread,
)
from storage.objects.store import MediaStore

# A disk that cannot write or sync half a megabyte in this time is treated as broken.
_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 0.05


class FileStillLocked(StorageError):
    """The previous writer has not released the file."""

    def __init__(self) -> None:
        super().__init__("the file is still being written to")


class Digest(Protocol):
    """An incremental checksum, such as a `hashlib` object."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes."""
        ...


class ResumableFile:
    """A locked file. Only one task at a time may use it.

    `position` is the offset of the next byte: how many were received, with those in memory.
    """

    # How often the catalog records how many bytes are safe, which takes a sync.
    save_seconds: Final = 1.0
    # Only an upload in pieces has any (`storage.objects.upload_pieces`).
    unrecorded: Final = ()

    def __init__(
        self,
        objects: MediaStore,
        path: Path,
        home: Path,
        file: int,
        *,
        max_bytes: int | None,
        min_free_bytes: int,
    ) -> None:
        self.path = path
        self._objects = objects
        self._home = home
        self.position = 0
        self._file = file
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._written = 0
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._digest: Digest | None = None
        self._lock = threading.Lock()  # a write that timed out may still be running
        self._over = False

    async def truncate(self, size: int, digest: Digest | None = None) -> int:
        """Cut the file after `size` bytes and return its size, less if the file was shorter.

        Bytes written from now on are added to `digest`. A relocated file moves back to its first
        address.

        Raises:
            StoreFailed: the disk failed.
        """
        self._digest = digest
        self._pieces, self._waiting = [], 0
        self.position = self._written = await in_thread(lambda: self._truncate(size), _SECONDS)
        return self.position

    async def write(self, data: bytes) -> None:
        """Append bytes, which must not be changed afterwards.

        Raises:
            IncomingFileTooLarge: the file would exceed its limit.
            StoreFull: the disk has no room, or less than `min_free_bytes`.
            StoreFailed: the disk failed.
        """
        if self._max_bytes is not None and self.position + len(data) > self._max_bytes:
            raise IncomingFileTooLarge(self._max_bytes)
        self._pieces.append(data)
        self._waiting += len(data)
        self.position += len(data)
        if self._waiting >= PIECE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write all received bytes to the file.

        If that fails or is cancelled, the next call writes the bytes that are missing.

        Raises:
            StoreFull, StoreFailed: as in `write`; `sync` returns how much was written.
        """
        if self._pieces:
            pieces, start = tuple(self._pieces), self.position - self._waiting
            await in_thread(lambda: self._write(pieces, start), _SECONDS)
            del self._pieces[: len(pieces)]
            self._waiting -= sum(map(len, pieces))

    async def sync(self) -> int:
        """Make the written bytes survive a power cut; return their number.

        Raises:
            StoreFailed: the disk failed.
        """
        return await in_thread(self._sync, _SECONDS)

    def recorded(self) -> None:
        """Do nothing: there are no pieces that rows name."""

    async def gather(self) -> int:
        """Return the size of the file in bytes: all of them are in it already."""
        return self.size()

    async def keep(self, address: str) -> None:
        """Make what was flushed the object at `address`; it survives power cuts, and stays locked.

        On a disk the file is moved; otherwise it stays until `remove_remains`.

        Raises:
            StoreFull, StoreFailed: as in `write`.
        """
        place = self._objects.placing(address)
        if place is not None:
            await in_thread(lambda: self._place(place), SYNC_SECONDS)
        else:
            await self._objects.send(self.path, address)

    async def remove_remains(self) -> None:
        """Delete the file if `keep` stored a copy of it elsewhere, once a row names that copy.

        Raises:
            StoreFailed: the disk failed.
        """
        if not self.is_relocated:
            await self.remove()

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self._file).st_size

    @property
    def is_relocated(self) -> bool:
        """True once the file has been moved from its first address to its final one."""
        return self.path != self._home

    async def remove(self) -> None:
        """Delete the file; it stays locked until the block ends.

        Raises:
            StoreFailed: the disk failed.
        """
        await in_thread(lambda: self.path.unlink(missing_ok=True), _SECONDS)

    async def close(self) -> None:
        """Release the lock and close the file."""
        # If the disk hangs, the lock goes with the process instead.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                await FILES.run(self._close)

    # -- in threads -------------------------------------------------------------------------------

    def _truncate(self, size: int) -> int:
        with self._lock:
            self._check_open()
            if self.path != self._home:
                self.path = self.path.rename(self._home)
            size = min(size, os.fstat(self._file).st_size)
            os.ftruncate(self._file, size)
            return size

    def _write(self, pieces: Sequence[bytes], start: int) -> None:
        """Write pieces, of which the first begins at `start`, but not what is in the file."""
        with self._lock:
            if self._over:
                return
            check_free(self._file, self._min_free_bytes)
            for piece in pieces:
                rest = memoryview(piece)[max(0, self._written - start) :]
                start += len(piece)
                while rest:
                    count = os.pwrite(self._file, rest, self._written)
                    if self._digest is not None:
                        self._digest.update(rest[:count])
                    self._written += count
                    rest = rest[count:]

    def _sync(self) -> int:
        with self._lock:
            self._check_open()
            written = self._written
            os.fdatasync(self._file)
            return written

    def _place(self, place: Callable[[int, Path], Path]) -> None:
        with self._lock:
            self._check_open()
            # The last byte may have arrived long ago, and an old file that no row names yet would
            # be removed as an orphan.
            os.utime(self._file)
            self.path = place(self._file, self.path)

    def _check_open(self) -> None:
        """Raise EBADF if the file was closed: its descriptor may be that of another file now."""
        if self._over:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _close(self) -> None:
        with self._lock:
            self._over = True
            os.close(self._file)


def _lock(make_folder: Callable[[Path], None], home: Path, final: Path) -> tuple[Path, int] | None:
    """Open and lock the file at either path; create it if there is none.

    Return None if another writer holds the lock, or if the file was moved meanwhile.
    """
    make_folder(home.parent)
    moved = not home.exists() and final.exists()
    place = final if moved else home
    try:
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC | (0 if moved else os.O_CREAT), 0o600)
    except FileNotFoundError:
        return None
    is_locked = False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file_stat = os.fstat(file)
        is_locked = os.path.samestat(file_stat, place.stat())
    except (BlockingIOError, FileNotFoundError):
        is_locked = False
    finally:
        if not is_locked:
            os.close(file)
    return (place, file) if is_locked else None


async def _lock_in_thread(lock: Callable[[], tuple[Path, int] | None]) -> tuple[Path, int] | None:
    """Open and lock the file in a thread (see `_lock`).

    If the caller gives up, a file that is locked later is released at once.
    """
    locking = FILES.submit(lock)
    try:
        async with disk_errors(_SECONDS):
            await asyncio.wait([locking])  # which leaves it running if the caller gives up
            return locking.result()
    except BaseException:
        locking.add_done_callback(_release)
        raise


def _release(locking: "asyncio.Future[tuple[Path, int] | None]") -> None:
    if not locking.cancelled() and locking.exception() is None:
        locked = locking.result()
        if locked is not None:
            FILES.submit(partial(os.close, locked[1]))


@asynccontextmanager
async def open_resumable_file(
    objects: MediaStore,
    address: str,
    final_address: str,
    *,
    wait_seconds: float,
    max_bytes: int | None = None,
    min_free_bytes: int = 0,
) -> AsyncGenerator[ResumableFile, None]:
    """Open and lock the file at an address for the length of the block; create it if needed.

    `final_address` is where the file is moved at the end, so it is looked for there, too.
    It takes at most `max_bytes`, if that is given. `min_free_bytes` of the disk stay free.

    Raises:
        FileStillLocked: the previous writer did not release it within `wait_seconds`.
        StoreFull, StoreFailed: the file cannot be created.
    """
    home, final = objects.scratch.path(address), objects.scratch.path(final_address)
    clock = asyncio.get_running_loop().time
    until = clock() + wait_seconds
    lock = partial(_lock, objects.scratch.make_folder, home, final)
    while (locked := await _lock_in_thread(lock)) is None:
        if clock() >= until:
            raise FileStillLocked
        await asyncio.sleep(_RETRY_SECONDS)
    path, file = locked
    resumable = ResumableFile(
        objects, path, home, file, max_bytes=max_bytes, min_free_bytes=min_free_bytes
    )
    try:
        yield resumable
    finally:
        await resumable.close()
