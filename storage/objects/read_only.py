"""Read-only access to a disk store: creates nothing, not even a temporary file."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.addresses import checked, is_address
from storage.objects.base import ObjectMissing, ObjectStat, StoreFailed
from storage.objects.disk_threads import FILES

__all__ = ["ReadOnlyObjects", "addresses_below", "subfolders", "to_object_stat"]

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
        return await self._run(prefix, subfolders, {})

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`."""
        return set(await self.folders(prefix))

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        return await self._run(prefix, partial(addresses_below, self._root), [])

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
        return await self._run(prefix, partial(_size, self._root), 0)

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


def subfolders(folder: Path) -> dict[str, int]:
    """Return the names of the folders in a folder with their last change, in microseconds.

    Names that no address can have are left out, such as `lost+found`.
    """
    folders: dict[str, int] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_address(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # it was deleted just now
                    folders[entry.name] = entry.stat().st_mtime_ns // 1000
    return folders


def addresses_below(root: Path, folder: Path) -> list[str]:
    """Return the sorted addresses of the files below a folder of the store at `root`.

    Files and folders whose names are no addresses are left out: the operator or the system made
    them (`.DS_Store`, `lost+found`).

    Raises:
        OSError: a folder cannot be listed.
    """
    addresses: list[str] = []
    for place, folders, names in os.walk(folder, onerror=_raise_unless_gone):
        below = Path(place).relative_to(root).as_posix()
        folders[:] = [name for name in folders if is_address(f"{below}/{name}")]
        addresses += filter(is_address, [f"{below}/{name}" for name in names])
    return sorted(addresses)


def to_object_stat(file_stat: os.stat_result) -> ObjectStat:
    """Return the size and age of an object from those of its file."""
    return ObjectStat(size=file_stat.st_size, modified_us=file_stat.st_mtime_ns // 1000)


def _stat(path: Path) -> ObjectStat:
    return to_object_stat(path.stat())


def _size(root: Path, path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    size = 0
    for address in addresses_below(root, path):
        with contextlib.suppress(FileNotFoundError):  # it was deleted just now
            size += (root / address).lstat().st_size
    return size


def _raise_unless_gone(error: OSError) -> None:
    """Raise what `os.walk` would ignore, except that a folder was deleted or is a file."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
