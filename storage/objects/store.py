"""What a role keeps its media in: an object store, and the files of this machine that go with it.

On one machine both are the same folder. With a bucket, files that are being received, and copies of
objects that are being read, are in a folder of their own, the scratch.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from storage.objects.base import Guard, Objects, ObjectStat
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import DiskThreads


class MediaStore(Objects, Protocol):
    """An object store with the files of this machine that go with it."""

    @property
    def scratch(self) -> DiskObjects:
        """Where files are received: they are in its file system."""
        ...

    @property
    def files(self) -> Path:
        """The folder below which the files of objects are, by address, as far as they exist."""
        ...

    @property
    def most_bytes(self) -> int:
        """The size of the largest object that can be stored."""
        ...

    @property
    def guard(self) -> Guard:
        """What is asked before the store is changed; at first it allows everything."""
        ...

    @guard.setter
    def guard(self, guard: Guard) -> None: ...

    async def identity(self) -> str:
        """Return what a copy of the store does not share with it, as far as that can be known."""
        ...

    def placing(self, address: str) -> Callable[[int, Path], Path] | None:
        """Return a function that makes a received file an object; None if `send` must be used.

        It blocks, gets the file's descriptor and path, and returns its new path. The object
        survives a power cut. If it raises `OSError`, the file is at either path.
        """
        ...

    async def send(self, path: Path, address: str) -> None:
        """Write an object from a file, which stays where it is and has at most `most_bytes`.

        Raises:
            StoreFull, StoreFailed: the store failed, or the file is too large.
        """
        ...

    def holding(self, address: str) -> AbstractAsyncContextManager[bool]:
        """Return a context in which a copy of an object is below `files`; its value says if so.

        A store whose files are the objects makes no copy, and yields False.

        Raises:
            StoreFull, StoreFailed: on entry; the object cannot be fetched.
        """
        ...

    def lend(self, address: str) -> AbstractAsyncContextManager[Path]:
        """Return a context with a file that has the bytes of an object, not to be changed.

        A disk store does not check that the object exists.

        Raises:
            ObjectMissing: on entry; there is no such object.
            StoreFull, StoreFailed: on entry; it cannot be fetched.
        """
        ...

    def is_unchanged(self, address: str, stat: ObjectStat) -> bool:
        """Return whether an object still matches a `stat` from the last second, as far as is known.

        Raises:
            OSError: the disk failed.
        """
        ...

    def using(self, threads: DiskThreads) -> "MediaStore":
        """Return the same store for callers whose calls wait in other threads."""
        ...

    async def check(self, *, min_free_bytes: int = 0, thorough: bool = False) -> None:
        """Check that the store can be reached, and (`thorough`) written and read.

        Everywhere where writers put media: a few bytes are written there and removed.

        Raises:
            StoreClaimed: this process may not write to it (`guard`); nothing was tried.
            StoreFull: less than `min_free_bytes` of this machine's disk are free, or few inodes.
            StoreFailed: the store cannot be reached, or not be written at the place that the error
                names.
        """
        ...
