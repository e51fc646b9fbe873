"""Read access to a folder of objects: creates nothing, not even a temporary file."""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.addresses import checked
from storage.objects.base import ObjectError, ObjectMissing, ObjectStat, StoreFailed, StoreFull
from storage.objects.disk_threads import FILES
from storage.objects.file_trees import addresses_below, run_steps, subfolders

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
MISSING: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# A disk that does not answer for this long is treated as broken; a live segment is 2 s.
_SECONDS: Final = 20.0

T = TypeVar("T")


class ReadOnlyObjects:
    """The objects below `root`, as `storage.objects.disk` stores them.

    Every call may raise `BadAddress` and `StoreFailed`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.threads = FILES

    @property
    def location(self) -> str:
        """The folder of the objects, for messages."""
        return str(self.root)

    def path(self, address: str) -> Path:
        """Return the path of an object's file, for callers that read the file itself."""
        return self.root / checked(address)

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`."""
        return set(await self._run_steps(prefix, subfolders(self.path(prefix))))

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        """Return whether what is directly in a folder has changed since then (see `Objects`)."""
        stat = await self.stat(prefix)
        return stat is not None and stat.modified_us >= since_us

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        return sorted(await self._run_steps(prefix, addresses_below(self.root, self.path(prefix))))

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        try:
            file_stat = await self._run(address, self.path(address).stat)
        except ObjectMissing:
            return None
        return to_object_stat(file_stat)

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""
        return await self._run(address, self.path(address).read_bytes)

    async def stats(self, prefix: str) -> dict[str, ObjectStat]:
        """Return the size and age of all objects below `prefix`, by address."""
        return dict(await self._run_steps(prefix, _stats(self.root, self.path(prefix))))

    async def size(self, prefix: str) -> int:
        """Return the size in bytes of an object or a folder; hard links count in full."""
        return sum(await self._run_steps(prefix, _sizes(self.root, self.path(prefix))))

    async def _run(self, address: str, work: Callable[[], T], seconds: float = _SECONDS) -> T:
        """Run blocking work in a thread and translate its errors."""
        try:
            async with asyncio.timeout(seconds):
                return await self.threads.run(partial(self._answer, work))
        except TimeoutError as error:
            raise StoreFailed(address, f"no answer within {seconds:.0f} s") from error
        except OSError as error:
            raise translated(address, error) from error

    async def _run_steps(self, prefix: str, steps: Iterator[T]) -> list[T]:
        """Run blocking steps in a thread, some at a time, and return what they yield.

        They take a folder that is not there for an empty one.
        """
        return await run_steps(steps, partial(self._run, prefix))

    def _answer(self, work: Callable[[], T]) -> T:
        """Do blocking work."""
        return work()


def to_object_stat(file_stat: os.stat_result) -> ObjectStat:
    """Return the size and age of an object from those of its file."""
    return ObjectStat(size=file_stat.st_size, modified_us=file_stat.st_mtime_ns // 1000)


def translated(address: str, error: OSError) -> ObjectError:
    """Return what an error of the disk says of the object that was asked for."""
    return ObjectMissing(address) if isinstance(error, MISSING) else disk_failure(address, error)


def disk_failure(name: str, error: OSError) -> ObjectError:
    """Return the failure of a disk, which happened to the object or file `name`."""
    if error.errno == errno.ENODEV:
        return StoreFailed(name, "its folder is not there: is its disk mounted?")
    kind = StoreFull if error.errno in FULL else StoreFailed
    # The text of the OSError would name the path on this machine.
    return kind(name, os.strerror(error.errno) if error.errno else type(error).__name__)


def _sizes(root: Path, path: Path) -> Iterator[int]:
    with contextlib.suppress(*MISSING):  # it was deleted just now, or there is none
        if not path.is_dir():
            yield path.stat().st_size
    for address in addresses_below(root, path):
        with contextlib.suppress(FileNotFoundError):
            yield (root / address).lstat().st_size


def _stats(root: Path, folder: Path) -> Iterator[tuple[str, ObjectStat]]:
    base = f"{root}/"
    for address in addresses_below(root, folder):
        with contextlib.suppress(FileNotFoundError):  # it was deleted just now
            yield address, to_object_stat(os.stat(base + address))  # noqa: PTH116  # half the cost
