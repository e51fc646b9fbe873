"""Chooses the tests that write their files in memory, where small files take less CPU time."""

import shutil
from pathlib import Path
from typing import Final

from tests.support.rooms import ROOMS

_MEMORY: Final = Path("/dev/shm")  # a file system in memory, on Linux
# Nearly all that others write is written by servers of the whole service, or is little.
_ROOMS: Final = {*ROOMS} - {"headend", "ingest", "media"}
# Served from a disk, as in an installation: the kernel reports what is in the page cache.
_ON_DISK: Final = {"http", "origin"}
_LEAST_FREE: Final = 4 << 30  # bytes: as much as the tests of a few processes may write at once
_TESTS: Final = Path(__file__).parents[1]


def writes_in_memory(file: Path) -> bool:
    """Return True if the tests in a file get folders in memory."""
    room, *package = file.relative_to(_TESTS).parts
    return room in _ROOMS and package[0] not in _ON_DISK


def memory_folder() -> Path | None:
    """Return where folders in memory can be made; None if there is no such place, or no room."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _LEAST_FREE:
        return _MEMORY
    return None
