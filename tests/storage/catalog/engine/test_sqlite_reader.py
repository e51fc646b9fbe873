"""A reading connection: at once, on a thread, interrupted, and when it blocks the event loop."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from storage.catalog.engine.sqlite_reader import DiskStalls, SqliteReader
from storage.catalog.engine.sqlite_threads import connect

# Counts for a second or so: no table is needed for a question that takes long.
LONG = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    " SELECT count(*) FROM n"
)
AGES = 1_000_000_000


@pytest.fixture
def location(tmp_path: Path) -> Path:
    location = tmp_path / "a.db"
    connection = sqlite3.connect(location)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (x INTEGER)")
    connection.execute("INSERT INTO t VALUES (1), (2)")
    connection.commit()
    connection.close()
    return location


@asynccontextmanager
async def opened(
    location: Path,
    *,
    busy_ms: int = 2000,
    budget: float = 0.002,
    stalls: DiskStalls | None = None,
) -> AsyncGenerator[SqliteReader]:
    raw = connect(str(location), busy_ms, "query_only=ON")
    with ThreadPoolExecutor(1) as threads:
        try:
            yield SqliteReader(raw, threads, busy_ms, budget=budget, stalls=stalls or DiskStalls())
        finally:
            raw.close()


async def query(
    reader: SqliteReader, statement: str, *parameters: object
) -> list[tuple[object, ...]]:
    answers: list[list[tuple[object, ...]]] = []
    await reader.run(lambda: answers.append(reader.raw.execute(statement, parameters).fetchall()))
    return answers[-1]


class ThreadRecorder:
    """Records the threads on which the queries of a connection are executed."""

    def __init__(self, reader: SqliteReader) -> None:
        self.threads: list[int] = []
        reader.raw.create_function("here", 0, self._here)

    def _here(self) -> int:
        self.threads.append(threading.get_ident())
        return 1


async def test_a_short_question_is_answered_where_it_is_asked(location: Path) -> None:
    async with opened(location, budget=10) as reader:
        recorder = ThreadRecorder(reader)
        assert await query(reader, "SELECT x, here() FROM t WHERE x > ?", 1) == [(2, 1)]
        assert recorder.threads == [threading.get_ident()]


async def test_a_long_question_is_broken_off_and_answered_on_a_thread(location: Path) -> None:
    async with opened(location, budget=0.0005) as reader:
        recorder = ThreadRecorder(reader)
        question = LONG.format(300_000) + " WHERE here()"
        assert await query(reader, question) == [(300_000,)]
        assert recorder.threads[0] == threading.get_ident()
        assert recorder.threads[-1] != threading.get_ident()
        # And the next short one is again answered at once.
        recorder.threads.clear()
        assert await query(reader, "SELECT here()") == [(1,)]
        assert recorder.threads == [threading.get_ident()]


async def test_the_others_go_on_while_a_long_question_is_answered(location: Path) -> None:
    async with opened(location) as reader:
        longest = 0.0

        async def beat(done: asyncio.Event) -> None:
            nonlocal longest
            while not done.is_set():
                before = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - before)

        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(beat(done))
            assert await query(reader, LONG.format(500_000)) == [(500_000,)]
            done.set()
        assert longest < 0.1


async def test_one_transaction_sees_one_state(location: Path) -> None:
    async with opened(location) as reader:
        await reader.begin()
        assert await query(reader, "SELECT count(*) FROM t") == [(2,)]
        other = sqlite3.connect(location)
        other.execute("INSERT INTO t VALUES (3)")
        other.commit()
        other.close()
        assert await query(reader, "SELECT count(*) FROM t") == [(2,)]
        # The same holds for a query that is run twice.
        assert await query(reader, LONG.format(300_000) + ", t") == [(600_000,)]
        assert await query(reader, "SELECT count(*) FROM t") == [(2,)]
        await reader.commit()
        assert await query(reader, "SELECT count(*) FROM t") == [(3,)]


async def test_nothing_can_be_written(location: Path) -> None:
    async with opened(location) as reader:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await query(reader, "INSERT INTO t VALUES (3)")


async def test_what_the_database_refuses_is_refused_once(location: Path) -> None:
    async with opened(location) as reader:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await query(reader, "SELECT * FROM u")
        assert await query(reader, "SELECT 1") == [(1,)]


async def test_a_cancelled_question_is_interrupted(location: Path) -> None:
    stalls = DiskStalls()
    async with opened(location, stalls=stalls) as reader:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await query(reader, LONG.format(AGES))
        assert time.monotonic() - began < 10
        # The connection is as it was before.
        recorder = ThreadRecorder(reader)
        assert await query(reader, "SELECT here()") == [(1,)]
        # A busy machine may have held up the first question for as long as a disk that stalls.
        assert recorder.threads == [threading.get_ident()] or stalls.are_recent


async def test_a_lock_is_waited_for_on_a_thread_and_not_for_ever(tmp_path: Path) -> None:
    # Without WAL, where a writer locks readers out.
    other = sqlite3.connect(tmp_path / "b.db", isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (x INTEGER)")
    raw = sqlite3.connect(tmp_path / "b.db", isolation_level=None, check_same_thread=False)
    raw.execute("PRAGMA busy_timeout=0")
    threads = ThreadPoolExecutor(1)
    reader = SqliteReader(raw, threads, 300, stalls=DiskStalls())
    try:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(sqlite3.OperationalError) as refused:
            await query(reader, "SELECT count(*) FROM t")
        assert refused.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
        assert time.monotonic() - began >= 0.3
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(query(reader, "SELECT count(*) FROM t"))
            await asyncio.sleep(0.05)
            assert not asked.done()
            other.execute("COMMIT")
        assert asked.result() == [(0,)]
    finally:
        threads.shutdown()
        raw.close()
        other.close()


async def test_time_before_sqlite_runs_does_not_count_against_the_budget(location: Path) -> None:
    async with opened(location, budget=0.2) as reader:
        threads: list[int] = []

        def action() -> None:
            threads.append(threading.get_ident())
            until = time.thread_time() + 0.3
            while time.thread_time() < until:  # like compiling a statement
                pass
            reader.raw.execute(LONG.format(200)).fetchall()

        await reader.run(action)
        assert threads == [threading.get_ident()]


async def test_an_action_that_must_run_once_runs_on_a_thread(location: Path) -> None:
    async with opened(location, budget=0.0005) as reader:
        threads: list[int] = []

        def action() -> None:
            threads.append(threading.get_ident())
            reader.raw.execute(LONG.format(300_000)).fetchall()

        await reader.run(action, once=True)
        assert len(threads) == 1
        assert threads != [threading.get_ident()]


async def test_a_task_with_many_short_transactions_lets_other_tasks_run(location: Path) -> None:
    async with opened(location, budget=10) as reader:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(count())
            for _ in range(10):
                await reader.begin()
                await query(reader, "SELECT x FROM t")
                await reader.commit()
            counting.cancel()
        assert turns >= 10


def stall(reader: SqliteReader, seconds: float) -> None:
    """Give SQL a function that waits, as a read of a page from the disk does."""

    def wait() -> int:
        time.sleep(seconds)
        return 1

    reader.raw.create_function("wait", 0, wait)


WAITING = "WITH RECURSIVE n(i) AS (SELECT wait() UNION ALL SELECT i + wait() FROM n WHERE i < {})"


async def test_a_question_that_waits_without_work_is_moved_to_a_thread(location: Path) -> None:
    """Four hundred reads of 2 ms take no CPU and would hold the loop up for 0.8 s."""
    async with opened(location) as reader:
        stall(reader, 0.002)
        gaps = await gaps_while(query(reader, WAITING.format(400) + " SELECT count(*) FROM n"))
        assert max(gaps) < 0.4


async def test_after_a_disk_has_stalled_questions_are_asked_on_threads(location: Path) -> None:
    async with opened(location) as reader:
        recorder = ThreadRecorder(reader)
        stall(reader, 0.8)
        await query(reader, "SELECT here()")
        await query(reader, "SELECT wait()")  # cannot be interrupted
        await query(reader, "SELECT here()")
        here, there = recorder.threads
        assert here == threading.get_ident()
        assert there != here
        gaps = await gaps_while(query(reader, "SELECT wait()"))
        assert max(gaps) < 0.4


async def gaps_while(work: Coroutine[Any, Any, object]) -> list[float]:
    """Return the times between the loop's turns, in seconds, while some work is done."""
    gaps: list[float] = []

    async def measure() -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - before)
            before = now

    async with asyncio.TaskGroup() as tasks:
        measuring = tasks.create_task(measure())
        await asyncio.sleep(0)
        await work
        await asyncio.sleep(0.002)
        measuring.cancel()
    return gaps
