"""A connection that writes to an SQLite file, on a thread, and survives cancellation.

A thread does not notice that its caller was cancelled, and an unfinished statement keeps its
transaction, and with it the write lock, even when its connection is closed. So the statement is
interrupted, and has ended before the connection is used again.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Executor

from storage.catalog.engine.sqlite_threads import retry_while_locked, wait_or_interrupt


class SqliteWriter:
    """A connection that writes, used by one transaction at a time."""

    def __init__(self, raw: sqlite3.Connection, threads: Executor, busy_ms: int) -> None:
        self.raw = raw
        self._threads = threads
        self._busy_ms = busy_ms

    async def begin(self) -> None:
        """Begin a transaction, which holds the write lock.

        Raises:
            sqlite3.Error: it failed, or the lock was not released in time.
        """
        await self.run(lambda: self.raw.execute("BEGIN IMMEDIATE"))

    async def commit(self) -> None:
        """Commit the transaction."""
        await self.run(self.raw.commit)

    async def rollback(self) -> None:
        """Roll the transaction back."""
        await self.run(self.raw.rollback)

    async def run(self, action: Callable[[], object], *, once: bool = False) -> None:
        """Run an action on a thread; a cancelled caller waits until it has ended.

        It is repeated while another process holds a lock, unless `once` is set.

        Raises:
            sqlite3.Error: the action failed.
            DBAPIError: the same, from SQLAlchemy.
        """
        cancelled = threading.Event()
        busy_seconds = 0 if once else self._busy_ms / 1000
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, retry_while_locked, action, cancelled, busy_seconds
        )
        await wait_or_interrupt(running, self.raw, cancelled)
