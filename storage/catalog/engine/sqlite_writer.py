"""A connection that writes a file of SQLite, on a thread of its own, and survives being cancelled.

SQLAlchemy takes it for one of aiosqlite's, whose form it has. That one goes wrong where its caller
is cancelled: the thread goes on with the statement, the connection is closed under it, and the
unfinished statement keeps the closed connection's transaction, and with it the write lock, for
ever. Here the statement is interrupted and waited for, and closing undoes the transaction first.
"""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from storage.catalog.engine.sqlite_cursor import (
    SqliteCursor,
    connect,
    retry_while_locked,
    wait_or_interrupt,
)

__all__ = ["SqliteWriter", "open_writer"]


class SqliteWriter:
    """A connection that writes; one transaction uses it at a time."""

    def __init__(self, raw: sqlite3.Connection, thread: ThreadPoolExecutor, busy_ms: int) -> None:
        self.raw = raw
        self._thread = thread
        self._busy_ms = busy_ms

    @property
    def _connection(self) -> sqlite3.Connection:
        # SQLAlchemy sees by it whether the connection is open.
        return self.raw

    def cursor(self) -> SqliteCursor:
        """Return a cursor."""
        return SqliteCursor(self)

    async def commit(self) -> None:
        """Make what was written count."""
        await self.run(self.raw.commit)

    async def rollback(self) -> None:
        """Undo what was written."""
        await self.run(self.raw.rollback)

    async def close(self) -> None:
        """Close the connection; what does not count yet is undone."""
        self.stop()

    def stop(self) -> None:
        """Close the connection, where nothing can be waited for."""
        # Nothing runs on the thread: `run` waits for what it began, however it ends.
        with contextlib.suppress(sqlite3.Error):
            self.raw.rollback()
        self.raw.close()
        self._thread.shutdown(wait=False)

    async def create_function(self, *arguments: Any, **options: Any) -> None:  # as sqlite3's
        """Give SQL a function."""
        self.raw.create_function(*arguments, **options)

    async def run(self, act: Callable[[], None]) -> None:
        """Do something on the thread; a caller that is cancelled waits until it is over.

        Raises:
            sqlite3.Error: the database refused.
        """
        gone = threading.Event()
        doing = asyncio.get_running_loop().run_in_executor(
            self._thread, retry_while_locked, act, gone, self._busy_ms / 1000
        )
        await wait_or_interrupt(doing, self.raw, gone)


async def open_writer(path: str, busy_ms: int) -> SqliteWriter:
    """Open a connection to a file; `busy_ms` is how long it may wait for a lock.

    Transactions are begun by whoever uses it, in words: `BEGIN IMMEDIATE`.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="catalog-writer")

    def opened() -> sqlite3.Connection:
        # In WAL a crash of the machine may lose the newest commits, never the integrity.
        return connect(path, busy_ms, "synchronous=NORMAL")

    opening = asyncio.get_running_loop().run_in_executor(thread, opened)
    try:
        raw = await asyncio.shield(opening)
    except BaseException:
        # Nobody is to be left with an open file.
        opening.add_done_callback(_close)
        thread.shutdown(wait=False)
        raise
    return SqliteWriter(raw, thread, busy_ms)


def _close(opening: "asyncio.Future[sqlite3.Connection]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
