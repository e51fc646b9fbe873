"""Copies all objects of a store to another one: from a folder to a bucket, or back.

Files that are being received stay behind, and so does the installation key: it is added when all
the rest is there (`storage.installation_key`). Nothing is removed, neither here nor there.

A copy that was interrupted is repeated: objects that the target has with the same size are left
out. Sources and segments never change under their address; all others are small, and their bytes
are compared too. When all are copied, both stores are listed again, until a pass has nothing
left to copy: objects that were added or deleted meanwhile cost another pass.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Final, Protocol

import msgspec

from storage.errors import StorageError
from storage.objects.addresses import MEDIA_FOLDERS, is_address, is_arriving
from storage.objects.base import ObjectMissing, Objects, StoreFailed
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import check_free, in_thread
from storage.objects.s3 import fetch_file
from storage.objects.s3_bucket import PIECE_BYTES, S3Bucket

_SOURCES: Final = "sources"
# Each may hold an object of `PIECE_BYTES` in memory; segments have 1 to 4 MB.
_AT_ONCE: Final = 8
_LARGE_AT_ONCE: Final = 2  # of larger ones; each is sent in pieces, two at a time
# The first copies, the second finds nothing left unless API processes received more files.
_PASSES: Final = 5
# Written through now and then: syncing all of a large installation at once would take minutes.
_SYNC_BYTES: Final = 1 << 30
_UNCHANGING: Final = (".m4s", ".mp4")


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a pass: folders seen, all folders, and the objects seen and their bytes."""

    folders: int
    of_folders: int
    objects: int
    bytes: int


class ObjectsCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a copy: objects in both stores, copied ones, and `more` in the target only."""

    objects: int
    bytes: int
    copied: int
    copied_bytes: int
    more: int


class CopyWay(Protocol):
    """A direction of copying, from one store to another."""

    @property
    def source(self) -> Objects:
        """The store to copy from."""
        ...

    @property
    def target(self) -> Objects:
        """The store to copy to."""
        ...

    async def copy(self, address: str, size: int) -> None:
        """Copy an object of `size` bytes, and replace any that has the address.

        Raises:
            ObjectMissing: the object is gone.
            StoreFull, StoreFailed: one of the stores failed.
        """
        ...

    async def settle(self) -> None:
        """Make all copied objects survive a power cut.

        Raises:
            StoreFailed: the disk failed.
        """
        ...


class ToBucket(msgspec.Struct, frozen=True):
    """Copies from a folder to a bucket."""

    source: DiskObjects
    target: S3Bucket

    async def copy(self, address: str, size: int) -> None:
        """Send an object's file (see `CopyWay`)."""
        del size
        try:
            await self.target.send(self.source.path(address), address)
        except StoreFailed:
            if await self.source.stat(address) is None:
                raise ObjectMissing(address) from None
            raise

    async def settle(self) -> None:
        """Do nothing: what a bucket acknowledged is durable."""


class ToFolder:
    """Copies from a bucket to a folder, and leaves `min_free_bytes` of its disk free."""

    def __init__(self, source: S3Bucket, target: DiskObjects, *, min_free_bytes: int = 0) -> None:
        self.source = source
        self.target = target
        self._min_free_bytes = min_free_bytes
        self._unsynced = 0
        self._copied_folder = ""

    async def copy(self, address: str, size: int) -> None:
        """Fetch an object into a file (see `CopyWay`)."""

        async def begin(size: int) -> None:
            free = partial(check_free, self.target.root, self._min_free_bytes + size)
            await in_thread(free, name=address)

        await fetch_file(
            self.source, address, self.target.temporary(), self.target.path(address), begin
        )
        self._copied_folder = address.partition("/")[0]
        self._unsynced += size
        if self._unsynced >= _SYNC_BYTES:
            await self.settle()

    async def settle(self) -> None:
        """Write everything through to the disk."""
        if self._copied_folder:
            self._unsynced = 0
            await self.target.make_durable(self._copied_folder)


async def copy_objects(
    way: CopyWay, report: Callable[[CopyProgress], None] = lambda _: None
) -> ObjectsCopy:
    """Copy all objects that the target of a way lacks; `report` is called after each object.

    Meanwhile only API processes may use the source, and nothing may use the target.

    Raises:
        StoreFull, StoreFailed: a store failed, or the source goes on changing. What was copied
            stays, and need not be copied again.
    """
    copied = copied_bytes = 0
    for number in range(_PASSES):
        copy_pass = _CopyPass(way, report, compares=number == 0)
        await copy_pass.run()
        await way.settle()
        copied += copy_pass.copied
        copied_bytes += copy_pass.copied_bytes
        if not copy_pass.copied:
            return ObjectsCopy(
                objects=copy_pass.objects,
                bytes=copy_pass.bytes,
                copied=copied,
                copied_bytes=copied_bytes,
                more=copy_pass.more,
            )
    raise StoreFailed("the media", "they change faster than they can be copied")


class _CopyPass:
    """A pass over all objects of both stores, which copies those that the target lacks."""

    def __init__(
        self, way: CopyWay, report: Callable[[CopyProgress], None], *, compares: bool
    ) -> None:
        self._way = way
        self._report = report
        self._compares = compares
        self._entries = self._list_entries()
        self._entries_lock = asyncio.Lock()
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._failures: list[StorageError] = []
        self._folders = self._of_folders = 0
        self.objects = self.bytes = self.copied = self.copied_bytes = self.more = 0

    async def run(self) -> None:
        """Copy; after a failure, finish the copies in progress and start no others."""
        async with aclosing(self._entries), asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._work())
        if self._failures:
            raise self._failures[0]

    async def _work(self) -> None:
        try:
            while not self._failures:
                async with self._entries_lock:
                    entry = await anext(self._entries, None)
                if entry is None:
                    return
                await self._copy(*entry)
        except StorageError as error:
            self._failures.append(error)

    async def _copy(self, address: str, size: int, target_size: int | None) -> None:
        try:
            if size != target_size or not await self._is_same(address, size):
                if size > PIECE_BYTES:
                    async with self._large:
                        await self._way.copy(address, size)
                else:
                    await self._way.copy(address, size)
                self.copied += 1
                self.copied_bytes += size
        except ObjectMissing:  # it was deleted meanwhile
            return
        self.objects += 1
        self.bytes += size
        self._report(
            CopyProgress(
                folders=self._folders,
                of_folders=self._of_folders,
                objects=self.objects,
                bytes=self.bytes,
            )
        )

    async def _is_same(self, address: str, size: int) -> bool:
        """Return whether an object that the target has with the same size is the same one."""
        never_changes = address.startswith(f"{_SOURCES}/") or address.endswith(_UNCHANGING)
        if not self._compares or never_changes or size > PIECE_BYTES:
            return True
        return await self._way.source.get(address) == await self._way.target.get(address)

    async def _list_entries(self) -> AsyncGenerator[tuple[str, int, int | None], None]:
        """Yield each object of the source: its address, its size, and its size in the target.

        Only one folder's are in memory at a time: those of a video, or of all runs of a stream.
        """
        source, target = self._way.source, self._way.target
        folders: list[str] = []
        for top in MEDIA_FOLDERS:
            names = await source.folder_names(top) | await target.folder_names(top)
            folders += [each for name in sorted(names) if is_address(each := f"{top}/{name}")]
        self._of_folders = len(folders)
        for folder in folders:
            source_sizes = await source.sizes(folder)
            target_sizes = await target.sizes(folder)
            for address, size in source_sizes.items():
                if not is_arriving(address):
                    yield address, size, target_sizes.get(address)
            self.more += sum(
                1 for each in target_sizes if each not in source_sizes and not is_arriving(each)
            )
            self._folders += 1
