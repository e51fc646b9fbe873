"""How the catalog's database is reached: its engine, its transactions, its errors.

SQLite under WAL: readers never wait and never hold a writer up. Writers take the write lock when
they begin (`BEGIN IMMEDIATE`): with a deferred transaction, 557 of 900 read-modify-writes from six
processes failed with "database is locked" (a busy timeout does not help an upgrade), and without
any, 646 of 900 were lost in silence; with both WAL and the lock, none of 900 was.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable

__all__ = ["BUSY_MS", "Database", "database_url", "open_database"]

_DRIVER: Final = "sqlite+aiosqlite"
# The longest a writer waits for another; the slowest of 900 contended writes took 1.6 s.
BUSY_MS: Final = 10_000
# Each is a thread with a page cache of up to 2 MB. One writer: more would only queue for the one
# lock, by polling, and keep readers from a connection meanwhile.
_READERS: Final = 4
_WRITERS: Final = 1
_HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# What the world does to a database, as against what our own statements do.
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


class _Cursor(Protocol):
    def execute(self, statement: str, /) -> object: ...
    def close(self) -> None: ...


class _DriverConnection(Protocol):
    isolation_level: str | None

    def cursor(self) -> _Cursor: ...


def database_url(place: str | Path) -> URL:
    """Return the database's URL; `place` is a file's path or such a URL itself.

    Raises:
        CatalogError: the URL is not one of a database that the catalog can live in.
    """
    try:
        if isinstance(place, Path) or "://" not in place:
            url = URL.create("sqlite", database=str(place))
        else:
            url = make_url(place)
    except ArgumentError as error:
        # The text may hold a password: it stays out of the sentence.
        raise CatalogError("the catalog's address is not a database URL") from error
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        raise CatalogError(f"the catalog cannot live in {url.render_as_string()}: a file is needed")
    return url.set(drivername=_DRIVER)


def _prepare(connection: _DriverConnection, busy_ms: int, writes: bool) -> None:
    """Set a new connection up: transactions are begun by our own events, not by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        # First, so that the switch to WAL waits for other processes too.
        cursor.execute(f"PRAGMA busy_timeout={busy_ms}")
        cursor.execute("PRAGMA journal_mode=WAL")
        # In WAL a crash of the machine may lose the newest commits, never the database's integrity.
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        if not writes:
            # A write in a reading transaction would be one without the lock.
            cursor.execute("PRAGMA query_only=ON")
    finally:
        cursor.close()


def _engine(url: URL, size: int, busy_ms: int, *, writes: bool) -> AsyncEngine:
    engine = create_async_engine(
        url,
        hide_parameters=True,  # they hold secrets, and errors are logged
        pool_size=size,
        max_overflow=0,
        pool_timeout=busy_ms / 1000,
    )

    def prepare(connection: _DriverConnection, _record: object) -> None:
        _prepare(connection, busy_ms, writes)

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine.sync_engine, "connect", prepare)
    event.listen(engine.sync_engine, "begin", begin)
    return engine


@contextmanager
def _translated() -> Generator[None]:
    """Turn the driver's errors into this room's, without a statement or a parameter."""
    try:
        yield
    except PoolTimeoutError as error:
        raise CatalogBusy("the catalog is busy") from error
    except DBAPIError as error:
        raise _translation(error.orig, lost=error.connection_invalidated) from error
    except sqlite3.Error as error:  # out of `_prepare`, where nobody wraps them
        raise _translation(error, lost=False) from error


def _translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without its extension
    if code in _HELD:
        return CatalogBusy("the catalog is busy")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if lost or code in _BROKEN:
        return CatalogUnavailable(f"the catalog cannot be used ({name})")
    return CatalogError(f"the catalog refused ({name})")


class Database:
    """A database with its two kinds of transactions."""

    def __init__(self, url: URL, *, busy_ms: int) -> None:
        self.place = url.database or ""
        self._reader = _engine(url, _READERS, busy_ms, writes=False)
        self._writer = _engine(url, _WRITERS, busy_ms, writes=True)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """Read within one snapshot.

        Raises:
            CatalogError: the database did not answer.
        """
        with _translated():
            async with self._reader.begin() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """Write under the write lock; what the block did counts when it ends, whole or not at all.

        Raises:
            CatalogBusy: the lock was not to be had in time.
            CatalogError: the database did not answer.
        """
        with _translated():
            async with self._writer.begin() as connection:
                yield connection

    async def close(self) -> None:
        """Close every connection."""
        await self._reader.dispose()
        await self._writer.dispose()


def _touch(path: Path) -> None:
    """Make the file for its owner alone, as it holds stream keys; WAL files take after it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)


@asynccontextmanager
async def open_database(
    url: URL, *, create: bool, busy_ms: int = BUSY_MS
) -> AsyncGenerator[Database]:
    """Hold the database open for the length of the block.

    `busy_ms` is how long a writer waits for another.

    Raises:
        CatalogUnavailable: there is no file there and `create` is off, or it cannot be made.
    """
    path = Path(url.database or "")
    try:
        if create:
            await asyncio.to_thread(_touch, path)
        elif not await asyncio.to_thread(path.is_file):
            raise CatalogUnavailable(f"there is no catalog at {path}; run `headend migrate` first")
    except OSError as error:
        raise CatalogUnavailable(f"cannot make a catalog at {path}: {error.strerror}") from error
    database = Database(url, busy_ms=busy_ms)
    try:
        yield database
    finally:
        await database.close()
