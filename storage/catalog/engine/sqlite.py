"""The catalog in an SQLite file: its connections, and the translation of its errors.

With WAL, readers never wait and never block a writer. Writers acquire the write lock at their start
(`BEGIN IMMEDIATE`): with deferred transactions, 557 of 900 read-modify-writes from six processes
failed with "database is locked" (a busy timeout does not help an upgrade), and without a
transaction, 646 of 900 were silently lost; with WAL and the lock, none of 900 was.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Final

from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from storage.catalog.engine.compiled import CompiledStatements
from storage.catalog.engine.sqlite_cursor import HELD
from storage.catalog.engine.sqlite_reader import DiskStalls, SqliteReader, open_reader
from storage.catalog.engine.sqlite_writer import SqliteWriter, open_writer
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable

__all__ = ["DRIVER", "NOW_US", "engines", "translation"]

DRIVER: Final = "sqlite+aiosqlite"
# In milliseconds, from the Julian day of the Unix epoch.
NOW_US: Final = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
# Each has a page cache of up to 2 MB. One writer: more would only poll for the single lock.
_READERS: Final = 4
_WRITERS: Final = 1
_COMPILED: Final = CompiledStatements()
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


def engines(url: URL, busy_ms: int) -> tuple[AsyncEngine, AsyncEngine]:
    """Return the engines of readers and of writers; `busy_ms` is the lock timeout of writers."""
    return _reading(url, busy_ms), _writing(url, busy_ms)


def _reading(url: URL, busy_ms: int) -> AsyncEngine:
    stalls = DiskStalls()

    async def opened(*_arguments: object, **_options: object) -> SqliteReader:
        return await open_reader(str(url.database), busy_ms, stalls=stalls)

    engine = _engine(url, _READERS, busy_ms, async_creator=opened)

    def begin(connection: Connection) -> None:
        reader = connection.connection.driver_connection
        if isinstance(reader, SqliteReader):
            reader.begin()

    event.listen(engine.sync_engine, "begin", begin)
    return engine


def _writing(url: URL, busy_ms: int) -> AsyncEngine:
    async def opened(*_arguments: object, **_options: object) -> SqliteWriter:
        return await open_writer(str(url.database), busy_ms)

    engine = _engine(url, _WRITERS, busy_ms, async_creator=opened)

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine.sync_engine, "begin", begin)
    return engine


def _engine(
    url: URL,
    size: int,
    busy_ms: int,
    async_creator: Callable[..., Awaitable[SqliteReader | SqliteWriter]],
) -> AsyncEngine:
    return create_async_engine(
        url,
        hide_parameters=True,  # they hold secrets, and errors are logged
        pool_size=size,
        max_overflow=0,
        pool_timeout=busy_ms / 1000,
        async_creator=async_creator,
        execution_options={"compiled_cache": _COMPILED},
    )


def translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    """Translate an error of the driver; `lost`: the connection was lost with it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary result code
    if code in HELD:
        return CatalogBusy("the catalog is busy")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if lost or code in _BROKEN:
        return CatalogUnavailable(f"the catalog cannot be used ({name})")
    return CatalogError(f"the catalog refused ({name})")
