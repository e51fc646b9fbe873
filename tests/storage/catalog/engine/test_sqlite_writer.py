"""A connection that writes: waiting for others, cancelled at any moment, closed in the middle."""

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from storage.catalog import open_catalog
from storage.catalog.engine.sqlite_threads import connect
from storage.catalog.engine.sqlite_writer import SqliteWriter

LONG = (
    "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
    " WHERE i < 1000000000) SELECT count(*) FROM n"
)


@pytest.fixture
def location(tmp_path: Path) -> Path:
    location = tmp_path / "a.db"
    with sqlite3.connect(location) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x INTEGER)")
    connection.close()
    return location


@asynccontextmanager
async def opened(location: Path, *, busy_ms: int = 2000) -> AsyncGenerator[SqliteWriter]:
    raw = connect(str(location), busy_ms)
    with ThreadPoolExecutor(1) as threads:
        try:
            yield SqliteWriter(raw, threads, busy_ms)
        finally:
            raw.close()


async def run(writer: SqliteWriter, statement: str) -> list[tuple[object, ...]]:
    answers: list[list[tuple[object, ...]]] = []
    await writer.run(lambda: answers.append(writer.raw.execute(statement).fetchall()))
    return answers[-1]


async def test_writes_take_effect_when_committed(location: Path) -> None:
    async with opened(location) as writer, opened(location) as other:
        await writer.begin()
        assert await run(writer, "INSERT INTO t VALUES (1) RETURNING x") == [(1,)]
        assert await run(other, "SELECT * FROM t") == []
        await writer.commit()
        assert await run(other, "SELECT * FROM t") == [(1,)]
        await writer.begin()
        await run(writer, "INSERT INTO t VALUES (2), (3)")
        await writer.rollback()
        assert await run(other, "SELECT * FROM t") == [(1,)]


async def test_a_lock_of_another_is_waited_for(location: Path) -> None:
    async with opened(location) as writer, opened(location) as other:
        await other.begin()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(writer.begin())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await other.rollback()


async def test_a_lock_that_is_never_let_go_is_an_error_in_time(location: Path) -> None:
    async with opened(location, busy_ms=100) as writer, opened(location) as other:
        await other.begin()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await writer.begin()


async def test_a_statement_whose_caller_is_cancelled_is_broken_off(location: Path) -> None:
    async with opened(location) as writer, opened(location) as other:
        await writer.begin()
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await run(writer, LONG)
        assert time.monotonic() - began < 5
        await writer.rollback()
        async with asyncio.timeout(5):
            await other.begin()


async def test_an_action_that_must_run_once_is_not_repeated(location: Path) -> None:
    async with opened(location) as writer, opened(location) as other:
        await other.begin()
        tries = 0

        def action() -> None:
            nonlocal tries
            tries += 1
            writer.raw.execute("BEGIN IMMEDIATE")

        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await writer.run(action, once=True)
        assert tries == 1


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (2, 3))]
)
async def test_writers_that_are_cancelled_at_any_moment_block_no_others(
    tmp_path: Path, seed: int
) -> None:
    """The event loop stops at times, so that an answer and a deadline arrive together."""
    moments = random.Random(seed)

    async with open_catalog(tmp_path / "catalog.db", migrate=True) as catalog:
        await catalog.installation.first_start(1)

        async def write(now_us: int, *, live: bool) -> None:
            await catalog.live_state.set(
                1,
                live=live,
                processing=not live,
                on_air=None,
                sending=[0] if moments.getrandbits(1) else [],
                no_audio=False,
                now_us=now_us,
            )

        async def hurried(now_us: int, seconds: float) -> None:
            try:
                async with asyncio.timeout(seconds):
                    await write(now_us, live=bool(moments.getrandbits(1)))
            except TimeoutError:
                pass

        for turn in range(60):
            async with asyncio.TaskGroup() as tasks:
                for _ in range(3):
                    tasks.create_task(hurried(turn, moments.uniform(0, 0.02)))
                if turn % 5 == 0:
                    await asyncio.sleep(0.001)
                    time.sleep(0.03)  # noqa: ASYNC251 # what a busy event loop is like
            async with asyncio.timeout(5):
                await write(turn, live=True)
