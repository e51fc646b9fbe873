"""The cursor of the SQLite connections, how they are opened, and how they wait for their threads.

SQLAlchemy takes cursors for aiosqlite's, whose form they have.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

__all__ = [
    "HELD",
    "Row",
    "SqliteCursor",
    "connect",
    "retry_while_locked",
    "wait_or_interrupt",
]

HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PAUSE_SECONDS: Final = 0.005  # between two looks at a lock that another process holds
_LOOK_SECONDS: Final = 0.05  # until a thread that was interrupted is interrupted again

Row = tuple[Any, ...]  # Any: columns of every type


def connect(path: str, busy_ms: int, *pragmas: str) -> sqlite3.Connection:
    """Open a file under WAL; `pragmas` are further ones, `busy_ms` is how long it may wait.

    What is done with the connection later does not wait for locks: see `retry_while_locked`.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    raw = sqlite3.connect(
        path, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", *pragmas, "busy_timeout=0"):
            raw.execute(f"PRAGMA {pragma}")
    except BaseException:
        raw.close()
        raise
    return raw


class _Connection(Protocol):
    raw: sqlite3.Connection

    async def run(self, act: Callable[[], None], /) -> None: ...


class SqliteCursor:
    """Runs one statement; all rows are there when it is done."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._cursor = connection.raw.cursor()
        self._rows: list[Row] = []

    async def __aenter__(self) -> "SqliteCursor":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    @property
    def description(self) -> Any:  # DBAPI's own form
        """What the columns of the answer are; None where it has none."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """How many rows were changed; -1 for a question."""
        return self._cursor.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The number of the row that was added last."""
        return self._cursor.lastrowid

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> "SqliteCursor":
        """Run a statement.

        Raises:
            sqlite3.Error: the database refused.
        """

        def act() -> None:
            self._rows = self._cursor.execute(statement, parameters).fetchall()

        await self._connection.run(act)
        return self

    async def executemany(
        self, statement: str, parameters: Sequence[Sequence[Any]]
    ) -> "SqliteCursor":
        """Run a statement with many sets of values.

        Raises:
            sqlite3.Error: the database refused.
        """

        def act() -> None:
            self._cursor.executemany(statement, parameters)

        await self._connection.run(act)
        return self

    async def fetchall(self) -> list[Row]:
        """Return the rows, once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Let the statement go."""
        self._cursor.close()


def retry_while_locked(
    action: Callable[[], None], cancelled: threading.Event, seconds: float
) -> None:
    """Do something, waiting for a lock that another process holds; to be called on a thread.

    It is not tried again once `cancelled` is set.

    Raises:
        sqlite3.Error: the database refused, or the lock was not let go in time.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            is_held = error.sqlite_errorcode & 0xFF in HELD
            if not is_held or time.monotonic() > until or cancelled.wait(_PAUSE_SECONDS):
                raise
        else:
            return


async def wait_or_interrupt(
    running: "asyncio.Future[None]", raw: sqlite3.Connection, cancelled: threading.Event
) -> None:
    """Wait for what a thread does; if cancelled, interrupt it and wait until it is over.

    The thread has the connection, which must not be used again before that.

    Raises:
        sqlite3.Error: the database refused.
    """
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        cancelled.set()
        while not running.done():
            raw.interrupt()
            with contextlib.suppress(TimeoutError, sqlite3.Error):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await asyncio.shield(running)
        running.exception()  # the caller is gone
        raise
