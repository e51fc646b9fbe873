"""What a migration leaves to be done, while others use the tables."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from storage.catalog.engine.database import database_url, open_database
from storage.catalog.migrations import migrate
from storage.catalog.migrations.finishing import (
    create_missing_indexes,
    find_unfinished,
    finish,
    keep_finishing,
)
from tests.support.sql import WAITING, migrated, run_sql
from tests.support.waiting import SCALE, poll

INDEX = "ix_events_project_id_created_us"
PROJECT = "INSERT INTO projects (key, name, created_us) VALUES ('k', 'n', 1)"
EVENT = (
    "INSERT INTO events (project_id, subject, kind, facts, created_us) VALUES (1, '', 'a', '{}', 1)"
)


@contextmanager
def writing(url: str) -> Generator[None]:
    """Write an event in a transaction that is open for the length of the block."""
    with psycopg.connect(url) as other:
        other.execute(EVENT.encode())
        yield
        other.rollback()


async def unfinished(location: str | Path) -> tuple[str, ...]:
    async with (
        open_database(database_url(location), create=False) as database,
        database.reading() as connection,
    ):
        return await connection.run_sync(find_unfinished)


async def test_an_index_is_created_while_others_write(postgres_url: str) -> None:
    run_sql(postgres_url, PROJECT, f"DROP INDEX {INDEX}")
    assert await unfinished(postgres_url) == (INDEX,)
    async with (
        open_database(database_url(postgres_url), create=False) as database,
        asyncio.TaskGroup() as group,
    ):
        with writing(postgres_url):
            creating = group.create_task(finish(database))
            await asyncio.to_thread(
                poll, lambda: run_sql(postgres_url, WAITING) != [(0,)], within=10 * SCALE,
                what="the index waits for the older transaction",
            )  # fmt: skip
            run_sql(postgres_url, "SET lock_timeout = '1s'", EVENT)
        assert await creating
    assert await unfinished(postgres_url) == ()
    assert run_sql(postgres_url, "SELECT count(*) FROM events") == [(1,)]


async def test_an_index_that_was_interrupted_is_made_again(postgres_url: str) -> None:
    run_sql(postgres_url, PROJECT, f"DROP INDEX {INDEX}")
    with writing(postgres_url), pytest.raises(psycopg.errors.QueryCanceled):
        run_sql(
            postgres_url,
            "SET statement_timeout = '300ms'",
            f"CREATE INDEX CONCURRENTLY {INDEX} ON events (project_id, created_us)",
        )
    query = f"SELECT indisvalid FROM pg_index WHERE indexrelid = '{INDEX}'::regclass"
    assert run_sql(postgres_url, query) == [(False,)]
    async with open_database(database_url(postgres_url), create=False) as database:
        await keep_finishing(database)
    assert run_sql(postgres_url, query) == [(True,)]


async def test_one_process_at_a_time_finishes(postgres_url: str) -> None:
    run_sql(postgres_url, f"DROP INDEX {INDEX}")
    async with open_database(database_url(postgres_url), create=False) as database:
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT pg_advisory_lock(x'48454149'::int)")
            assert not await finish(database)
        assert await unfinished(postgres_url) == (INDEX,)
        assert await finish(database)
        assert await finish(database), "again"


async def test_on_sqlite_indexes_are_created_with_the_steps(file: Path) -> None:
    run_sql(migrated(file), f"DROP INDEX {INDEX}")
    assert await unfinished(file) == (INDEX,)
    async with (
        open_database(database_url(file), create=False) as database,
        database.migrating() as connection,
    ):
        await connection.run_sync(create_missing_indexes)
    assert await unfinished(file) == ()


async def test_texts_of_an_older_catalog_can_be_searched(empty_location: str | Path) -> None:
    """More rows than are changed at once; those of ASCII alone stay as they are."""
    if isinstance(empty_location, Path):
        migrated(empty_location)
    async with open_database(database_url(empty_location), create=True) as database:
        await migrate(database)
        run_sql(
            empty_location,
            PROJECT,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1203)"
            " INSERT INTO tags"
            " (project_id, name, name_fold, active, created_us, updated_us, version)"
            " SELECT 1, 'É', CASE WHEN i % 3 = 0 THEN 'e' ELSE 'é' END || i, 1 = 1, 1, 1, 1 FROM n",
        )
        assert await finish(database)
    counts = "SELECT count(*), count(name_plain), min(name_plain) FROM tags"
    assert run_sql(empty_location, counts) == [(1203, 802, "é1\ne1")]
