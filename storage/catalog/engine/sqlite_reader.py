"""A read-only connection to an SQLite file: short queries run at once, long ones on a thread.

It has the interface of aiosqlite's connection, which SQLAlchemy expects. That library passes each
call to a thread, nine for a transaction with one query, at several times the cost of the query: a
page of videos took 1.4 ms of CPU that way, and takes 0.3 ms here. Nearly every query is served from
memory in less time than that, so it is executed on the event loop's thread, within limits. A query
that takes longer (a search through all titles), waits for the disk, or would wait for a lock is
interrupted and repeated on a thread. Repeating it is safe: the connection is read-only, and the
transaction has one snapshot.

A single stalled read of the disk cannot be interrupted. After one has blocked the loop, the
readers of the database execute their queries on threads for a while.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from storage.catalog.engine.sqlite_cursor import (
    HELD,
    SqliteCursor,
    connect,
    retry_while_locked,
    wait_or_interrupt,
)

__all__ = ["DiskStalls", "SqliteReader", "open_reader"]

# The longest that a query may block the event loop. Handling a media packet takes longer.
BUDGET_SECONDS: Final = 0.002  # of CPU time
# The same including waits for the disk, and for the CPU of a busy machine.
_WAIT_SECONDS: Final = 0.02
# SQLite VM instructions between two checks of the clock: 1 to 5 us, or some reads of the disk.
_STEPS: Final = 100
# A query that blocked the loop for so long has waited for the disk.
_STALL_SECONDS: Final = 0.1
# For how long no query runs on the loop after that.
_AVOID_SECONDS: Final = 10.0
# One thread per connection of `storage.catalog.engine.sqlite`. No other work uses them, so that the
# lookup of a stream key does not wait for it.
_THREADS: Final = ThreadPoolExecutor(4, thread_name_prefix="catalog-reader")
_RETRY_ON_THREAD: Final = HELD | {sqlite3.SQLITE_INTERRUPT}


class DiskStalls:
    """Records when a database's disk last blocked the event loop; shared by its readers."""

    def __init__(self) -> None:
        self._avoid_until = -math.inf  # monotonic, in seconds

    def record(self, seconds: float) -> None:
        """Record how long a query has just run on the loop."""
        if seconds >= _STALL_SECONDS:
            self._avoid_until = time.monotonic() + _AVOID_SECONDS

    @property
    def are_recent(self) -> bool:
        """True for a while after a stall."""
        return time.monotonic() < self._avoid_until


class SqliteReader:
    """A read-only connection, used by one transaction at a time."""

    def __init__(
        self,
        raw: sqlite3.Connection,
        busy_ms: int,
        budget: float,
        stalls: DiskStalls | None = None,
    ) -> None:
        self.raw = raw
        self._stalls = DiskStalls() if stalls is None else stalls
        self._busy_ms = busy_ms
        self._budget = budget
        self._until = math.inf  # CPU time of this thread
        self._wait_until = math.inf  # monotonic time
        raw.set_progress_handler(self._is_over, _STEPS)

    @property
    def _connection(self) -> sqlite3.Connection:
        # SQLAlchemy checks it to see whether the connection is open.
        return self.raw

    def begin(self) -> None:
        """Begin a transaction, whose snapshot is taken at its first query."""
        self.raw.execute("BEGIN")

    def cursor(self) -> SqliteCursor:
        """Return a cursor."""
        return SqliteCursor(self)

    async def commit(self) -> None:
        """End the transaction."""
        self.raw.commit()

    async def rollback(self) -> None:
        """End the transaction."""
        self.raw.rollback()

    async def close(self) -> None:
        """Close the connection."""
        self.raw.close()

    def stop(self) -> None:
        """Close the connection synchronously."""
        self.raw.close()

    async def create_function(self, *arguments: Any, **options: Any) -> None:  # as sqlite3's
        """Create an SQL function."""
        self.raw.create_function(*arguments, **options)

    async def run(self, action: Callable[[], None]) -> None:
        """Run an action at once, or on a thread if it takes too long or has to wait.

        Raises:
            sqlite3.Error: the action failed.
        """
        if self._stalls.are_recent:
            await self._run_on_thread(action)
            return
        began = time.monotonic()
        self._until = time.thread_time() + self._budget
        self._wait_until = began + max(_WAIT_SECONDS, self._budget)
        try:
            action()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _RETRY_ON_THREAD:
                raise
        else:
            return
        finally:
            self._until = self._wait_until = math.inf
            self._stalls.record(time.monotonic() - began)
        await self._run_on_thread(action)

    def _is_over(self) -> bool:
        return time.thread_time() > self._until or time.monotonic() > self._wait_until

    async def _run_on_thread(self, action: Callable[[], None]) -> None:
        cancelled = threading.Event()

        def run_without_limit() -> None:
            # The handler would acquire the GIL thousands of times.
            self.raw.set_progress_handler(None, 0)
            try:
                retry_while_locked(action, cancelled, self._busy_ms / 1000)
            finally:
                self.raw.set_progress_handler(self._is_over, _STEPS)

        running = asyncio.get_running_loop().run_in_executor(_THREADS, run_without_limit)
        await wait_or_interrupt(running, self.raw, cancelled)


async def open_reader(
    path: str,
    busy_ms: int,
    *,
    budget: float = BUDGET_SECONDS,
    stalls: DiskStalls | None = None,
) -> SqliteReader:
    """Open a connection to a file; `busy_ms` is its lock timeout.

    All readers of a file share `stalls`.

    Raises:
        sqlite3.Error: it cannot be opened.
    """

    def opened() -> sqlite3.Connection:
        # A write in a reading transaction would not hold the write lock.
        return connect(path, busy_ms, "query_only=ON")

    raw = await asyncio.get_running_loop().run_in_executor(_THREADS, opened)
    return SqliteReader(raw, busy_ms, budget, stalls)
