"""Numbers of more than 31 bits on PostgreSQL, beside processes that use the tables."""

import asyncio
from contextlib import suppress

from sqlalchemy import text

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.migrations.finishing import finish
from storage.catalog.migrations.widening import abandon, find_narrow
from storage.catalog.records.common import Change
from storage.errors import CatalogUnavailable
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.waiting import SCALE, poll

NARROW = {"commands": "id", "notices": "id", "events": "id", "jobs": "id", "spans": "id, job_id"}
LAST = (1 << 31) - 1
COUNT = 12_000  # more than are copied at once
EVENTS = (
    "INSERT INTO events (project_id, subject, kind, facts, created_us)"
    f" SELECT 1, 'abc', 'a', '{{}}', i FROM generate_series(1, {COUNT}) AS i"
)

PROJECT = "INSERT INTO projects (key, name, created_us) VALUES ('k', 'n', 1)"
BEGUN = "SELECT count(*) FROM pg_trigger WHERE tgname = 'wide_events'"
COPIED = "SELECT count(*) FROM wide_events"
RIGHTS = (
    "SELECT relowner, grantee, privilege_type FROM pg_class, aclexplode(relacl)"
    " WHERE oid = 'events'::regclass ORDER BY 1, 2, 3"
)
LEFT = "SELECT count(*) FROM pg_class WHERE relname LIKE '%wide%'"


def narrow(url: str) -> None:
    """Give the tables the numbers that they had before."""
    for table, columns in NARROW.items():
        for column in columns.split(", "):
            run_sql(url, f"ALTER TABLE {table} ALTER COLUMN {column} TYPE integer")
        run_sql(url, f"ALTER SEQUENCE {table}_id_seq AS integer")


async def still_narrow(database: Database) -> list[tuple[str, str]]:
    async with database.reading() as connection:
        return await connection.run_sync(find_narrow)


async def use(catalog: Catalog, project: int, done: asyncio.Event) -> None:
    """Add and delete streams until it is done; each writes an event in its transaction."""
    number = 0
    while not done.is_set():
        number += 1
        # As after a restart of the server: sessions are ended at the end of a change.
        with suppress(CatalogUnavailable):
            stream = await catalog.streams.add(project, f"stream {number}", Change(number))
            if number % 2:
                await catalog.streams.remove(stream.id, Change(number))
            await catalog.events.find_page(project)


async def test_numbers_become_wide_while_events_are_written_and_removed(postgres_url: str) -> None:
    narrow(postgres_url)
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
        asyncio.TaskGroup() as group,
    ):
        await catalog.projects.add("many", Change(1))
        run_sql(postgres_url, "GRANT SELECT ON events TO pg_monitor, PUBLIC")
        assert len(run_sql(postgres_url, RIGHTS)) > 2
        rights = run_sql(postgres_url, RIGHTS)
        run_sql(postgres_url, EVENTS)
        used = (await catalog.projects.add("used", Change(1))).id
        assert len(await still_narrow(database)) == 6
        done = asyncio.Event()
        using = group.create_task(use(catalog, used, done))
        finishing = group.create_task(finish(database))
        await asyncio.to_thread(
            poll, lambda: run_sql(postgres_url, BEGUN) == [(1,)], within=10 * SCALE,
            what="a copy that has begun",
        )  # fmt: skip
        run_sql(postgres_url, "DELETE FROM events WHERE kind = 'a' AND created_us % 100 = 0")
        assert await finishing
        done.set()
        await using
        assert await still_narrow(database) == []
    assert run_sql(postgres_url, RIGHTS) == rights
    count = "SELECT count(*) FROM events WHERE kind = 'a'"
    assert run_sql(postgres_url, count) == [(COUNT - COUNT // 100,)]
    query = f"SELECT kind, count(*)::int FROM events WHERE project_id = {used} GROUP BY kind"
    counts = {str(kind): number for kind, number in run_sql(postgres_url, query)}
    ((streams,),) = run_sql(postgres_url, "SELECT count(*)::int FROM streams")
    assert isinstance(streams, int)
    assert counts["stream added"] == streams + int(str(counts["stream deleted"])) > 2
    assert run_sql(postgres_url, LEFT) == [(0,)]


async def test_numbers_go_on_beyond_31_bits(postgres_url: str) -> None:
    narrow(postgres_url)
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
    ):
        assert await finish(database)
        run_sql(postgres_url, *(f"SELECT setval('{each}_id_seq', {LAST})" for each in NARROW))
        project = await catalog.projects.add("films", Change(1))
        await catalog.streams.add(project.id, "first", Change(1))
        newest = (await catalog.events.find_page(project.id)).items[0]
        assert newest.id == LAST + 2


async def test_the_owner_of_the_database_needs_no_further_rights(
    postgres_server: PostgresServer,
) -> None:
    postgres_server.execute("CREATE ROLE plain LOGIN")
    postgres_server.execute("CREATE DATABASE plain OWNER plain TEMPLATE template0")
    url = postgres_server.url("plain", user="plain")
    try:
        async with (
            open_catalog(url, migrate=True) as catalog,
            open_database(database_url(url), create=False) as database,
        ):
            await catalog.projects.add("films", Change(1))
            narrow(url)
            run_sql(url, "DROP INDEX ix_events_project_id_id")
            assert await finish(database)
            await catalog.projects.add("more", Change(1))
    finally:
        postgres_server.execute("DROP DATABASE plain WITH (FORCE)")
        postgres_server.execute("DROP ROLE plain")


async def interrupt(database: Database, url: str) -> None:
    """Copy events, and stop before the copy takes the place of the old table."""
    async with database.writing() as connection, asyncio.TaskGroup() as group:
        await connection.execute(text("LOCK TABLE projects IN ROW SHARE MODE"))
        copying = group.create_task(finish(database))
        await asyncio.to_thread(
            poll, lambda: run_sql(url, BEGUN) == [(1,)] and run_sql(url, COPIED) != [(0,)],
            within=10 * SCALE, what="a copy with rows",
        )  # fmt: skip
        copying.cancel()


async def test_an_interrupted_copy_goes_on(postgres_url: str) -> None:
    narrow(postgres_url)
    run_sql(postgres_url, PROJECT, EVENTS)
    async with open_database(database_url(postgres_url), create=False) as database:
        await interrupt(database, postgres_url)
        run_sql(postgres_url, "DELETE FROM events WHERE id = 7", EVENTS)
        assert await finish(database)
        assert await still_narrow(database) == []
    facts = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM events"
    assert run_sql(postgres_url, facts) == [(2 * COUNT - 1, 2 * COUNT - 1, 1, 2 * COUNT)]


async def test_a_copy_that_the_next_version_finds_is_removed(postgres_url: str) -> None:
    """Its steps may change the table: what the trigger writes would not fit."""
    narrow(postgres_url)
    run_sql(postgres_url, PROJECT, EVENTS)
    async with open_database(database_url(postgres_url), create=False) as database:
        await interrupt(database, postgres_url)
        async with database.migrating() as connection:
            await connection.run_sync(abandon)
    assert run_sql(postgres_url, LEFT) == [(0,)]
    run_sql(postgres_url, "ALTER TABLE events ADD COLUMN more integer", EVENTS)
    assert run_sql(postgres_url, "SELECT count(*) FROM events") == [(2 * COUNT,)]
