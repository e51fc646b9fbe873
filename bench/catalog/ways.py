"""The connections that are compared, each below Headend's own repositories and their statements.

- `headend`: the service's own (`storage.catalog.engine`), which run statement by statement;
- `one thread`: synchronous SQLAlchemy on one thread, which runs whole transactions;
- `threads`: the same with as many threads and connections as the service has.

A transaction waits for nothing but its connection. Over a connection that never suspends it runs
through at once, so a thread can run it whole, without another form of the repositories: the event
loop hands over one call and gets one result. Left out, in favour of the threads, are
the translation of errors and the interruption of a transaction whose caller is cancelled.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from sqlalchemy import URL, Connection, CursorResult, Engine, Row, Select, create_engine, event
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy as _Fetched
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog import Catalog
from storage.catalog.engine.database import BUSY_MS, Database, database_url
from storage.catalog.engine.lock_order import DEFERRED, DeferredWrites, Rank

WAYS: Final = ("headend", "one thread", "threads")
_READERS: Final = 4  # as in `storage.catalog.engine.sqlite`
_SECONDS: Final = 60.0
_BOTH: Final = ("journal_mode=WAL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}")
_READING: Final = (*_BOTH, "query_only=ON")
_WRITING: Final = (*_BOTH, "synchronous=NORMAL")

T = TypeVar("T")
Transaction = Coroutine[Any, Any, T]


class Way:
    """An open catalog, and how its transactions are run: as the service runs them."""

    def __init__(self, database: Database) -> None:
        self.catalog = Catalog(database)

    async def read(self, transaction: Transaction[T]) -> T:
        """Run a method of a repository that reads."""
        return await transaction

    async def write(self, transaction: Transaction[T]) -> T:
        """Run a method of a repository that writes."""
        return await transaction


class _OnThreads(Way):
    def __init__(self, database: "_SynchronousDatabase", readers: Executor, writer: Executor):
        super().__init__(database)
        self._readers = readers
        self._writer = writer

    async def read(self, transaction: Transaction[T]) -> T:
        return await _run_on(self._readers, transaction)

    async def write(self, transaction: Transaction[T]) -> T:
        return await _run_on(self._writer, transaction)


async def _run_on(thread: Executor, transaction: Transaction[T]) -> T:
    async with asyncio.timeout(_SECONDS):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(thread, _run_through, transaction)


def _run_through(transaction: Transaction[T]) -> T:
    try:
        transaction.send(None)
    except StopIteration as end:
        return end.value
    transaction.close()
    raise RuntimeError("a transaction waited for something else than its connection")


class _NeverSuspending:
    """What transactions use of an `AsyncConnection`, over a synchronous one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect
        self.info = connection.info

    async def execute(self, *arguments: Any) -> CursorResult[Any]:  # Any: as SQLAlchemy's
        return _fetched(self._connection.execute(*arguments))


def _fetched(result: CursorResult[Any]) -> CursorResult[Any]:  # Any: rows of any columns
    # Some rows are looked at after the transaction; the asyncio extension fetches all, too.
    if result.returns_rows and not isinstance(result.cursor_strategy, _Fetched):
        result.cursor_strategy = _Fetched(result.cursor)
    return result


class _SynchronousDatabase(Database):
    """Transactions of synchronous engines, to be run on a thread."""

    def __init__(self, url: URL, readers: int) -> None:
        super().__init__(url, busy_ms=BUSY_MS)
        self._reading_engine = _synchronous(url, readers, "BEGIN", _READING)
        self._writing_engine = _synchronous(url, 1, "BEGIN IMMEDIATE", _WRITING)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        with self._reading_engine.begin() as connection:
            yield _as_asynchronous(connection)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        deferred = DeferredWrites()
        with self._writing_engine.begin() as connection:
            connection.info[DEFERRED] = deferred
            yield (asynchronous := _as_asynchronous(connection))
            await deferred.run(asynchronous)
        if deferred.has(Rank.OUTBOX):
            self.after_outbox_commit()

    async def row(
        self, statement: Select[*tuple[Any, ...]], parameters: Mapping[str, object]
    ) -> Row[Any] | None:
        with self._reading_engine.begin() as connection:
            return connection.execute(statement, parameters).one_or_none()

    async def close(self) -> None:
        self._reading_engine.dispose()
        self._writing_engine.dispose()
        await super().close()


def _as_asynchronous(connection: Connection) -> AsyncConnection:
    return cast("AsyncConnection", _NeverSuspending(connection))  # all that transactions use of it


def _synchronous(url: URL, size: int, begin: str, pragmas: tuple[str, ...]) -> Engine:
    options = {"isolation_level": None, "check_same_thread": False}
    engine = create_engine(url.set(drivername="sqlite"), connect_args=options, **_pool(size))
    _prepare(engine, begin, pragmas)
    return engine


def _pool(size: int) -> dict[str, Any]:  # Any: arguments of `create_engine`
    return {"pool_size": size, "max_overflow": 0, "pool_timeout": BUSY_MS / 1000}


def _prepare(engine: Engine, begin: str, pragmas: tuple[str, ...]) -> None:
    def set_pragmas(raw: Any, _record: object) -> None:  # Any: the DBAPI's connection
        cursor = raw.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", set_pragmas)
    event.listen(engine, "begin", start)


@asynccontextmanager
async def open_ways(place: Path) -> AsyncGenerator[dict[str, Way]]:
    """Open a catalog that is there in each of the ways, by their names."""
    url = database_url(place)
    async with AsyncExitStack() as stack:

        def opened(database: Database, *threads: ThreadPoolExecutor) -> Way:
            stack.push_async_callback(database.close)
            for thread in threads:
                stack.enter_context(thread)
            if isinstance(database, _SynchronousDatabase):
                return _OnThreads(database, threads[0], threads[-1])
            return Way(database)

        makers: dict[str, Callable[[], Way]] = {
            "headend": lambda: opened(Database(url, busy_ms=BUSY_MS)),
            "one thread": lambda: opened(_SynchronousDatabase(url, 1), ThreadPoolExecutor(1)),
            "threads": lambda: opened(
                _SynchronousDatabase(url, _READERS),
                ThreadPoolExecutor(_READERS),
                ThreadPoolExecutor(1),
            ),
        }
        yield {name: makers[name]() for name in WAYS}
