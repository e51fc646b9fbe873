"""Copies of objects as files: made once however many ask, and bounded in bytes.

Where the bound is exceeded the oldest copies go, unless they are lent. A file that is open stays
readable after it was deleted, so a viewer who is being served notices nothing.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from storage.errors import StorageError
from storage.objects.disk_threads import DiskThreads

__all__ = ["FileCache"]

# Copies of objects that may change are used for so long: a poster is new every few seconds.
_CHANGING_SECONDS: Final = 2.0


class FileCache:
    """The copies below `root`, of at most `most_bytes`.

    `copy` writes an object to a path, replacing any file there, and returns its size; it raises
    what its store raises. Copies of objects that `may_change` are made anew after 2 s.
    """

    def __init__(
        self,
        root: Path,
        copy: Callable[[str, Path], Awaitable[int]],
        *,
        most_bytes: int,
        may_change: Callable[[str], bool],
        threads: DiskThreads,
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

    async def fetch(self, address: str) -> Path:
        """Return the path of an object's copy, made now if there is none."""
        while address not in self._sizes:
            copying = self._copying.get(address)
            if copying is None:
                await self._make(address)
            else:
                await asyncio.shield(copying)
        return self.root / address

    @asynccontextmanager
    async def lend(self, address: str) -> AsyncGenerator[Path, None]:
        """Return a context in which an object's copy stays."""
        self._lent[address] += 1
        try:
            yield await self.fetch(address)
        finally:
            self._lent[address] -= 1
            if not self._lent[address]:
                del self._lent[address]

    async def add(self, address: str, path: Path) -> None:
        """Make the file at `path`, of the same file system, the copy of an object as well."""
        target = self.root / address

        def link() -> int:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.hardlink_to(path)
            return target.stat().st_size

        await self._remember(address, await self._threads.run(link))

    async def drop(self, addresses: Collection[str]) -> None:
        """Delete the copies of objects that were replaced or deleted."""
        await self._delete([each for each in addresses if each in self._sizes])

    async def drop_tree(self, prefix: str) -> None:
        """Delete the copies of all objects below a folder's address."""
        await self._delete([each for each in self._sizes if each.startswith(f"{prefix}/")])

    async def _make(self, address: str) -> None:
        """Make a copy; whoever waits for it gets the error, or tries if this caller went away."""
        made = self._copying[address] = asyncio.get_running_loop().create_future()
        try:
            size = await self._copy(address, self.root / address)
        except StorageError as error:
            made.set_exception(error)
            made.exception()  # it may be that nobody waits
            raise
        else:
            await self._remember(address, size)
        finally:
            del self._copying[address]
            if not made.done():
                made.set_result(None)

    async def _remember(self, address: str, size: int) -> None:
        self._bytes += size - self._sizes.pop(address, 0)
        self._sizes[address] = size
        if self._may_change(address):
            loop = asyncio.get_running_loop()
            loop.call_later(_CHANGING_SECONDS, self._expire, address)
        surplus: list[str] = []
        left = self._bytes
        for each, its_size in self._sizes.items():
            if left <= self._most:
                break
            if each != address and each not in self._lent:
                surplus.append(each)
                left -= its_size
        await self._delete(surplus)

    def _expire(self, address: str) -> None:
        """Delete the copy of an object that may have changed: a small file on a local disk."""
        self._forget(address)
        (self.root / address).unlink(missing_ok=True)

    def _forget(self, address: str) -> None:
        self._bytes -= self._sizes.pop(address, 0)

    async def _delete(self, addresses: Collection[str]) -> None:
        if not addresses:
            return
        for each in addresses:
            self._forget(each)
        paths = [self.root / each for each in addresses]

        def delete() -> None:
            for path in paths:
                path.unlink(missing_ok=True)

        await self._threads.run(delete)
