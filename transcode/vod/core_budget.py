"""The cores that the engines of one process may use together: one for each thread of theirs.

One event loop's. An engine that could use more gets what is idle when it begins, and keeps it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["Cores"]


class Cores:
    """`total` cores, at least one."""

    def __init__(self, total: int) -> None:
        self.total = max(1, total)
        self._used = 0
        self._turn = asyncio.Semaphore(self.total)

    @property
    def idle(self) -> int:
        """How many are not in use."""
        return self.total - self._used

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None, None]:
        """Use a core for the length of the block; waits for one."""
        async with self._turn:
            self._used += 1
            try:
                yield
            finally:
                self._used -= 1

    @asynccontextmanager
    async def more(self, most: int) -> AsyncGenerator[int, None]:
        """Use up to `most` idle cores besides, without waiting; yields how many they are."""
        taken = 0
        while taken < most and not self._turn.locked():
            await self._turn.acquire()
            taken += 1
        self._used += taken
        try:
            yield taken
        finally:
            self._used -= taken
            for _ in range(taken):
                self._turn.release()
