"""Copies of objects as files: made once for all concurrent requests, and bounded in bytes.

When the bound would be exceeded, the oldest copies are deleted, unless they are lent; a copy that
is larger than the bound is the only one. An open file stays readable after its deletion, so a
response that is being sent is not affected.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from storage.errors import StorageError
from storage.objects.disk_threads import DiskThreads

# The lifetime of copies of objects that may change: a poster is replaced every few seconds.
_CHANGING_SECONDS: Final = 2.0

MakeRoom = Callable[[int], Awaitable[None]]
"""Deletes copies so that one more of so many bytes fits."""


class FileCache:
    """The copies below `root`, of at most `most_bytes`, which `threads` delete.

    `copy` writes an object to a path, replacing any file there, and returns its size in bytes; it
    calls its `MakeRoom` before that. It raises what its store raises. Copies of objects that
    `may_change` are made again after 2 s.
    """

    def __init__(
        self,
        root: Path,
        copy: Callable[[str, Path, MakeRoom], Awaitable[int]],
        *,
        most_bytes: int,
        threads: DiskThreads,
        may_change: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.root = root
        self._copy = copy
        self._most = most_bytes
        self._may_change = may_change
        self._threads = threads
        self._sizes: OrderedDict[str, int] = OrderedDict()  # the oldest first
        self._bytes = 0
        self._lent: Counter[str] = Counter()
        self._copying: dict[str, asyncio.Future[None]] = {}
        self._outdated: set[str] = set()  # replaced or deleted while being copied
        self._deleting: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def lend(self, address: str) -> AsyncGenerator[Path, None]:
        """Return a context with an object's copy, made now if there is none, and not displaced.

        Raises:
            StorageError: on entry; the object cannot be copied.
        """
        self._lent[address] += 1
        try:
            await self._fetch(address)
            yield self.root / address
        finally:
            self._lent[address] -= 1
            if not self._lent[address]:
                del self._lent[address]

    async def add(self, address: str, path: Path) -> None:
        """Make the file at `path`, of the same file system, the copy of an object as well.

        A file of more than a quarter of the bound is not added: it would displace too many others.

        Raises:
            OSError: the file system has no links, or failed.
        """
        size = await self._threads.run(lambda: path.stat().st_size)
        if size > self._most // 4 or address in self._copying:
            return
        await self.drop([address])
        await self._make_room(size)
        await self._threads.run(partial(_link, path, self.root / address))
        self._remember(address, size)

    async def drop(self, addresses: Collection[str]) -> None:
        """Delete the copies of objects that were replaced or deleted."""
        self._outdated.update(each for each in addresses if each in self._copying)
        await self._delete([each for each in addresses if each in self._sizes])

    async def drop_tree(self, prefix: str) -> None:
        """Delete the copies of all objects below a folder's address."""
        addresses = (*self._sizes, *self._copying)
        await self.drop([each for each in addresses if each.startswith(f"{prefix}/")])

    async def _fetch(self, address: str) -> None:
        while address not in self._sizes:
            deleting, copying = self._deleting.get(address), self._copying.get(address)
            if deleting is not None and not deleting.done():
                await asyncio.wait([deleting])
            elif copying is not None:
                await asyncio.shield(copying)
            else:
                await self._make(address)

    async def _make(self, address: str) -> None:
        """Make a copy; waiting callers get its error, or retry if this caller is cancelled."""
        copying = self._copying[address] = asyncio.get_running_loop().create_future()
        size: int | None = None
        try:
            size = await self._copy(address, self.root / address, self._make_room)
        except StorageError as error:
            copying.set_exception(error)
            copying.exception()  # marks it as retrieved: there may be no waiter
            raise
        finally:
            del self._copying[address]
            if size is None or address in self._outdated:
                self._begin_delete([address])  # also the partial copy of a cancelled caller
            else:
                self._remember(address, size)
            self._outdated.discard(address)
            if not copying.done():
                copying.set_result(None)

    async def _make_room(self, size: int) -> None:
        """Delete the oldest copies that are not lent, to make room for `size` bytes."""
        surplus: list[str] = []
        total = self._bytes + size
        for address, copy_size in self._sizes.items():
            if total <= self._most:
                break
            if address not in self._lent:
                surplus.append(address)
                total -= copy_size
        await self._delete(surplus)

    def _remember(self, address: str, size: int) -> None:
        self._bytes += size - self._sizes.pop(address, 0)
        self._sizes[address] = size
        if self._may_change(address):
            loop = asyncio.get_running_loop()
            loop.call_later(_CHANGING_SECONDS, self._begin_delete, [address])

    async def _delete(self, addresses: Collection[str]) -> None:
        if addresses:
            await asyncio.wait([self._begin_delete(addresses)])

    def _begin_delete(self, addresses: Collection[str]) -> "asyncio.Future[None]":
        """Forget copies and delete their files; a new copy waits until the old file is deleted."""
        for address in addresses:
            self._bytes -= self._sizes.pop(address, 0)
        paths = [self.root / address for address in addresses]
        deleting = self._threads.submit(partial(_unlink, paths))
        for address in addresses:
            self._deleting[address] = deleting
        deleting.add_done_callback(partial(self._on_deleted, addresses))
        return deleting

    def _on_deleted(self, addresses: Collection[str], deleting: "asyncio.Future[None]") -> None:
        for address in addresses:
            if self._deleting.get(address) is deleting:
                del self._deleting[address]
        if not deleting.cancelled():
            deleting.exception()  # such a file is replaced by the next copy


def _link(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.hardlink_to(path)


def _unlink(paths: Collection[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
