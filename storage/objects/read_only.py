"""Read-only access to a disk store: creates nothing, not even a temporary file."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.addresses import checked
from storage.objects.base import ObjectMissing, ObjectStat, StoreFailed
from storage.objects.disk_threads import FILES
from storage.objects.file_trees import addresses_below, run_steps, subfolders

# As for a store: a disk that does not answer for this long is treated as broken.
_SECONDS: Final = 20.0

T = TypeVar("T")


class ReadOnlyObjects:
    """The objects below `root`, as `storage.objects.disk` stores them.

    Every call may raise `BadAddress` and `StoreFailed`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.location = str(root)

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`."""
        return set(await self._run_steps(prefix, subfolders))

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        """Return whether what is directly in a folder has changed since then."""
        stat = await self.stat(prefix)
        return stat is not None and stat.modified_us >= since_us

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        return sorted(await self._run_steps(prefix, partial(addresses_below, self._root)))

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
        return sum(await self._run_steps(prefix, partial(_sizes, self._root)))

    async def _run_steps(self, address: str, walk: Callable[[Path], Iterator[T]]) -> list[T]:
        def run(some: Callable[[], list[T]]) -> Awaitable[list[T]]:
            return self._run(address, lambda _: some(), [])

        return await run_steps(walk(self._root / checked(address)), run)

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


def to_object_stat(file_stat: os.stat_result) -> ObjectStat:
    """Return the size and age of an object from those of its file."""
    return ObjectStat(size=file_stat.st_size, modified_us=file_stat.st_mtime_ns // 1000)


def _stat(path: Path) -> ObjectStat:
    return to_object_stat(path.stat())


def _sizes(root: Path, path: Path) -> Iterator[int]:
    if not path.is_dir():
        yield path.stat().st_size
    for address in addresses_below(root, path):
        with contextlib.suppress(FileNotFoundError):  # it was deleted just now
            yield (root / address).lstat().st_size
