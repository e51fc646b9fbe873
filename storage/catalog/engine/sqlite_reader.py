"""A connection that reads a file of SQLite: short queries at once, long ones on a thread.

SQLAlchemy takes it for a connection of aiosqlite, whose form it has. That library hands each call
to a thread, nine of them for a transaction with one question, which costs several times the
question: a page of videos took 1.4 ms of CPU that way and takes 0.3 ms here. Nearly every question
of ours is answered from memory in less time than that, so it is asked on the event loop's thread,
within bounds. A question that takes longer (a search through all titles) or that waits (for pages
that must be read from the disk) is interrupted and asked again on a thread, and so is one that
would have to wait for a lock. Asking twice does no harm: the connection can only read, and its
transaction shows the same both times.

A single read of a disk that stalls cannot be interrupted. After one that held the loop up, all
readers of the database ask on threads for a while.
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

# What others on the event loop may be kept waiting for. A media packet's turn is longer.
BUDGET_SECONDS: Final = 0.002  # of CPU time
# The same with waiting for the disk; a busy machine makes a question wait for the CPU, too.
_WAIT_SECONDS: Final = 0.02
# Of SQLite's virtual machine, between two looks at the clock: 1 to 5 us, or some reads of the disk.
_STEPS: Final = 100
# A question that held the loop up for this long waited for the disk.
_STALL_SECONDS: Final = 0.1
# For how long no question is asked on the loop after that.
_AVOID_SECONDS: Final = 10.0
# One for each connection that `storage.catalog.engine.sqlite` opens. They are not shared with other
# work, so that looking up a stream key does not wait for it.
_THREADS: Final = ThreadPoolExecutor(4, thread_name_prefix="catalog-reader")
_ELSEWHERE: Final = HELD | {sqlite3.SQLITE_INTERRUPT}


class DiskStalls:
    """Remembers when the disk of a database last held the event loop up; its readers share it."""

    def __init__(self) -> None:
        self._avoid_until = -math.inf  # monotonic, in seconds

    def record(self, seconds: float) -> None:
        """Record for how long a question has just been asked on the loop."""
        if seconds >= _STALL_SECONDS:
            self._avoid_until = time.monotonic() + _AVOID_SECONDS

    @property
    def are_recent(self) -> bool:
        """True for a while after a stall."""
        return time.monotonic() < self._avoid_until


class SqliteReader:
    """A connection that can only read; one transaction uses it at a time."""

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
        self._until = math.inf  # on this thread's clock of CPU time
        self._wait_until = math.inf  # monotonic
        raw.set_progress_handler(self._is_over, _STEPS)

    @property
    def _connection(self) -> sqlite3.Connection:
        # SQLAlchemy sees by it whether the connection is open.
        return self.raw

    def begin(self) -> None:
        """Begin a transaction; it sees what there is at its first question."""
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
        """Close the connection, where nothing can be waited for."""
        self.raw.close()

    async def create_function(self, *arguments: Any, **options: Any) -> None:  # as sqlite3's
        """Give SQL a function."""
        self.raw.create_function(*arguments, **options)

    async def run(self, ask: Callable[[], None]) -> None:
        """Ask at once, or on a thread where that takes too long or has to wait.

        Raises:
            sqlite3.Error: the database refused.
        """
        if self._stalls.are_recent:
            await self._run_on_thread(ask)
            return
        began = time.monotonic()
        self._until = time.thread_time() + self._budget
        self._wait_until = began + max(_WAIT_SECONDS, self._budget)
        try:
            ask()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _ELSEWHERE:
                raise
        else:
            return
        finally:
            self._until = self._wait_until = math.inf
            self._stalls.record(time.monotonic() - began)
        await self._run_on_thread(ask)

    def _is_over(self) -> bool:
        return time.thread_time() > self._until or time.monotonic() > self._wait_until

    async def _run_on_thread(self, ask: Callable[[], None]) -> None:
        gone = threading.Event()

        def patiently() -> None:
            # The handler would want the interpreter thousands of times.
            self.raw.set_progress_handler(None, 0)
            try:
                retry_while_locked(ask, gone, self._busy_ms / 1000)
            finally:
                self.raw.set_progress_handler(self._is_over, _STEPS)

        doing = asyncio.get_running_loop().run_in_executor(_THREADS, patiently)
        await wait_or_interrupt(doing, self.raw, gone)


async def open_reader(
    path: str,
    busy_ms: int,
    *,
    budget: float = BUDGET_SECONDS,
    stalls: DiskStalls | None = None,
) -> SqliteReader:
    """Open a connection to a file; `busy_ms` is how long it may wait for a lock.

    `stalls` is shared by the readers of the file.

    Raises:
        sqlite3.Error: it cannot be opened.
    """

    def opened() -> sqlite3.Connection:
        # A write in a reading transaction would be one without the lock.
        return connect(path, busy_ms, "query_only=ON")

    raw = await asyncio.get_running_loop().run_in_executor(_THREADS, opened)
    return SqliteReader(raw, busy_ms, budget, stalls)
