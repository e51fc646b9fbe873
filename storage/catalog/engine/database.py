"""Access to the catalog's database: its URL, its transactions, its errors.

The database is an SQLite file or a PostgreSQL database; their differences are in `sqlite` and
`postgres`. Both execute the same statements.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import psycopg
from sqlalchemy import URL, Row, Select, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import greenlet_spawn

from media.no_op import do_nothing
from storage.catalog.engine import postgres, sqlite
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.lock_order import DEFERRED, DeferredWrites, Rank
from storage.catalog.engine.sqlite_engine import SqliteEngine
from storage.errors import CatalogAway, CatalogBusy, CatalogError, CatalogUnavailable

# The longest that a writer waits for a lock; the slowest of 900 contended writes took 1.6 s.
BUSY_MS: Final = 10_000
# The time limit of a transaction, for a stalled server, network or disk.
_TRANSACTION_SECONDS: Final = 60.0
# Most reads serve a request, whose client is better off with an error than with a long wait. They
# take milliseconds, and do not wait for writers.
_READING_SECONDS: Final = 10.0


def database_url(location: str | Path) -> URL:
    """Return the database's URL; `location` is a file's path or the URL itself.

    Raises:
        CatalogError: the URL is invalid, or of an unsupported database.
    """
    if isinstance(location, Path) or "://" not in location:
        return _file(URL.create("sqlite", database=str(location)))
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):
        # The text and the error may contain a password: report neither.
        raise CatalogError("the catalog's address is not a database URL") from None
    if url.drivername in ("postgresql", "postgres", postgres.DRIVER):
        return _server(url)
    return _file(url)


def _file(url: URL) -> URL:
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        raise CatalogError(
            f"the catalog cannot be stored in {url.get_backend_name()}: a file of SQLite or a"
            " database of PostgreSQL (postgresql://USER:PASSWORD@HOST/NAME) is needed"
        )
    return url.set(drivername="sqlite")


def _server(url: URL) -> URL:
    """Return a server's URL with each part where SQLAlchemy expects it."""
    if not url.database:
        raise CatalogError(f"the catalog's address {postgres.address_of(url)} names no database")
    if url.host and url.host.lower().startswith("%2f"):  # a socket's folder, as libpq writes it
        url = url.set(host=unquote(url.host))
    query = dict(url.query)
    password = query.pop("password", None)
    if isinstance(password, str):  # SQLAlchemy hides it there
        url = url.set(password=password)
    return url.set(drivername=postgres.DRIVER, query=query)


@contextmanager
def _translated() -> Generator[None]:
    """Translate the driver's errors into storage errors, without statements or parameters."""
    try:
        yield
    except PoolTimeoutError as error:
        raise CatalogBusy("the catalog is busy") from error
    except DBAPIError as error:
        postgres.hide_values(error)
        raise _translation(error.orig, lost=error.connection_invalidated) from error
    except (psycopg.Error, sqlite3.Error) as error:  # while a new connection is prepared
        raise _translation(error, lost=False) from error


def _translation(error: BaseException | None, *, lost: bool) -> CatalogError:
    kind = postgres if isinstance(error, psycopg.Error) else sqlite
    return kind.translation(error, lost=lost)


class Database:
    """A database and its kinds of transactions; `location` is its URL without a password."""

    def __init__(
        self, url: URL, *, busy_ms: int, reading_seconds: float = _READING_SECONDS
    ) -> None:
        self._busy_ms = busy_ms
        self._reading_seconds = reading_seconds
        self.after_outbox_commit: Callable[[], None] = do_nothing
        """Called after each writing transaction that wrote to the outbox."""
        self.is_shared = url.get_backend_name() == "postgresql"
        """Whether processes on other machines may use it, too."""
        if self.is_shared:
            self.location = postgres.address_of(url)
            self._server_url: URL | None = url
            self._reader, self._writer, self._beats = postgres.engines(url, busy_ms)
        else:
            # Operators read it in other folders, too: it is in the lease of the store.
            self.location = str(Path(url.database or "").absolute())
            self._server_url = None
            self._reader, self._writer, self._beats = sqlite.engines(url, busy_ms)

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Read from one snapshot, to serve a request.

        Raises:
            CatalogError: the database did not answer in time.
        """
        return _bounded(self._reader, self._reading_seconds)

    def reading_all(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Read whole tables from one snapshot, for background work.

        Raises:
            CatalogError: the database did not answer.
        """
        return _bounded(self._reader, _TRANSACTION_SECONDS)

    async def now_us(self) -> int:
        """Return the time of the database's clock, in microseconds since the Unix epoch.

        Raises:
            CatalogError: the database did not answer.
        """
        async with self.reading() as connection:
            return (await connection.execute(select(now_in(connection)))).scalar_one()

    async def row(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, object]
    ) -> Row[Any] | None:
        """Query one row in its own transaction, at the lowest cost.

        For the queries of every API request: SQLAlchemy's asyncio extension switches its greenlet
        once, instead of at each step.

        Raises:
            CatalogError: the database did not answer.
        """
        engine = self._reader
        if not isinstance(engine, AsyncEngine):
            async with self.reading() as connection:
                return (await connection.execute(statement, parameters)).one_or_none()

        def ask() -> Row[Any] | None:
            with engine.sync_engine.begin() as connection:
                return connection.execute(statement, parameters).one_or_none()

        with _answered_in_time(asyncio.timeout(self._reading_seconds)) as bound:
            async with bound:
                with _translated():
                    return await greenlet_spawn(ask)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """Write in one transaction, which is committed at the end of the block.

        On SQLite the block holds the single write lock. On PostgreSQL it locks the rows that it
        wrote or selected with `with_for_update()`: select a row that way before changing it, in the
        order of `storage.catalog.engine.lock_order`.

        Raises:
            CatalogBusy: it did not get a lock in time.
            CatalogError: the database did not answer.
        """
        # The dictionary belongs to the pooled connection, and outlives the transaction.
        deferred = DeferredWrites()
        async with _bounded(self._writer, _TRANSACTION_SECONDS) as connection:
            connection.info[DEFERRED] = deferred
            yield connection
            await deferred.run(connection)
        if deferred.has(Rank.OUTBOX):
            self.after_outbox_commit()

    def beating(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Write a heartbeat, even while other transactions wait for connections.

        On PostgreSQL, heartbeats have their own connection. They broadcast nothing.

        Raises:
            CatalogError: the database did not answer in time.
        """
        return _bounded(self._beats, self._reading_seconds)

    @asynccontextmanager
    async def migrating(self) -> AsyncGenerator[AsyncConnection]:
        """Create or migrate the tables, one process at a time, without a time limit.

        Raises:
            CatalogBusy: it did not get a lock in time.
            CatalogError: the database did not answer.
        """
        if self._server_url is None:
            with _translated():
                async with self._writer.begin() as connection:
                    yield connection
            return
        engine = postgres.migration_engine(self._server_url, self._busy_ms)
        try:
            with _translated():
                async with engine.begin() as connection:
                    for statement in postgres.migration_lock_statements(self._busy_ms):
                        await connection.execute(text(statement))
                    yield connection
        finally:
            await engine.dispose()

    @asynccontextmanager
    async def statement_by_statement(self) -> AsyncGenerator[AsyncConnection]:
        """Use a connection to PostgreSQL on which each statement is a transaction of its own.

        For statements that are to hold up no other process; none has a time limit.

        Raises:
            CatalogError: the database did not answer, or refused.
        """
        if self._server_url is None:
            raise CatalogError("a file of SQLite has one writer at a time")
        engine = postgres.migration_engine(self._server_url, self._busy_ms)
        try:
            with _translated():
                async with engine.connect() as connection:
                    yield await connection.execution_options(isolation_level="AUTOCOMMIT")
        finally:
            await engine.dispose()

    async def close(self) -> None:
        """Close all connections."""
        await self._reader.dispose()
        await self._writer.dispose()
        await self._beats.dispose()


@asynccontextmanager
async def _bounded(
    engine: AsyncEngine | SqliteEngine, seconds: float
) -> AsyncGenerator[AsyncConnection]:
    """Run a transaction with a time limit."""
    with _answered_in_time(asyncio.timeout(seconds)) as bound:
        async with bound:
            with _translated():
                async with engine.begin() as connection:
                    yield connection


@contextmanager
def _answered_in_time(bound: asyncio.Timeout) -> Generator[asyncio.Timeout]:
    try:
        yield bound
    except TimeoutError as error:
        if not bound.expired():  # raised by the block itself
            raise
        raise CatalogAway("the catalog does not answer") from error


class Repository:
    """What a catalog knows of one noun, on its database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def _touch(path: Path) -> None:
    """Create the file readable by its owner only, as it has stream keys; WAL files inherit that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)


@asynccontextmanager
async def open_database(
    url: URL,
    *,
    create: bool,
    busy_ms: int = BUSY_MS,
    reading_seconds: float = _READING_SECONDS,
) -> AsyncGenerator[Database]:
    """Open the database for the length of the block.

    `busy_ms` is the lock timeout of writers, `reading_seconds` the time limit of reads for a
    request. `create` creates a missing file; a PostgreSQL database must exist.

    Raises:
        CatalogUnavailable: the file does not exist and `create` is off, or cannot be created.
    """
    if url.get_backend_name() == "sqlite":
        await _prepare_file(Path(url.database or ""), create=create)
    database = Database(url, busy_ms=busy_ms, reading_seconds=reading_seconds)
    try:
        yield database
    finally:
        await database.close()


async def _prepare_file(path: Path, *, create: bool) -> None:
    try:
        if create:
            await asyncio.to_thread(_touch, path)
        elif not await asyncio.to_thread(path.is_file):
            raise CatalogUnavailable(f"there is no catalog at {path}; run `headend migrate` first")
    except OSError as error:
        raise CatalogUnavailable(f"cannot make a catalog at {path}: {error.strerror}") from error
