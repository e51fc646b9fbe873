"""The engines of SQLite: their pool of connections, statements, and the ends of transactions."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from storage.catalog.engine.sqlite_engine import SqliteEngine
from storage.catalog.engine.sqlite_reader import DiskStalls, SqliteReader
from storage.catalog.engine.sqlite_threads import connect
from storage.catalog.engine.sqlite_writer import SqliteWriter
from storage.errors import CatalogBusy, CatalogUnavailable

LONG = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    " SELECT count(*) AS number FROM n"
)
COUNT = text("SELECT count(*) FROM t")
ADD = text("INSERT INTO t VALUES (1)")


@pytest.fixture
def location(tmp_path: Path) -> Path:
    location = tmp_path / "a.db"
    connection = connect(str(location), 0)
    connection.execute("CREATE TABLE t (x INTEGER)")
    connection.close()
    return location


class _ConnectionLog:
    """Opens connections to a file, and records them and the threads that opened them."""

    def __init__(self, location: Path) -> None:
        self.connections: list[sqlite3.Connection] = []
        self.threads: list[int] = []
        self.opening = threading.Event()
        self.may_open = threading.Event()
        self.may_open.set()
        self._location = location

    def __call__(self) -> sqlite3.Connection:
        self.opening.set()
        self.may_open.wait(30)
        self.threads.append(threading.get_ident())
        self.connections.append(connect(str(self._location), 2000))
        return self.connections[-1]

    @property
    def are_closed(self) -> bool:
        return all(map(_is_closed, self.connections))


def _is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


class _NoStalls(DiskStalls):
    """Ignores all times: a busy machine would look like a stalled disk."""

    def record(self, seconds: float) -> None:
        pass


@asynccontextmanager
async def writing(
    connections: _ConnectionLog, *, size: int = 1, busy_ms: int = 2000
) -> AsyncGenerator[SqliteEngine]:
    drive = partial(SqliteWriter, busy_ms=busy_ms)
    engine = SqliteEngine(connections, drive, size=size, busy_ms=busy_ms)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def reading(connections: _ConnectionLog, budget: float = 10) -> AsyncGenerator[SqliteEngine]:
    def drive(raw: sqlite3.Connection, threads: Executor) -> SqliteReader:
        return SqliteReader(raw, threads, 2000, budget=budget, stalls=_NoStalls())

    engine = SqliteEngine(connections, drive, size=4, busy_ms=2000)
    try:
        yield engine
    finally:
        await engine.dispose()


async def count_in(engine: SqliteEngine) -> int:
    async with engine.begin() as connection:
        return (await connection.execute(COUNT)).scalar_one()


async def test_a_disposed_engine_is_unavailable(location: Path) -> None:
    async with reading(_ConnectionLog(location)) as engine:
        await count_in(engine)
    with pytest.raises(CatalogUnavailable):
        await count_in(engine)


async def test_an_engine_is_unavailable_that_is_disposed_while_a_transaction_waits(
    location: Path,
) -> None:
    async with writing(_ConnectionLog(location)) as engine:
        async with asyncio.TaskGroup() as tasks, engine.begin():
            waiting = [tasks.create_task(_refused(engine)) for _ in range(2)]
            await asyncio.sleep(0)
            await engine.dispose()
        assert [each.result() for each in waiting] == ["the catalog is closed"] * 2


async def _refused(engine: SqliteEngine) -> str:
    with pytest.raises(CatalogUnavailable) as refusal:
        await count_in(engine)
    return str(refusal.value)


async def test_connections_are_opened_on_a_thread_when_needed_and_used_again(
    location: Path,
) -> None:
    connections = _ConnectionLog(location)
    async with reading(connections) as engine:
        assert connections.threads == []
        for _ in range(3):
            assert await count_in(engine) == 0
        assert len(connections.threads) == 1
        async with engine.begin(), engine.begin():
            pass
        assert len(connections.threads) == 2
        assert threading.get_ident() not in connections.threads
    assert connections.are_closed


async def test_waiting_for_a_connection_ends_in_time_and_does_not_block_the_loop(
    location: Path,
) -> None:
    async with writing(_ConnectionLog(location), busy_ms=50) as engine, engine.begin():
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(count())
            with pytest.raises(CatalogBusy):
                async with engine.begin():
                    pass
            counting.cancel()
        assert turns > 10


async def test_transactions_get_the_connection_in_the_order_in_which_they_asked(
    location: Path,
) -> None:
    order: list[int] = []

    async def write(engine: SqliteEngine, number: int) -> None:
        async with engine.begin() as connection:
            await connection.execute(ADD)
            order.append(number)

    async with writing(_ConnectionLog(location)) as engine, asyncio.TaskGroup() as tasks:
        for number in range(10):
            tasks.create_task(write(engine, number))
    assert order == list(range(10))


async def test_a_connection_opened_for_a_cancelled_caller_is_closed(location: Path) -> None:
    connections = _ConnectionLog(location)
    connections.may_open.clear()
    async with writing(connections) as engine:
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(count_in(engine))
            await asyncio.to_thread(connections.opening.wait, 30)
            asking.cancel()
        assert asking.cancelled()
        connections.may_open.set()
        # The only thread opens the next connection after it.
        assert await count_in(engine) == 0
        await asyncio.sleep(0)
        assert [_is_closed(each) for each in connections.connections] == [True, False]


async def test_a_file_that_cannot_be_opened_is_an_error_each_time(tmp_path: Path) -> None:
    async with writing(_ConnectionLog(tmp_path / "nowhere" / "a.db")) as engine:
        for _ in range(2):
            with pytest.raises(DBAPIError) as refused:
                await count_in(engine)
            assert isinstance(refused.value.orig, sqlite3.OperationalError)


async def test_executing_a_statement_fetches_all_its_rows(location: Path) -> None:
    connections = _ConnectionLog(location)
    async with writing(connections) as engine:
        async with engine.begin() as connection:
            query = text("INSERT INTO t VALUES (:x), (:x + 1) RETURNING x AS y")
            added = await connection.execute(query, {"x": 1})
            await connection.execute(text("INSERT INTO t VALUES (:x)"), [{"x": 3}, {"x": 4}])
            changed = await connection.execute(text("UPDATE t SET x = x WHERE x > 1"))
        connections.connections[0].close()
        assert list(added.keys()) == ["y"]
        assert added.all() == [(1,), (2,)]
        assert changed.rowcount == 3
        assert not changed.returns_rows


async def test_a_long_query_is_interrupted_and_repeated_on_a_thread(location: Path) -> None:
    idents: list[int] = []

    def here() -> int:
        idents.append(threading.get_ident())
        return 1

    connections = _ConnectionLog(location)
    async with reading(connections, budget=0.0005) as engine:
        await count_in(engine)
        connections.connections[0].create_function("here", 0, here)
        async with engine.begin() as connection:
            query = text(LONG.format(300_000) + " WHERE here()")
            assert (await connection.execute(query)).one().number == 300_000
            assert (await connection.execute(text("SELECT here()"))).scalar_one() == 1
    mine = threading.get_ident()
    first, *between, last = idents
    assert first == last == mine
    assert between[-1] != mine


async def test_a_function_gets_the_synchronous_connection_on_a_thread_once(location: Path) -> None:
    calls: list[int] = []

    def add(connection: Connection, number: int, *, refuse: bool) -> int:
        calls.append(threading.get_ident())
        connection.execute(ADD)
        if refuse:
            # A lock: a statement would be repeated.
            error = sqlite3.OperationalError()
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise OperationalError("", None, error)
        return number

    for kind in (writing, reading):
        calls.clear()
        async with kind(_ConnectionLog(location)) as engine:
            async with engine.begin() as connection:
                assert await connection.run_sync(add, 7, refuse=False) == 7
            with pytest.raises(OperationalError):
                async with engine.begin() as connection:
                    await connection.run_sync(add, 7, refuse=True)
        assert len(calls) == 2
        assert threading.get_ident() not in calls
    async with reading(_ConnectionLog(location)) as engine:
        assert await count_in(engine) == 2


async def test_a_cancelled_transaction_is_rolled_back_and_releases_the_lock(
    location: Path,
) -> None:
    connections, others = _ConnectionLog(location), _ConnectionLog(location)
    async with writing(connections) as engine, writing(others) as other:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), engine.begin() as connection:
                await connection.execute(ADD)
                await connection.execute(text(LONG.format(1_000_000_000)))
        async with asyncio.timeout(5):
            assert await count_in(other) == 0
            assert await count_in(engine) == 0
        assert len(connections.connections) == 1


async def test_an_unfinished_statement_keeps_no_lock(location: Path) -> None:
    connections = _ConnectionLog(location)
    async with writing(connections) as engine, writing(_ConnectionLog(location)) as other:
        cursors: list[sqlite3.Cursor] = []
        with pytest.raises(ZeroDivisionError):
            async with engine.begin():
                statement = "INSERT INTO t VALUES (1), (2) RETURNING x"
                cursors.append(connections.connections[0].execute(statement))
                raise ZeroDivisionError
        async with asyncio.timeout(5):
            assert await count_in(other) == 0


class _Stuck(sqlite3.Connection):
    """A connection whose transactions cannot be rolled back."""

    def rollback(self) -> None:
        if self.in_transaction:
            raise sqlite3.OperationalError("disk I/O error")


async def test_a_connection_that_cannot_be_rolled_back_is_not_used_again(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = _ConnectionLog(location)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_Stuck))
    async with writing(connections) as engine:
        with pytest.raises(DBAPIError, match="disk"):
            async with engine.begin() as connection:
                await connection.execute(ADD)
                raise ZeroDivisionError
        assert connections.are_closed
        monkeypatch.undo()
        assert await count_in(engine) == 0
        assert len(connections.connections) == 2


async def test_a_connection_in_use_is_closed_after_its_transaction(location: Path) -> None:
    connections = _ConnectionLog(location)
    async with writing(connections) as engine:
        async with engine.begin() as connection:
            await engine.dispose()
            await connection.execute(ADD)
        assert connections.are_closed
    async with reading(_ConnectionLog(location)) as engine:
        assert await count_in(engine) == 1
