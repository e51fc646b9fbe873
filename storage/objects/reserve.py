"""Room on a disk that is kept for what must be written even when the disk is full.

A file that holds nothing. Who finds no room for a small thing that takes the place of an older one
borrows the file's room: the file is removed, the thing is written, its predecessor is freed, and
the file is made again. Others may be faster to take the room, so it is a help and no promise.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["RESERVE_BYTES", "Reserve"]

# A run's notes and playlists are below 100 kB together.
RESERVE_BYTES: Final = 1 << 20
# A reserve that was lost is made again when the disk has room for media, too.
_ROOM: Final = 16


class Reserve:
    """The reserve of one object store, at `path`. Its calls block; threads may share it.

    It is first made by `renew`: who only reads needs none.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size
        self._lock = threading.Lock()
        self._held = False

    @property
    def held(self) -> bool:
        """Whether the room is kept at the moment."""
        return self._held

    def renew(self) -> None:
        """Make the reserve where it is not there and the disk has room enough."""
        if self._held or not self._lock.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(OSError):
                if shutil.disk_usage(self._path.parent).free >= _ROOM * self._size:
                    self._make()
        finally:
            self._lock.release()

    @contextmanager
    def borrowed(self) -> Generator[None]:
        """Give the room up for the length of the block; one after the other may have it."""
        with self._lock:
            self._held = False
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    self._make()

    def _make(self) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.posix_fallocate(handle, 0, self._size)
            finally:
                os.close(handle)
        except OSError:
            self._path.unlink(missing_ok=True)  # a part of it would only take room
            raise
        self._held = True
