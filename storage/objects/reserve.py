"""Disk space kept for small objects that must be written even when the disk is full.

The reserve is a file of a fixed size whose bytes mean nothing. A small object that
replaces an older one and finds no room borrows the file's space: the file is deleted, the object is
written, its predecessor is freed, and the file is created again. Other processes may take the space
first, so nothing is guaranteed.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# The state and playlists of a run are below 100 kB together.
RESERVE_BYTES: Final = 1 << 20
# A lost reserve is created again once the disk has room for media, too.
_RENEW_FACTOR: Final = 16


class Reserve:
    """The reserve of one object store, at `path`. Its calls block; threads may share it.

    The first `renew` creates it, so that a store that is only read has none.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size
        self._lock = threading.Lock()
        self._held = False

    @property
    def held(self) -> bool:
        """True while the reserve file exists."""
        return self._held

    def renew(self) -> None:
        """Create the reserve if it is missing and the disk has enough room."""
        if self._held or not self._lock.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(OSError):
                if shutil.disk_usage(self._path.parent).free >= _RENEW_FACTOR * self._size:
                    self._create()
        finally:
            self._lock.release()

    @contextmanager
    def borrowed(self) -> Generator[None]:
        """Free the reserve for the length of the block; one caller at a time."""
        with self._lock:
            self._held = False
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    self._create()

    def _create(self) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.posix_fallocate(handle, 0, self._size)
            finally:
                os.close(handle)
        except OSError:
            self._path.unlink(missing_ok=True)  # a partial file would only waste room
            raise
        self._held = True
