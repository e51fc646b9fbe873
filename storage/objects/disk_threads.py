"""Threads for blocking work on the disk: one pool for each kind of work.

With a single pool, live segments and viewers wait while uploads fill it. The disk itself is shared,
but the kernel serves small writes beside large ones.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")


class DiskThreads:
    """A pool of at most `size` threads, which are started on demand."""

    def __init__(self, name: str, size: int) -> None:
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=f"disk-{name}")

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work in one of the threads, and return its result.

        If the caller is cancelled, work that has begun continues to its end.
        """
        return await self.submit(work)

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Start blocking work, and return its future, for a caller that must see its end."""
        # `run_in_executor` also checks whether the work is a coroutine, which doubles the cost.
        return asyncio.wrap_future(self._executor.submit(work))


# Publications of live runs. Each writes one object after the other, in milliseconds: eight threads
# serve a few hundred runs.
LIVE: Final = DiskThreads("live", 8)
# Objects for viewers that are not in the page cache: a hard disk seeks a hundred times a second,
# and more readers at once only help an array of disks.
VIEWERS: Final = DiskThreads("viewers", 16)
# Everything else: uploads, imports, transcoded files, recordings, cleanups. More at once would only
# take the disk from the others.
FILES: Final = DiskThreads("files", 8)
