"""Objects in a bucket, and the files of this machine that go with them.

Files that arrive in several requests are written to the scratch, under the addresses that they
would have on a disk, until `adopt` sends them to the bucket; calls for such addresses therefore go
to both. What is read as a file is copied to the scratch (`file_cache`) once for all its readers.
"""

import copy
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from storage.objects.addresses import UPLOADS, checked
from storage.objects.base import ObjectMissing, ObjectStat
from storage.objects.disk import DiskObjects, disk_error
from storage.objects.disk_threads import DiskThreads
from storage.objects.file_cache import FileCache
from storage.objects.incoming_file import check_free
from storage.objects.s3_bucket import PIECE_BYTES, S3Bucket, S3Place

__all__ = ["S3Objects"]

_SOURCES: Final = "sources"
_IMPORT: Final = "import"  # the last part of a partial import's address begins so

T = TypeVar("T")


class S3Objects(S3Bucket):
    """A bucket as a `storage.objects.store.MediaStore`.

    `scratch` stays open for as long as the store is used. `cache_bytes` of it hold copies of what
    was read; a large object is copied only if `min_free_bytes` of its disk stay free.
    """

    def __init__(
        self, place: S3Place, scratch: DiskObjects, *, cache_bytes: int, min_free_bytes: int = 0
    ) -> None:
        super().__init__(place)
        self.scratch = scratch
        self._min_free_bytes = min_free_bytes
        self._cache = FileCache(
            scratch.temporary(),
            self._copy,
            most_bytes=cache_bytes,
            may_change=_may_change,
            threads=scratch.threads,
        )

    @property
    def files(self) -> Path:
        """The folder of the copies."""
        return self._cache.root

    def using(self, threads: DiskThreads) -> "S3Objects":
        """Return the same store for callers whose calls wait in other threads."""
        other = copy.copy(self)
        other.scratch = self.scratch.using(threads)
        return other

    # -- objects ----------------------------------------------------------------------------------

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects by address, at the same time (see `Objects`)."""
        await super().put_all(objects, vital=vital)
        await self._cache.drop(objects.keys())

    async def link(self, source: str, target: str) -> None:
        """Make a copy of an object, within the bucket (see `Objects`)."""
        await super().link(source, target)
        await self._cache.drop([target])

    async def move(self, source: str, target: str) -> None:
        """Copy an object or a folder to another address, and delete it then (see `Objects`)."""
        if _may_arrive(source):
            await self.scratch.move(source, target)
        await super().move(source, target)

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        return await (self.scratch if _arrives(address) else super()).stat(address)

    async def delete_all(self, addresses: Collection[str]) -> None:
        """Delete objects that exist (see `Objects`)."""
        arriving = [address for address in addresses if _arrives(address)]
        stored = [address for address in addresses if not _arrives(address)]
        if arriving:
            await self.scratch.delete_all(arriving)
        await super().delete_all(stored)
        await self._cache.drop(stored)

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        found = await super().addresses(prefix)
        if _may_arrive(prefix):
            found += [each for each in await self.scratch.addresses(prefix) if _arrives(each)]
        return sorted(found)

    async def folders(self, prefix: str) -> dict[str, int]:
        """Return the names of the folders below `prefix` with their last change."""
        found = await super().folders(prefix)
        if _may_arrive(prefix):
            for name, changed_us in (await self.scratch.folders(prefix)).items():
                found[name] = max(found.get(name, 0), changed_us)
        return found

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        if _may_arrive(prefix):
            await self.scratch.delete_tree(prefix)
        await super().delete_tree(prefix)
        await self._cache.drop_tree(prefix)

    async def check(self, *, min_free_bytes: int = 0, thorough: bool = False) -> None:
        """Check the bucket and the disk of the scratch (see `MediaStore`)."""
        await self.scratch.check(min_free_bytes=min_free_bytes, thorough=thorough)
        await super().check(thorough=thorough)

    # -- files ------------------------------------------------------------------------------------

    async def adopt(self, file: int, path: Path, address: str) -> Path:
        """Send a received file to the bucket; it stays where it is (see `MediaStore`)."""
        del file  # it is read by its path
        await self.send(path, address)
        try:
            # Whoever reads it first is most likely on this machine.
            await self._cache.add(address, path)
        except OSError as error:
            raise disk_error(address, error) from error
        return path

    async def fetch(self, address: str) -> bool:
        """Make a copy of an object below `files`; False if there is no such object."""
        try:
            await self._cache.fetch(checked(address))
        except ObjectMissing:
            return False
        return True

    def lend(self, address: str) -> AbstractAsyncContextManager[Path]:
        """Return a context with a copy of an object (see `MediaStore`)."""
        return self._cache.lend(checked(address))

    def is_unchanged(self, address: str, stat: ObjectStat) -> bool:
        """Return True: another request to the bucket would take longer than `stat` is trusted."""
        del address, stat
        return True

    # -- helpers ----------------------------------------------------------------------------------

    async def _copy(self, address: str, path: Path) -> int:
        """Write an object to a file, which gets the time of the object's last change."""
        temporary = self.scratch.temporary()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = await self._on_disk(address, partial(os.open, temporary, flags, 0o600))
        try:

            async def write(start: int, data: bytes) -> None:
                # Viewers' segments are bounded with the copies; a film may be larger than the disk.
                spared = self._min_free_bytes if len(data) == PIECE_BYTES else 0
                await self._on_disk(address, partial(_write, file, data, start, spared))

            stat = await self.receive(address, write)
            await self._on_disk(address, partial(_place, temporary, path, stat.modified_us))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        return stat.size

    async def _on_disk(self, address: str, work: Callable[[], T]) -> T:
        try:
            return await self.scratch.threads.run(work)
        except OSError as error:
            raise disk_error(address, error) from error


def _arrives(address: str) -> bool:
    """Return whether an address is that of a file which is being received."""
    first, _, rest = address.partition("/")
    return first == UPLOADS or (first == _SOURCES and rest.partition("/")[2].startswith(_IMPORT))


def _may_arrive(prefix: str) -> bool:
    """Return whether files that are being received may be below a folder."""
    return prefix.partition("/")[0] in {UPLOADS, _SOURCES}


def _may_change(address: str) -> bool:
    """Return whether an object that is read as a file may be replaced: a stream's poster."""
    return address.startswith("live/") and address.endswith(".jpg")


def _write(file: int, data: bytes, start: int, min_free_bytes: int) -> None:
    check_free(file, min_free_bytes)
    rest = memoryview(data)
    while rest:
        count = os.pwrite(file, rest, start)
        start += count
        rest = rest[count:]


def _place(temporary: Path, path: Path, changed_us: int) -> None:
    os.utime(temporary, ns=(changed_us * 1000, changed_us * 1000))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.replace(path)
