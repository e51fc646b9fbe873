"""What a role keeps its media in: an object store, and the files of this machine that go with it.

On one machine both are the same folder. With a bucket, files that are being received, and copies of
objects that are being read, are in a folder of their own, the scratch; nothing in it outlives its
purpose.
"""

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
    def place(self) -> str:
        """Where the objects are, for messages to the operator."""
        ...

    async def adopt(self, file: int, path: Path, address: str) -> Path:
        """Make a received file the object at `address`; return where the file is now.

        `file` is its descriptor and `path` its place in the scratch. The object survives a power
        cut. If the file is at `path` still, it is the caller's to delete.

        Raises:
            StoreFull, StoreFailed: the store failed; the file is where it was.
        """
        ...

    async def fetch(self, address: str) -> bool:
        """Make a copy of an object below `files`; False if there is no such object.

        A store whose files are the objects has nothing to do, and returns False.
        """
        ...

    def lend(self, address: str) -> AbstractAsyncContextManager[Path]:
        """Return a context with a file that has the bytes of an object, not to be changed.

        Raises:
            ObjectMissing: there is no such object; or `path` leads nowhere.
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
