"""The cores that the engines of one process may use together, one for each of their threads.

For one event loop. An engine that could use more gets the cores that are idle when it begins.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class CoreBudget:
    """A budget of `total` cores, at least one."""

    def __init__(self, total: int) -> None:
        self.total = max(1, total)
        self._used = 0
        self._cores = asyncio.Semaphore(self.total)

    @property
    def idle(self) -> int:
        """The number of cores that are not in use."""
        return self.total - self._used

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None, None]:
        """Wait for a core and hold it for the length of the block."""
        async with self._cores:
            self._used += 1
            try:
                yield
            finally:
                self._used -= 1

    @asynccontextmanager
    async def idle_ones(self, most: int) -> AsyncGenerator[int, None]:
        """Hold up to `most` idle cores without waiting; yield their number."""
        count = 0
        while count < most and not self._cores.locked():
            await self._cores.acquire()
            count += 1
        self._used += count
        try:
            yield count
        finally:
            self._used -= count
            for _ in range(count):
                self._cores.release()
