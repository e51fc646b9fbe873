"""SQLite under the interface of SQLAlchemy's asyncio extension, but without the extension.

The repositories use `AsyncConnection`, which PostgreSQL has. With SQLite the extension would switch
greenlets for each call of the driver, which costs more than most queries. Here SQLAlchemy is
synchronous, and each `Connection.execute` runs as a whole on the event loop or on a thread
(`sqlite_reader`, `sqlite_writer`): reads take half the CPU. See
docs/decisions/0004-sqlite-connections.md.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Executable, NullPool, create_engine
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy as _Fetched

from storage.catalog.engine.compiled import CompiledStatements
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.sqlite_reader import SqliteReader
from storage.catalog.engine.sqlite_writer import SqliteWriter
from storage.errors import CatalogBusy, CatalogUnavailable

_COMPILED: Final = CompiledStatements()

T = TypeVar("T")
P = ParamSpec("P")
_Driver = SqliteReader | SqliteWriter


class SqliteConnection:
    """The part of `AsyncConnection` that transactions use, over a synchronous connection."""

    def __init__(self, connection: Connection, driver: _Driver) -> None:
        self.sync_connection = connection
        self.driver = driver
        self.dialect = connection.dialect
        self.info = connection.info

    async def execute(
        self,
        statement: Executable,
        parameters: Any = None,  # Any: as SQLAlchemy's
    ) -> CursorResult[Any]:
        """Execute a statement and fetch all its rows.

        Raises:
            DBAPIError: it failed.
        """
        results: list[CursorResult[Any]] = []

        def execute() -> None:
            result = self.sync_connection.execute(statement, parameters)
            if result.returns_rows and not isinstance(result.cursor_strategy, _Fetched):
                result.cursor_strategy = _Fetched(result.cursor)
            results.append(result)

        await self.driver.run(execute)
        return results[0]

    async def run_sync(
        self, call: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Call a function with the synchronous connection, on a thread.

        Raises:
            DBAPIError: a statement failed.
        """
        results: list[T] = []
        await self.driver.run(
            lambda: results.append(call(self.sync_connection, *arguments, **named)), once=True
        )
        return results[0]


class SqliteEngine:
    """A pool of connections to a file, with the `begin` and `dispose` of an `AsyncEngine`.

    `connect` opens a connection, on one of the engine's threads; `drive` wraps it in a
    `SqliteReader` or `SqliteWriter` that uses these threads.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        drive: Callable[[sqlite3.Connection, Executor], _Driver],
        *,
        size: int,
        busy_ms: int,
    ) -> None:
        self._engine = create_engine(
            "sqlite://",
            creator=connect,
            hide_parameters=True,  # they hold secrets, and errors are logged
            poolclass=NullPool,  # to wait for its other pools would block the event loop
            execution_options={"compiled_cache": _COMPILED},
        )
        self._drive = drive
        # No other work uses them, so that the lookup of a stream key does not wait for it.
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="catalog")
        self._busy_seconds = busy_ms / 1000
        self._turns = asyncio.Semaphore(size)
        self._idle: list[SqliteConnection] = []
        self._in_use = 0
        self._is_disposed = False

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[AsyncConnection]:
        """Run a transaction; it is committed when the block ends, or rolled back if it fails.

        Raises:
            CatalogBusy: no connection was free in time.
            CatalogUnavailable: the engine is disposed.
            DBAPIError: the file cannot be opened, or a statement failed.
            sqlite3.Error: the transaction cannot begin or be committed.
        """
        await self._take_turn()
        self._in_use += 1
        try:
            connection = self._idle.pop() if self._idle else await self._open()
            try:
                async with _transaction(connection):
                    yield cast("AsyncConnection", connection)  # it has all that transactions use
            finally:
                self._give_back(connection)
        finally:
            self._in_use -= 1
            self._turns.release()
            if self._is_disposed:
                await self.dispose()

    async def dispose(self) -> None:
        """Close every connection; those in use are closed after their transactions."""
        self._is_disposed = True
        while self._idle:
            self._idle.pop().sync_connection.close()
        if not self._in_use:
            self._threads.shutdown(wait=False)

    async def _take_turn(self) -> None:
        if self._is_disposed:
            raise CatalogUnavailable("the catalog is closed")
        try:
            async with asyncio.timeout(self._busy_seconds):
                await self._turns.acquire()
        except TimeoutError as error:
            raise CatalogBusy("the catalog is busy") from error
        if self._is_disposed:  # during the wait
            self._turns.release()
            raise CatalogUnavailable("the catalog is closed")

    async def _open(self) -> SqliteConnection:
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(self._threads, self._engine.connect)
        try:
            connection = await asyncio.shield(opening)
        except BaseException:
            # The caller cannot close it.
            opening.add_done_callback(_close)
            raise
        raw: Any = connection.connection.driver_connection  # Any: what `connect` returned
        return SqliteConnection(connection, self._drive(raw, self._threads))

    def _give_back(self, connection: SqliteConnection) -> None:
        synchronous = connection.sync_connection
        if synchronous.invalidated or connection.driver.raw.in_transaction:
            synchronous.close()  # the rollback failed
        else:
            self._idle.append(connection)


@asynccontextmanager
async def _transaction(connection: SqliteConnection) -> AsyncGenerator[None]:
    driver = connection.driver
    # SQLAlchemy's own commit and rollback have no effect, unless the driver's failed.
    with connection.sync_connection.begin():
        await driver.begin()
        try:
            yield
        except BaseException:
            await driver.rollback()
            raise
        await driver.commit()


def _close(opening: "asyncio.Future[Connection]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
