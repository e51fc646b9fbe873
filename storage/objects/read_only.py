"""Read-only access to a disk store: creates nothing, not even a temporary file."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.addresses import checked
from storage.objects.base import ObjectMissing, ObjectStat, StoreFailed
from storage.objects.disk_threads import FILES

__all__ = ["ReadOnlyObjects"]

# For listing a whole tree: a hard disk lists 10 000 files in that time.
_SECONDS: Final = 60.0

T = TypeVar("T")


class ReadOnlyObjects:
    """The objects below `root`, as `storage.objects.disk` stores them.

    Every call may raise `BadAddress` and `StoreFailed`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.location = str(root)

    async def folders(self, prefix: str) -> dict[str, int]:
        """Return the names of the folders below `prefix` with their last change.

        Times are microseconds since the Unix epoch.
        """
        return await self._run(prefix, _folders, {})

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        return await self._run(prefix, partial(_addresses, self._root), [])

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        return await self._run(address, _stat, None)

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""
        data = await self._run(address, Path.read_bytes, None)
        if data is None:
            raise ObjectMissing(address)
        return data

    async def size(self, prefix: str) -> int:
        """Return the size in bytes of an object or a folder; hard links count in full."""
        return await self._run(prefix, _size, 0)

    async def _run(self, address: str, read: Callable[[Path], T], default: T) -> T:
        try:
            async with asyncio.timeout(_SECONDS):
                return await FILES.run(partial(read, self._root / checked(address)))
        except TimeoutError as error:
            raise StoreFailed(address, f"no answer within {_SECONDS:.0f} s") from error
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return default
        except OSError as error:
            raise StoreFailed(address, error.strerror or type(error).__name__) from error


def _folders(folder: Path) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {
            entry.name: entry.stat().st_mtime_ns // 1000
            for entry in entries
            if entry.is_dir(follow_symlinks=False)
        }


def _addresses(root: Path, folder: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in _files(folder))


def _files(folder: Path) -> list[Path]:
    return [Path(place) / name for place, _, names in os.walk(folder) for name in names]


def _stat(path: Path) -> ObjectStat:
    file_stat = path.stat()
    return ObjectStat(size=file_stat.st_size, modified_us=file_stat.st_mtime_ns // 1000)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.lstat().st_size for each in _files(path))
    return path.stat().st_size
