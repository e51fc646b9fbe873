"""The catalog in an SQLite file: its connections, and the translation of its errors.

With WAL, readers never wait and never block a writer. Writers acquire the write lock at their start
(`BEGIN IMMEDIATE`): with deferred transactions, 557 of 900 read-modify-writes from six processes
failed with "database is locked" (a busy timeout does not help an upgrade), and without a
transaction, 646 of 900 were silently lost; with WAL and the lock, none of 900 was.
"""

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, Final

from sqlalchemy import URL, Row, Select
from sqlalchemy.exc import DBAPIError

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.sqlite_engine import SqliteEngine
from storage.catalog.engine.sqlite_reader import DiskStalls, SqliteReader
from storage.catalog.engine.sqlite_threads import HELD, connect, result_code
from storage.catalog.engine.sqlite_writer import SqliteWriter
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable

# Each has a page cache of up to 2 MB. One writer: more would only poll for the single lock.
_READERS: Final = 4
_WRITERS: Final = 1
# Environmental failures, as opposed to faults of our statements.
_BROKEN: Final = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


class SqliteEngines:
    """The engines of a file; `busy_ms` is the lock timeout."""

    def __init__(self, url: URL, busy_ms: int) -> None:
        path = str(url.database)
        stalls = DiskStalls()
        # A write in a reading transaction would not hold the write lock.
        self.reader = SqliteEngine(
            partial(connect, path, busy_ms, "query_only=ON"),
            partial(SqliteReader, busy_ms=busy_ms, stalls=stalls),
            size=_READERS,
            busy_ms=busy_ms,
        )
        # In WAL a crash of the machine may lose the newest commits, never the integrity.
        self.writer = self.beats = SqliteEngine(
            partial(connect, path, busy_ms, "synchronous=NORMAL"),
            partial(SqliteWriter, busy_ms=busy_ms),
            size=_WRITERS,
            busy_ms=busy_ms,
        )

    @contextmanager
    def translated(self) -> Generator[None]:
        """Translate the driver's errors into storage errors, without statements or parameters."""
        try:
            yield
        except DBAPIError as error:
            raise translation(error.orig, lost=error.connection_invalidated) from error
        except sqlite3.Error as error:
            raise translation(error, lost=False) from error

    async def row(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, object]
    ) -> Row[Any] | None:
        """Query one row in its own transaction."""
        async with self.reader.begin() as connection:
            return (await connection.execute(statement, parameters)).one_or_none()

    def migrating(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Create or migrate the tables, one process at a time, without a time limit."""
        return self.writer.begin()

    def statement_by_statement(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Refuse to use a connection on which each statement is a transaction.

        Raises:
            CatalogError: always.
        """
        raise CatalogError("a file of SQLite has one writer at a time")


def translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    """Translate an error of the driver; `lost`: the connection was lost with it."""
    code = result_code(error)
    if code in HELD:
        return CatalogBusy("the catalog is busy")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if lost or code in _BROKEN:
        return CatalogUnavailable(f"the catalog cannot be used ({name})")
    return CatalogError(f"the catalog refused ({name})")
