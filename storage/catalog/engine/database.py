"""Access to the catalog's database: its URL, its transactions, its errors.

The database is an SQLite file or a PostgreSQL database; their differences are in `sqlite` and
`postgres`. Both execute the same statements.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from sqlalchemy import URL, Row, Select, make_url, select
from sqlalchemy.exc import ArgumentError

from media.no_op import do_nothing
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection, Engine, Engines
from storage.catalog.engine.lock_order import DEFERRED, DeferredWrites, Rank
from storage.catalog.engine.sqlite import SqliteEngines
from storage.errors import CatalogAway, CatalogError, CatalogUnavailable

# The longest that a writer waits for a lock; the slowest of 900 contended writes took 1.6 s.
BUSY_MS: Final = 10_000
# The time limit of a transaction, for a stalled server, network or disk.
_TRANSACTION_SECONDS: Final = 60.0
# Most reads serve a request, whose client is better off with an error than with a long wait. They
# take milliseconds, and do not wait for writers.
_READING_SECONDS: Final = 10.0
_DRIVER: Final = "postgresql+psycopg"


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
    if url.drivername in ("postgresql", "postgres", _DRIVER):
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
        raise CatalogError(f"the catalog's address {_address_of(url)} names no database")
    if url.host and url.host.lower().startswith("%2f"):  # a socket's folder, as libpq writes it
        url = url.set(host=unquote(url.host))
    query = dict(url.query)
    password = query.pop("password", None)
    if isinstance(password, str):  # SQLAlchemy hides it there
        url = url.set(password=password)
    return url.set(drivername=_DRIVER, query=query)


def _address_of(url: URL) -> str:
    """Return a database's URL for messages, without a password."""
    host = url.host or url.query.get("host", "")
    host = host if isinstance(host, str) else ",".join(host)
    port = f":{url.port}" if url.port else ""
    user = f"{url.username}@" if url.username else ""
    return f"postgresql://{user}{host}{port}/{url.database}"


def _engines_of(url: URL, busy_ms: int) -> Engines:
    if url.get_backend_name() == "sqlite":
        return SqliteEngines(url, busy_ms)
    # Its driver and SQLAlchemy's asyncio extension are an eighth of a start.
    from storage.catalog.engine.postgres import PostgresEngines  # noqa: PLC0415 # see above

    return PostgresEngines(url, busy_ms)


class Database:
    """A database and its kinds of transactions; `location` is its URL without a password."""

    def __init__(
        self, url: URL, *, busy_ms: int, reading_seconds: float = _READING_SECONDS
    ) -> None:
        self._engines = _engines_of(url, busy_ms)
        self._reading_seconds = reading_seconds
        self.after_outbox_commit: Callable[[], None] = do_nothing
        """Called after each writing transaction that wrote to the outbox."""
        self.is_shared = url.get_backend_name() == "postgresql"
        """Whether processes on other machines may use it, too."""
        # Operators read a path in other folders, too: it is in the lease of the store.
        self.location = (
            _address_of(url) if self.is_shared else str(Path(url.database or "").absolute())
        )

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Read from one snapshot, to serve a request.

        Raises:
            CatalogError: the database did not answer in time.
        """
        return self._bounded(self._engines.reader, self._reading_seconds)

    def reading_all(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Read whole tables from one snapshot, for background work.

        Raises:
            CatalogError: the database did not answer.
        """
        return self._bounded(self._engines.reader, _TRANSACTION_SECONDS)

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

        For the queries of every API request.

        Raises:
            CatalogError: the database did not answer.
        """
        with _answered_in_time(asyncio.timeout(self._reading_seconds)) as bound:
            async with bound:
                with self._engines.translated():
                    return await self._engines.row(statement, parameters)

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
        async with self._bounded(self._engines.writer, _TRANSACTION_SECONDS) as connection:
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
        return self._bounded(self._engines.beats, self._reading_seconds)

    @asynccontextmanager
    async def migrating(self) -> AsyncGenerator[AsyncConnection]:
        """Create or migrate the tables, one process at a time, without a time limit.

        Raises:
            CatalogBusy: it did not get a lock in time.
            CatalogError: the database did not answer.
        """
        with self._engines.translated():
            async with self._engines.migrating() as connection:
                yield connection

    @asynccontextmanager
    async def statement_by_statement(self) -> AsyncGenerator[AsyncConnection]:
        """Use a connection to PostgreSQL on which each statement is a transaction of its own.

        For statements that are to hold up no other process; none has a time limit.

        Raises:
            CatalogError: the database did not answer, or refused.
        """
        with self._engines.translated():
            async with self._engines.statement_by_statement() as connection:
                yield connection

    async def close(self) -> None:
        """Close all connections."""
        for engine in (self._engines.reader, self._engines.writer, self._engines.beats):
            await engine.dispose()

    @asynccontextmanager
    async def _bounded(self, engine: Engine, seconds: float) -> AsyncGenerator[AsyncConnection]:
        """Run a transaction with a time limit."""
        with _answered_in_time(asyncio.timeout(seconds)) as bound:
            async with bound:
                with self._engines.translated():
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
