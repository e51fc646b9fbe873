"""How statements of SQLite wait for locks, and how what is cancelled is interrupted."""

import asyncio
import sqlite3
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from storage.catalog.engine.sqlite_threads import result_code, retry_while_locked, wait_or_interrupt

# Counts to a number that no machine reaches while a test waits.
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (i)")
    connection.close()
    return tmp_path / "a.db"


@pytest.fixture
def holder(file: Path) -> Generator[sqlite3.Connection]:
    """A connection that holds the write lock."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


@pytest.fixture
def other(file: Path) -> Generator[sqlite3.Connection]:
    """A connection that does not wait for locks by itself."""
    connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()


def test_a_statement_that_meets_a_lock_runs_once_the_lock_is_released(
    holder: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    tries = 0

    def act() -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            holder.execute("COMMIT")
        other.execute("INSERT INTO t VALUES (1)")

    retry_while_locked(act, threading.Event(), 30)
    assert tries == 3
    assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_lock_that_stays_is_an_error_after_the_time(
    holder: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        retry_while_locked(
            lambda: other.execute("INSERT INTO t VALUES (1)") and None, threading.Event(), 0.05
        )


def test_a_cancelled_statement_is_not_retried(
    holder: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    cancelled = threading.Event()
    tries = 0

    def act() -> None:
        nonlocal tries
        tries += 1
        cancelled.set()
        other.execute("INSERT INTO t VALUES (1)")

    with pytest.raises(sqlite3.OperationalError):
        retry_while_locked(act, cancelled, 30)
    assert tries == 1


def test_other_errors_are_not_repeated(other: sqlite3.Connection) -> None:
    tries = 0

    def act() -> None:
        nonlocal tries
        tries += 1
        other.execute("SELECT * FROM absent")

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        retry_while_locked(act, threading.Event(), 30)
    assert tries == 1


async def test_a_cancelled_statement_is_interrupted_and_over_before_the_cancellation(
    other: sqlite3.Connection,
) -> None:
    cancelled, begun = threading.Event(), threading.Event()
    errors: list[sqlite3.Error] = []

    def act() -> None:
        begun.set()
        try:
            other.execute(ENDLESS).fetchall()
        except sqlite3.Error as error:
            errors.append(error)
            raise

    running = asyncio.get_running_loop().run_in_executor(None, act)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_or_interrupt(running, other, cancelled))
        await asyncio.to_thread(begun.wait, 30)
        waiting.cancel()
    assert waiting.cancelled()
    assert running.done()
    assert [str(error) for error in errors] == ["interrupted"]
    assert cancelled.is_set()
    assert other.execute("SELECT 1").fetchone() == (1,)


async def test_a_cancelled_statement_that_takes_long_to_end_is_waited_for(
    other: sqlite3.Connection,
) -> None:
    loop = asyncio.get_running_loop()
    running: asyncio.Future[None] = loop.create_future()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_or_interrupt(running, other, threading.Event()))
        await asyncio.sleep(0)  # it waits now
        waiting.cancel()
        loop.call_later(0.2, running.set_result, None)  # after several interrupts
    assert (running.done(), waiting.cancelled()) == (True, True)


async def test_a_statement_that_fails_raises(other: sqlite3.Connection) -> None:
    def act() -> None:
        other.execute("SELECT * FROM absent")

    running = asyncio.get_running_loop().run_in_executor(None, act)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await wait_or_interrupt(running, other, threading.Event())


def test_every_error_has_the_code_of_sqlite(other: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError) as refused:
        other.execute("SELECT * FROM absent")
    error = refused.value
    assert result_code(error) == sqlite3.SQLITE_ERROR
    assert result_code(DBAPIError("SELECT", None, error)) == sqlite3.SQLITE_ERROR
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY_SNAPSHOT
    assert result_code(error) == sqlite3.SQLITE_BUSY
    assert result_code(ValueError()) == result_code(None) == 0
