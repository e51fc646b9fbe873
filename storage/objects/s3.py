"""Objects in a bucket, and the files of this machine that go with them.

Files that arrive in several requests are written to the scratch, under the addresses that they
would have on a disk, until `send` sends them to the bucket; calls for such addresses therefore go
to both. What is read as a file is copied to the scratch (`file_cache`) once for all its readers.
"""

import asyncio
import copy
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from storage.objects.addresses import TRASH, UPLOADS, checked, is_arriving
from storage.objects.base import ObjectMissing, ObjectStat
from storage.objects.cdn_copies import CopyFinder
from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import FILES, VIEWERS, DiskThreads
from storage.objects.file_cache import FileCache, MakeRoom
from storage.objects.incoming_file import check_free, in_thread, write_at
from storage.objects.s3_bucket import PIECE_BYTES, S3Bucket, S3Location

log = logging.getLogger(__name__)

_SOURCES: Final = "sources"
# How long an absent poster is not requested again: as long as a present one is cached.
_ABSENT_SECONDS: Final = 2.0
_MOST_ABSENT: Final = 10_000  # addresses of 60 bytes


class S3Objects(S3Bucket):
    """A bucket as a `storage.objects.store.MediaStore`.

    `scratch` stays open for as long as the store is used. `cache_bytes` of it hold copies of what
    viewers ask for, and as many copies for engines; a large object is copied only if
    `min_free_bytes` of its disk stay free. `has_cdn_copies`: objects may have copies for a CDN
    (`cdn_copies`), which are deleted with them.
    """

    def __init__(
        self,
        location: S3Location,
        scratch: DiskObjects,
        *,
        cache_bytes: int,
        min_free_bytes: int = 0,
        has_cdn_copies: bool = False,
    ) -> None:
        super().__init__(location, has_cdn_copies=has_cdn_copies)
        self.scratch = scratch
        self._min_free_bytes = min_free_bytes
        self._shown = FileCache(
            scratch.temporary(),
            partial(self._copy, VIEWERS),
            most_bytes=cache_bytes,
            threads=VIEWERS,
            may_change=_may_change,
        )
        # Separate, so that a file that is being transcoded takes no room from viewers.
        self._lent = FileCache(
            scratch.temporary(), partial(self._copy, FILES), most_bytes=cache_bytes, threads=FILES
        )
        self._absent: set[str] = set()
        self._copies = CopyFinder(self.folder_names) if has_cdn_copies else None

    @property
    def files(self) -> Path:
        """The folder of the copies for viewers."""
        return self._shown.root

    def using(self, threads: DiskThreads) -> "S3Objects":
        """Return the same store for callers whose calls wait in other threads."""
        other = copy.copy(self)
        other.scratch = self.scratch.using(threads)
        return other

    # -- objects ----------------------------------------------------------------------------------

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects by address, at the same time (see `Objects`)."""
        await super().put_all(objects, vital=vital)
        await self._drop(objects)

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        """Replace one version of an object (see `Objects`)."""
        new_version = await super().put_if(address, data, version, vital=vital)
        await self._drop([address])
        return new_version

    async def link(self, source: str, target: str) -> None:
        """Make a copy of an object, within the bucket (see `Objects`)."""
        await super().link(source, target)
        await self._drop([target])

    async def move(self, source: str, target: str) -> None:
        """Copy an object or a folder to another address, then delete it (see `Objects`).

        What has been received of an upload stays on this machine, at the other address. Imports
        that are being received can be fetched again: they are deleted.
        """
        checked(target)
        self.guard.require_delete(source)
        if source.startswith(f"{UPLOADS}/"):
            await self.scratch.move(source, target)
        elif is_arriving(source):
            await self.scratch.delete(source)
        elif _may_arrive(source):
            await self.scratch.delete_tree(source)
        await super().move(source, target)

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        arriving = await self.scratch.stat(address) if is_arriving(address) else None
        return arriving or await super().stat(address)

    async def delete_all(self, addresses: Collection[str]) -> None:
        """Delete objects that exist (see `Objects`)."""
        arriving = [address for address in addresses if is_arriving(address)]
        if arriving:
            await self.scratch.delete_all(arriving)
        copies = [] if self._copies is None else await self._copies.find(addresses)
        await super().delete_all([*addresses, *copies])
        await self._drop(addresses)

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        addresses = await super().addresses(prefix)
        if not _may_arrive(prefix):
            return addresses
        arriving = [each for each in await self.scratch.addresses(prefix) if is_arriving(each)]
        return sorted({*addresses, *arriving})

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`."""
        names = await super().folder_names(prefix)
        return names | (await self.scratch.folder_names(prefix) if _may_arrive(prefix) else set())

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        """Return whether a folder has changed since then, here or in the bucket."""
        if _may_arrive(prefix) and await self.scratch.has_changed(prefix, since_us):
            return True
        return await super().has_changed(prefix, since_us)

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        self.guard.require_delete(prefix)
        if _may_arrive(prefix):
            await self.scratch.delete_tree(prefix)
        await super().delete_tree(prefix)
        for copies in (self._shown, self._lent):
            await copies.drop_tree(prefix)

    async def check(self, *, min_free_bytes: int = 0, thorough: bool = False) -> None:
        """Check the bucket and the disk of the scratch (see `MediaStore`)."""
        self.guard.require_write(self.location)
        await self.scratch.check(min_free_bytes=min_free_bytes, thorough=thorough)
        await super().check(thorough=thorough)

    # -- files ------------------------------------------------------------------------------------

    def placing(self, address: str) -> None:
        """Return None: objects are sent to a bucket."""
        checked(address)

    async def send(self, path: Path, address: str) -> None:
        """Send a received file to the bucket (see `MediaStore`)."""
        await super().send(path, address)
        try:
            # It is most likely transcoded on this machine.
            await self._lent.add(address, path)
        except OSError as error:
            log.info("file not kept as a copy", extra={"cause": error.strerror})

    @asynccontextmanager
    async def holding(self, address: str) -> AsyncGenerator[bool, None]:
        """Return a context with a viewers' copy of an object (see `MediaStore`)."""
        if checked(address) in self._absent:
            yield False
            return
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._shown.lend(address))
            except ObjectMissing:
                self._remember_absence(address)
                yield False
            else:
                yield True

    def lend(self, address: str) -> AbstractAsyncContextManager[Path]:
        """Return a context with a copy of an object (see `MediaStore`)."""
        return self._lent.lend(checked(address))

    def is_unchanged(self, address: str, stat: ObjectStat) -> bool:
        """Return True: another request to the bucket would take longer than `stat` is trusted."""
        del address, stat
        return True

    # -- helpers ----------------------------------------------------------------------------------

    def _remember_absence(self, address: str) -> None:
        if _may_change(address) and len(self._absent) < _MOST_ABSENT:
            self._absent.add(address)
            loop = asyncio.get_running_loop()
            loop.call_later(_ABSENT_SECONDS, self._absent.discard, address)

    async def _drop(self, addresses: Collection[str]) -> None:
        self._absent.difference_update(addresses)
        for copies in (self._shown, self._lent):
            await copies.drop(addresses)

    async def _copy(
        self, threads: DiskThreads, address: str, path: Path, make_room: MakeRoom
    ) -> int:
        """Write an object to a file of a cache (see `fetch_file`)."""
        temporary = self.scratch.temporary()

        async def begin(size: int) -> None:
            await make_room(size)
            if size > PIECE_BYTES:
                least = self._min_free_bytes + size
                free = partial(check_free, temporary, least)
                await in_thread(free, name=address, threads=threads)

        return await fetch_file(self, address, temporary, path, begin, threads=threads)


async def fetch_file(
    bucket: S3Bucket,
    address: str,
    temporary: Path,
    path: Path,
    begin: Callable[[int], Awaitable[None]],
    *,
    threads: DiskThreads = FILES,
) -> int:
    """Write an object to a file, which gets the time of the object's last change; return its size.

    The file is `temporary` until it is complete. `begin` gets the size once that file exists.

    Raises:
        ObjectMissing: there is no such object.
        StoreFull, StoreFailed: the bucket or the disk failed.
    """
    on_disk = partial(in_thread, name=address, threads=threads)
    await on_disk(partial(_create, temporary))
    try:

        async def write(start: int, data: memoryview) -> None:
            await on_disk(partial(write_at, temporary, data, start))

        stat = await bucket.receive(address, begin, write)
        await on_disk(partial(_place, temporary, path, stat.modified_us))
    except BaseException:
        threads.submit(partial(temporary.unlink, missing_ok=True))
        raise
    return stat.size


def _may_arrive(prefix: str) -> bool:
    """Return whether files that are being received may be below a folder, or were (the trash)."""
    return prefix.partition("/")[0] in {UPLOADS, _SOURCES, TRASH}


def _may_change(address: str) -> bool:
    """Return whether an object that is read as a file may be replaced: a stream's poster."""
    return address.startswith("live/") and address.endswith(".jpg")


def _create(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _place(temporary: Path, path: Path, changed_us: int) -> None:
    os.utime(temporary, ns=(changed_us * 1000, changed_us * 1000))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.replace(path)
