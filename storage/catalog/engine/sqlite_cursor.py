"""What connections to a file of SQLite have in common: statements, and waiting for their threads.

SQLAlchemy takes cursors for aiosqlite's, whose form they have.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

__all__ = ["HELD", "Cursor", "Row", "do_patiently", "finished"]

HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PAUSE_SECONDS: Final = 0.005  # between two looks at a lock that another process holds
_LOOK_SECONDS: Final = 0.05  # until a thread that was interrupted is interrupted again

Row = tuple[Any, ...]  # Any: columns of every type


class _Connection(Protocol):
    raw: sqlite3.Connection

    async def do(self, act: Callable[[], None], /) -> None: ...


class Cursor:
    """Runs one statement; all rows are there when it is done."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._cursor = connection.raw.cursor()
        self._rows: list[Row] = []

    async def __aenter__(self) -> "Cursor":
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

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> "Cursor":
        """Run a statement.

        Raises:
            sqlite3.Error: the database refused.
        """

        def act() -> None:
            self._rows = self._cursor.execute(statement, parameters).fetchall()

        await self._connection.do(act)
        return self

    async def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> "Cursor":
        """Run a statement with many sets of values.

        Raises:
            sqlite3.Error: the database refused.
        """

        def act() -> None:
            self._cursor.executemany(statement, parameters)

        await self._connection.do(act)
        return self

    async def fetchall(self) -> list[Row]:
        """Return the rows, once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Let the statement go."""
        self._cursor.close()


def do_patiently(act: Callable[[], None], gone: threading.Event, seconds: float) -> None:
    """Do something, waiting for a lock that another process holds; to be called on a thread.

    `gone` says that nobody wants it any more.

    Raises:
        sqlite3.Error: the database refused, or the lock was not let go in time.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            act()
        except sqlite3.OperationalError as error:
            is_held = error.sqlite_errorcode & 0xFF in HELD
            if not is_held or time.monotonic() > until or gone.wait(_PAUSE_SECONDS):
                raise
        else:
            return


async def finished(
    doing: "asyncio.Future[None]", raw: sqlite3.Connection, gone: threading.Event
) -> None:
    """Wait for what a thread does; who is cancelled has it broken off, and waits until it is over.

    The thread has the connection: nobody may have it back before that.

    Raises:
        sqlite3.Error: the database refused.
    """
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        gone.set()
        while not doing.done():
            raw.interrupt()
            with contextlib.suppress(TimeoutError, sqlite3.Error):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await asyncio.shield(doing)
        doing.exception()  # nobody asks for it any more
        raise
