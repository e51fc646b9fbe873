"""What a role keeps its media in: an object store, and the files of this machine that go with it.

On one machine both are the same folder. With a bucket, files that are being received, and copies of
objects that are being read, are in a folder of their own, the scratch.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from storage.objects.base import Objects, ObjectStat
from storage.objects.disk_threads import DiskThreads

__all__ = ["MediaStore", "Scratch"]


class Scratch(Protocol):
    """A folder for files that are being received. They are in its file system, below `root`."""

    @property
    def root(self) -> Path:
        """The folder."""
        ...

    def path(self, address: str) -> Path:
        """Return the place of a file that arrives in several requests."""
        ...

    def temporary(self) -> Path:
        """Return a new path for a temporary file, which goes with this process."""
        ...


class MediaStore(Objects, Protocol):
    """An object store with the files of this machine that go with it."""

    @property
    def scratch(self) -> Scratch:
        """Where files are received."""
        ...

    @property
    def files(self) -> Path:
        """The folder below which an object's file is, by its address, where there is one."""
        ...

    @property
    def location(self) -> str:
        """Where the objects are, for messages to the operator."""
        ...

    def placing(self, address: str) -> Callable[[int, Path], Path] | None:
        """Return what makes a received file an object, or None: `send` does.

        It blocks, gets the file's descriptor and path, and returns its new path. The object
        survives a power cut. It raises `OSError`; the file is where it was then.
        """
        ...

    async def send(self, path: Path, address: str) -> None:
        """Write an object from a file, which stays where it is, however large it is.

        Raises:
            StoreFull, StoreFailed: the store failed.
        """
        ...

    def holding(self, address: str) -> AbstractAsyncContextManager[bool]:
        """Return a context in which a copy of an object is below `files`; False without one.

        A store whose files are the objects makes none. Entering it raises:

        Raises:
            StoreFull, StoreFailed: the object cannot be fetched.
        """
        ...

    def lend(self, address: str) -> AbstractAsyncContextManager[Path]:
        """Return a context with a file that has the bytes of an object, not to be changed.

        A disk store does not look whether there is one. Entering it raises:

        Raises:
            ObjectMissing: there is no such object.
            StoreFull, StoreFailed: it cannot be fetched.
        """
        ...

    def is_unchanged(self, address: str, stat: ObjectStat) -> bool:
        """Return whether an object is as `stat` said less than a second ago, as far as is known.

        Raises:
            OSError: the disk failed.
        """
        ...

    def using(self, threads: DiskThreads) -> "MediaStore":
        """Return the same store for callers whose calls wait in other threads."""
        ...

    async def check(self, *, min_free_bytes: int = 0, thorough: bool = False) -> None:
        """Check that the store can be reached, or (`thorough`) written and read.

        Raises:
            StoreFull: less than `min_free_bytes` of this machine's disk are free.
            StoreFailed: the store cannot be reached.
        """
        ...
