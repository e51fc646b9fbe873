"""A read-only connection to an SQLite file: short queries run at once, long ones on a thread.

Passing a call to a thread costs several times as much as most queries, which are served from
memory. So queries are executed on the event loop's thread, within limits. A query that takes longer
(a search through all titles), waits for the disk, or would wait for a lock is interrupted and
repeated on a thread. Repeating it is safe: the connection is read-only, and the transaction has one
snapshot.

A single stalled read of the disk cannot be interrupted. After one has blocked the loop, the
readers of the database execute their queries on threads for a while.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from sqlalchemy.exc import DBAPIError

from storage.catalog.engine.sqlite_threads import (
    HELD,
    result_code,
    retry_while_locked,
    wait_or_interrupt,
)

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
        threads: Executor,
        busy_ms: int,
        *,
        budget: float = BUDGET_SECONDS,
        stalls: DiskStalls,
    ) -> None:
        self.raw = raw
        self._threads = threads
        self._stalls = stalls
        self._busy_ms = busy_ms
        self._budget = budget
        self._until: float | None = math.inf  # CPU time of this thread; None until SQLite runs
        self._wait_until = math.inf  # monotonic time
        raw.set_progress_handler(self._is_over, _STEPS)

    async def begin(self) -> None:
        """Begin a transaction, whose snapshot is taken at its first query."""
        # Short queries never suspend the task, and would keep all other tasks from running.
        await asyncio.sleep(0)
        self.raw.execute("BEGIN")

    async def commit(self) -> None:
        """End the transaction."""
        self.raw.commit()

    async def rollback(self) -> None:
        """End the transaction."""
        self.raw.rollback()

    async def run(self, action: Callable[[], object], *, once: bool = False) -> None:
        """Run an action at once, or on a thread if it takes too long or has to wait.

        With `once` it runs on a thread, and is never repeated.

        Raises:
            sqlite3.Error: the action failed.
            DBAPIError: the same, from SQLAlchemy.
        """
        if once or self._stalls.are_recent:
            await self._run_on_thread(action, 0 if once else self._busy_ms / 1000)
            return
        began = time.monotonic()
        self._until = None
        try:
            action()
        except (sqlite3.OperationalError, DBAPIError) as error:
            if result_code(error) not in _RETRY_ON_THREAD:
                raise
        else:
            return
        finally:
            self._until = self._wait_until = math.inf
            self._stalls.record(time.monotonic() - began)
        await self._run_on_thread(action, self._busy_ms / 1000)

    def _is_over(self) -> bool:
        now, cpu = time.monotonic(), time.thread_time()
        if self._until is None:
            # What SQLAlchemy did before, such as compiling the statement, does not count.
            self._until = cpu + self._budget
            self._wait_until = now + max(_WAIT_SECONDS, self._budget)
        return cpu > self._until or now > self._wait_until

    async def _run_on_thread(self, action: Callable[[], object], busy_seconds: float) -> None:
        cancelled = threading.Event()

        def run_without_limit() -> None:
            # The handler would acquire the GIL thousands of times.
            self.raw.set_progress_handler(None, 0)
            try:
                retry_while_locked(action, cancelled, busy_seconds)
            finally:
                self.raw.set_progress_handler(self._is_over, _STEPS)

        running = asyncio.get_running_loop().run_in_executor(self._threads, run_without_limit)
        await wait_or_interrupt(running, self.raw, cancelled)
