"""A connection that reads a file of SQLite: short queries at once, long ones on a thread.

SQLAlchemy takes it for one of aiosqlite's, whose form it has. That one hands each call to a thread
of its own, nine of them for a transaction with one question, and this costs several times the
question: a page of videos took 1.4 ms of CPU that way and takes 0.3 ms here. Nearly every question
of ours is answered from memory in less than that; so it is asked where it stands, on the event
loop's thread, with a bound on its CPU time. A question that takes longer, as a search through all
titles, is broken off and asked again on a thread; so is one that would have to wait for a lock.
Asking twice does no harm: the connection can only read, and its transaction shows the same both
times.
"""

import asyncio
import math
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from storage.catalog.engine.sqlite_cursor import (
    HELD,
    SqliteCursor,
    retry_while_locked,
    wait_or_interrupt,
)

__all__ = ["SqliteReader", "open_reader"]

# What others on the event loop may be kept waiting for. A media packet's turn is longer.
BUDGET_SECONDS: Final = 0.002
# Of SQLite's virtual machine, between two looks at the clock: 10 to 50 us.
_STEPS: Final = 1000
_ELSEWHERE: Final = HELD | {sqlite3.SQLITE_INTERRUPT}


class SqliteReader:
    """A connection that can only read; one transaction uses it at a time."""

    def __init__(self, raw: sqlite3.Connection, busy_ms: int, budget: float) -> None:
        self.raw = raw
        self._busy_ms = busy_ms
        self._budget = budget
        self._until = math.inf  # on this thread's clock of CPU time
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
        self._until = time.thread_time() + self._budget
        try:
            ask()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _ELSEWHERE:
                raise
        else:
            return
        finally:
            self._until = math.inf
        await self._run_on_thread(ask)

    def _is_over(self) -> bool:
        return time.thread_time() > self._until

    async def _run_on_thread(self, ask: Callable[[], None]) -> None:
        gone = threading.Event()

        def patiently() -> None:
            # The handler would want the interpreter thousands of times.
            self.raw.set_progress_handler(None, 0)
            try:
                retry_while_locked(ask, gone, self._busy_ms / 1000)
            finally:
                self.raw.set_progress_handler(self._is_over, _STEPS)

        doing = asyncio.get_running_loop().run_in_executor(None, patiently)
        await wait_or_interrupt(doing, self.raw, gone)


async def open_reader(path: str, busy_ms: int, *, budget: float = BUDGET_SECONDS) -> SqliteReader:
    """Open a connection to a file; `busy_ms` is how long it may wait for a lock.

    Raises:
        sqlite3.Error: it cannot be opened.
    """

    def opened() -> sqlite3.Connection:
        raw = sqlite3.connect(
            path, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("PRAGMA foreign_keys=ON")
            # A write in a reading transaction would be one without the lock.
            raw.execute("PRAGMA query_only=ON")
            # From here on nobody waits on the event loop's thread.
            raw.execute("PRAGMA busy_timeout=0")
        except BaseException:
            raw.close()
            raise
        return raw

    return SqliteReader(await asyncio.to_thread(opened), busy_ms, budget)
