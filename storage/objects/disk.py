"""Objects as files below a folder.

A write goes to a temporary file of this process and is renamed into place, so a reader never sees a
partial object. A written object survives the death of the process (the kernel holds it) but not
always a power cut, after which a file may be short or empty, unless `make_durable` was called. That
is for objects that a row is about to name: uploaded files, the media of videos, pictures of owners.
Nothing of a live run is synced: its state alone is worthless without the segments that it names,
and syncing these would make every step wait for the disk. Code that reads a run back after a start
compares sizes.

A full disk refuses an object and keeps the old one. Vital objects can then borrow the room of a
small reserve (see `storage.objects.reserve`).

Temporary files are in a folder of their own per process, under a lock that the kernel releases with
the process. Opening a store removes the folders of processes that are gone, and no others.
"""

import contextlib
import copy
import errno
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.base import (
    STORE,
    UNGUARDED,
    Guard,
    ObjectChanged,
    ObjectMissing,
    Objects,
    ObjectStat,
    StoreFailed,
)
from storage.objects.disk_check import check_folder
from storage.objects.disk_threads import DiskThreads
from storage.objects.durable import place_file, sync_file, sync_tree
from storage.objects.file_trees import addresses_below, remove_tree
from storage.objects.read_only import (
    FULL,
    MISSING,
    ReadOnlyObjects,
    disk_failure,
    to_object_stat,
    translated,
)
from storage.objects.reserve import RESERVE_BYTES, Reserve

# It begins with a dot, so no address leads there.
_TEMPORARIES: Final = ".temporary"
# The file system has no hard links, forbids them, or has no more of them for this file.
_NO_LINK: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.ENOSYS}
)
_MOST_BYTES: Final = (1 << 63) - 1
# A hard disk writes 6 GB in that time; more is waiting to be written only where memory is ample.
SYNC_SECONDS: Final = 60.0

T = TypeVar("T")


class DiskObjects(ReadOnlyObjects, Objects):
    """An object store on one file system (see `storage.objects.base.Objects`).

    Raises:
        ObjectError: its folder cannot be created or written to.
    """

    def __init__(self, root: Path, *, reserve_bytes: int = RESERVE_BYTES) -> None:
        super().__init__(root)
        try:
            (root / _TEMPORARIES).mkdir(parents=True, exist_ok=True)
            self._remove_abandoned()
            self._own, self._lock = self._claim()
        except OSError as error:
            raise disk_failure(str(root), error) from error
        self._numbers = count()
        self._reserve = Reserve(self._own / "reserve", reserve_bytes)
        self._comparing = threading.Lock()  # from reading a version to replacing it
        self.guard: Guard = UNGUARDED

    def using(self, threads: DiskThreads) -> "DiskObjects":
        """Return the same store for callers whose calls wait in other threads.

        It is closed with the original.
        """
        other = copy.copy(self)
        other.threads = threads
        return other

    def close(self) -> None:
        """Delete the temporary files; nothing may be written afterwards."""
        shutil.rmtree(self._own, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> "DiskObjects":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def temporary(self) -> Path:
        """Return a new path for a temporary file, which is deleted with this process."""
        return self._own / str(next(self._numbers))

    def make_folder(self, folder: Path) -> None:
        """Create a folder of the store, if there is none; it blocks.

        Raises:
            OSError: the disk failed, or is no longer mounted: what is in its place gets no files.
        """
        self._require_disk()
        folder.mkdir(parents=True, exist_ok=True)

    # -- files (see `storage.objects.store.MediaStore`) -------------------------------------------

    @property
    def scratch(self) -> "DiskObjects":
        """The store itself: files are received where they will be objects."""
        return self

    @property
    def files(self) -> Path:
        """The folder of the objects."""
        return self.root

    @property
    def most_bytes(self) -> int:
        """The size of the largest file that Linux knows: disks are smaller."""
        return _MOST_BYTES

    async def identity(self) -> str:
        """Return the number of the folder, which it keeps when it is renamed or mounted."""
        return str((await self._run(STORE, self.root.stat)).st_ino)

    def placing(self, address: str) -> Callable[[int, Path], Path]:
        """Return a function that renames a received file to its object, and returns its path."""
        self.guard.require_write(address)
        target = self.path(address)

        def place(file: int, path: Path) -> Path:
            self.make_folder(target.parent)
            place_file(file, path, target, self.root)
            return target

        return place

    async def send(self, path: Path, address: str) -> None:
        """Make a file an object: by a hard link, or by a copy if the disk has no links."""
        self.guard.require_write(address)
        target = self.path(address)
        with _given_up_on_error() as given_up:
            await self._run(address, partial(self._link, path, target, given_up))

    @asynccontextmanager
    async def holding(self, address: str) -> AsyncGenerator[bool, None]:
        """Return a context with False: the files are the objects."""
        del address
        yield False

    @asynccontextmanager
    async def lend(self, address: str) -> AsyncGenerator[Path, None]:
        """Return a context with an object's own file."""
        yield self.path(address)

    def is_unchanged(self, address: str, stat: ObjectStat) -> bool:
        """Return whether an object's file still matches `stat`."""
        try:
            file_stat = self.path(address).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return to_object_stat(file_stat) == stat

    # -- objects ----------------------------------------------------------------------------------

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects by address, one after the other, as many as possible (see `Objects`)."""
        for address in objects:
            self.guard.require_write(address)
        with _given_up_on_error() as given_up:
            await self._run_all(
                objects,
                lambda address: self._put(
                    self.path(address), objects[address], given_up, vital=vital
                ),
            )

    async def version(self, address: str) -> str | None:
        """Return an identifier of an object's present version, or None if there is no object."""
        return await self._run(address, partial(_version, self.path(address)))

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        """Replace one version of an object (see `Objects`).

        A write of another process between the comparison and the write goes unnoticed: only one
        process writes runs to a folder.
        """
        self.guard.require_write(address)
        path = self.path(address)

        def put(given_up: threading.Event) -> str | None:
            with self._comparing:
                if _version(path) != version:
                    return None
                self._put(path, data, given_up, vital=vital)
                return _version(path)

        with _given_up_on_error() as given_up:
            new_version = await self._run(address, partial(put, given_up))
        if new_version is None:
            raise ObjectChanged(address)
        return new_version

    async def link(self, source: str, target: str) -> None:
        """Give an object a second address, replacing any object there (see `Objects`)."""
        self.guard.require_write(target)
        with _given_up_on_error() as given_up:
            link = partial(self._link, self.path(source), self.path(target), given_up)
            await self._run(source, link)

    async def move(self, source: str, target: str) -> None:
        """Move an object, or all objects below a folder (see `Objects`)."""
        self.guard.require_delete(source)
        await self._run(source, partial(self._move, self.path(source), self.path(target)))

    async def make_durable(self, address: str) -> None:
        """Have an object, or all below a folder, survive a power cut (see `Objects`)."""
        path = self.path(address)

        def sync() -> None:
            if path.is_dir():
                sync_tree(self.root)
            else:
                sync_file(path, self.root)

        await self._run(address, sync, SYNC_SECONDS)

    async def get_all(self, addresses: Collection[str]) -> list[bytes | None]:
        """Return the bytes of objects, None for those that do not exist."""

        def read() -> list[bytes | None]:
            found = [_read(self.path(address)) for address in addresses]
            if None in found:
                self._require_disk()
            return found

        return await self._run(next(iter(addresses), STORE), read)

    async def delete_all(self, addresses: Collection[str]) -> None:
        """Delete objects that exist, as many as possible (see `Objects`)."""
        for address in addresses:
            self.guard.require_delete(address)
        await self._run_all(addresses, lambda address: self.path(address).unlink(missing_ok=True))

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes in bytes of all objects below `prefix`, by address."""
        return dict(await self._run_steps(prefix, self._sizes(self.path(prefix))))

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        self.guard.require_delete(prefix)
        await self._run_steps(prefix, remove_tree(self.path(prefix)))

    async def check(self, *, min_free_bytes: int = 0, thorough: bool = False) -> None:
        """Check that media can be written to the disk (see `MediaStore`)."""
        self.guard.require_write(STORE)
        check = partial(
            check_folder,
            self.root,
            self.temporary(),
            min_free_bytes=min_free_bytes,
            thorough=thorough,
        )
        try:
            await self._run(STORE, check)
        except ObjectMissing as error:
            raise StoreFailed(STORE, "its folder is not there") from error

    # -- in threads -------------------------------------------------------------------------------

    async def _run_steps(self, prefix: str, steps: Iterator[T]) -> list[T]:
        """Run blocking steps; a folder that is not there is no empty one where the disk is away."""
        return await super()._run_steps(prefix, self._steps_of_disk(steps))

    def _steps_of_disk(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield what blocking steps do; if that is nothing, check that the disk is there."""
        is_empty = True
        for each in steps:
            is_empty = False
            yield each
        if is_empty:
            self._require_disk()

    async def _run_all(self, addresses: Collection[str], work: Callable[[str], None]) -> None:
        """Run blocking work for each address in one thread; raise the last error."""

        def run() -> tuple[str, OSError] | None:
            failure: tuple[str, OSError] | None = None
            for address in addresses:
                try:
                    self._answer(partial(work, address))
                except OSError as error:
                    failure = address, error
            return failure

        failure = await self._run(next(iter(addresses), STORE), run)
        if failure is not None:
            raise translated(*failure) from failure[1]

    def _answer(self, work: Callable[[], T]) -> T:
        """Do blocking work; where the disk is away, what it does not find may be on the disk."""
        try:
            return work()
        except MISSING:
            self._require_disk()
            raise

    def _require_disk(self) -> None:
        """Raise ENODEV if this process's folder is gone: the disk was unmounted since."""
        if not self._own.is_dir():
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    def _put(self, path: Path, data: bytes, given_up: threading.Event, *, vital: bool) -> None:
        try:
            self._write(path, data, given_up)
        except OSError as error:
            if not vital or error.errno not in FULL:
                raise
            with self._reserve.borrowed():
                self._write(path, data, given_up)
        else:
            self._reserve.renew()

    def _write(self, path: Path, data: bytes, given_up: threading.Event) -> None:
        self._place(path, lambda temporary: temporary.write_bytes(data), given_up)

    def _link(self, source: Path, path: Path, given_up: threading.Event) -> None:
        self._place(path, partial(_link_or_copy, source), given_up)

    def _place(self, path: Path, make: Callable[[Path], object], given_up: threading.Event) -> None:
        """Create a temporary file with `make` and rename it to `path`."""
        temporary = self.temporary()
        try:
            make(temporary)
            if given_up.is_set():
                return
            try:
                temporary.replace(path)
            except FileNotFoundError:
                self.make_folder(path.parent)
                if not given_up.is_set():  # making folders takes as long as the rest
                    temporary.replace(path)
        finally:
            # A rename between two links of one file keeps both names.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _move(self, source: Path, target: Path) -> None:
        self.make_folder(target.parent)
        with contextlib.suppress(FileNotFoundError):  # it is gone already
            source.rename(target)

    def _sizes(self, folder: Path) -> Iterator[tuple[str, int]]:
        for address in addresses_below(self.root, folder):
            with contextlib.suppress(FileNotFoundError):  # it was deleted just now
                yield address, (self.root / address).stat().st_size

    def _remove_abandoned(self) -> None:
        for folder in (self.root / _TEMPORARIES).iterdir():
            with contextlib.suppress(OSError):
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
                finally:
                    os.close(handle)

    def _claim(self) -> tuple[Path, int]:
        """Create and lock this process's folder of temporary files."""
        while True:
            own = Path(tempfile.mkdtemp(dir=self.root / _TEMPORARIES))
            lock = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another process that opened the store may have removed it before it was locked.
            if own.exists():
                return own, lock
            os.close(lock)


@contextmanager
def _given_up_on_error() -> Generator[threading.Event, None, None]:
    """Return a context with an event that is set if the block raises.

    A write that timed out must not finish later and replace a newer one.
    """
    given_up = threading.Event()
    try:
        yield given_up
    except BaseException:
        given_up.set()
        raise


def _version(path: Path) -> str | None:
    try:
        file_stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return f"{file_stat.st_ino}-{file_stat.st_mtime_ns}"


def _read(path: Path) -> bytes | None:
    with contextlib.suppress(*MISSING):
        return path.read_bytes()
    return None


def _link_or_copy(source: Path, path: Path) -> None:
    try:
        path.hardlink_to(source)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, path)
