"""The catalog in an SQLite file: its connections, and the translation of its errors.

With WAL, readers never wait and never block a writer. Writers acquire the write lock at their start
(`BEGIN IMMEDIATE`): with deferred transactions, 557 of 900 read-modify-writes from six processes
failed with "database is locked" (a busy timeout does not help an upgrade), and without a
transaction, 646 of 900 were silently lost; with WAL and the lock, none of 900 was.
"""

import sqlite3
from functools import partial
from typing import Final

from sqlalchemy import URL

from storage.catalog.engine.sqlite_engine import SqliteEngine
from storage.catalog.engine.sqlite_reader import DiskStalls, SqliteReader
from storage.catalog.engine.sqlite_threads import HELD, connect, result_code
from storage.catalog.engine.sqlite_writer import SqliteWriter
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable

# Microseconds since the Unix epoch, in steps of 1 ms.
NOW_US: Final = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
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


def engines(url: URL, busy_ms: int) -> tuple[SqliteEngine, SqliteEngine, SqliteEngine]:
    """Return the engines of readers, writers and heartbeats; `busy_ms` is their lock timeout."""
    path = str(url.database)
    stalls = DiskStalls()
    # A write in a reading transaction would not hold the write lock.
    readers = SqliteEngine(
        partial(connect, path, busy_ms, "query_only=ON"),
        partial(SqliteReader, busy_ms=busy_ms, stalls=stalls),
        size=_READERS,
        busy_ms=busy_ms,
    )
    # In WAL a crash of the machine may lose the newest commits, never the integrity.
    writers = SqliteEngine(
        partial(connect, path, busy_ms, "synchronous=NORMAL"),
        partial(SqliteWriter, busy_ms=busy_ms),
        size=_WRITERS,
        busy_ms=busy_ms,
    )
    return readers, writers, writers


def translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    """Translate an error of the driver; `lost`: the connection was lost with it."""
    code = result_code(error)
    if code in HELD:
        return CatalogBusy("the catalog is busy")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if lost or code in _BROKEN:
        return CatalogUnavailable(f"the catalog cannot be used ({name})")
    return CatalogError(f"the catalog refused ({name})")
