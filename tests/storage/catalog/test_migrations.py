"""The catalog's schema: created, preserved, and refused if it differs."""

import asyncio
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from storage.catalog import migrations, open_catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.migrations import REVISION, check, migrate
from storage.catalog.migrations.finishing import finish
from storage.catalog.schema.tables import METADATA
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.errors import (
    CatalogBusy,
    CatalogError,
    SchemaMissing,
    SchemaNewer,
    SchemaOlder,
    SchemaTooOld,
)
from tests.support.concurrent_programs import run_together
from tests.support.sql import make_tables_of_0_2, run_sql

STARTER = """
import asyncio, sys
from pathlib import Path
from storage.catalog import open_catalog
from tests.support.concurrent_programs import run_together

async def main(place):
    async with open_catalog(place, migrate=True) as catalog:
        first = await catalog.installation.first_start(1)
        print(first.project.key, first.broadcaster_key, first.owner_token is not None)

asyncio.run(main(sys.argv[1]))
"""

Facts = dict[str, dict[str, Any]]  # Any: what the inspector says of a table, by aspect


def _facts(connection: Connection) -> Facts:
    """Return what each table is, however it came to be so: the order of constraints, and whether
    SQLite keeps a constraint's name, are no part of it."""
    inspector = inspect(connection)
    # Of all tables at once: PostgreSQL is asked a few times, not a few times for each.
    columns, keys = inspector.get_multi_columns(), inspector.get_multi_pk_constraint()
    unique, indexes = inspector.get_multi_unique_constraints(), inspector.get_multi_indexes()
    checks = inspector.get_multi_check_constraints()
    references, special = _references(connection), _special(connection)
    facts: Facts = {}
    for name in inspector.get_table_names():
        table = (None, name)
        facts[name] = {
            "columns": [
                (each["name"], str(each["type"]), each["nullable"], each["default"])
                for each in columns[table]
            ],
            "key": keys[table]["constrained_columns"],
            "unique": sorted((each["name"], each["column_names"]) for each in unique[table]),
            "indexes": sorted(
                (
                    each["name"],
                    each["column_names"],
                    each["unique"],
                    sorted(
                        f"{name}={value}" for name, value in each.get("dialect_options", {}).items()
                    ),
                )
                for each in indexes[table]
            ),
            "checks": sorted(each["name"] or "" for each in checks[table]),
            "references": sorted(references[name]),
            "special": special[name],
        }
    return facts


def _references(connection: Connection) -> dict[str, list[Any]]:  # Any: rows
    inspector = inspect(connection)
    if connection.dialect.name == "sqlite":
        # The inspector takes what it says of deletion from the text of the table.
        return {
            name: [
                (row[3], row[2], row[4], row[6])
                for row in connection.execute(text(f"PRAGMA foreign_key_list({name})"))
            ]
            for name in inspector.get_table_names()
        }
    return {
        name: [
            (each["name"], each["constrained_columns"], each["referred_table"], each.get("options"))
            for each in keys
        ]
        for (_, name), keys in inspector.get_multi_foreign_keys().items()
    }


def _special(connection: Connection) -> dict[str, list[Any]]:  # Any: rows
    """Return how tables give numbers, on SQLite, and how their texts are ordered, elsewhere."""
    if connection.dialect.name == "sqlite":
        query = (
            "SELECT name, sql LIKE '%PRIMARY KEY AUTOINCREMENT%' FROM sqlite_master"
            " WHERE type = 'table'"
        )
    else:
        query = (
            "SELECT table_name, column_name, collation_name FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY 1, 2"
        )
    special: dict[str, list[Any]] = defaultdict(list)
    for name, *facts in connection.execute(text(query)):
        special[name].append(tuple(facts))
    return special


async def _facts_of(location: str | Path) -> Facts:
    async with (
        open_database(database_url(location), create=True) as database,
        database.reading() as connection,
    ):
        return await connection.run_sync(_facts)


async def _rows_of(location: str | Path) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: run_sql(location, f"SELECT * FROM {table}") for table in await _facts_of(location)
    }


async def test_a_catalog_of_0_2_becomes_as_a_new_one_is(empty_location: str | Path) -> None:
    def drop(connection: Connection) -> None:
        METADATA.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))

    async with open_database(database_url(empty_location), create=True) as database:
        await migrate(database)
        as_created = await _facts_of(empty_location), await _rows_of(empty_location)
        async with database.migrating() as connection:
            await connection.run_sync(drop)
    assert await _facts_of(empty_location) == {}
    make_tables_of_0_2(empty_location)
    async with open_database(database_url(empty_location), create=False) as database:
        await migrate(database)
        assert await finish(database)
    assert (await _facts_of(empty_location), await _rows_of(empty_location)) == as_created
    assert as_created[0].keys() == {*METADATA.tables, "alembic_version"}
    assert {table: rows for table, rows in as_created[1].items() if rows} == {
        "alembic_version": [(REVISION,)]
    }


async def test_another_column_default_or_reference_is_noticed(empty_location: str | Path) -> None:
    async with open_catalog(empty_location, migrate=True):
        pass
    all_facts = [await _facts_of(empty_location)]
    for change in (
        "ALTER TABLE players ADD COLUMN more INTEGER",
        "CREATE INDEX more ON players (name)",
        "ALTER TABLE players ADD COLUMN other TEXT DEFAULT 'a'",
        "ALTER TABLE players ADD COLUMN third INTEGER REFERENCES tags (id) ON DELETE CASCADE",
    ):
        run_sql(empty_location, change)
        all_facts.append(await _facts_of(empty_location))
        assert all_facts[-1] not in all_facts[:-1], change


async def test_the_named_revision_is_the_newest_step() -> None:
    folder = Path(migrations.__file__).parent
    assert ScriptDirectory(folder).get_current_head() == REVISION


async def test_migrating_again_changes_nothing(empty_location: str | Path) -> None:
    async with open_catalog(empty_location, migrate=True) as catalog:
        created = await catalog.installation.first_start(1)
    before = await _facts_of(empty_location)
    async with open_catalog(empty_location, migrate=True) as catalog:
        assert (await catalog.installation.first_start(2)).project == created.project
    assert await _facts_of(empty_location) == before


async def test_a_migrated_catalog_opens_without_migrating(empty_location: str | Path) -> None:
    async with open_catalog(empty_location, migrate=True):
        pass
    async with open_catalog(empty_location, migrate=False) as catalog:
        await catalog.ping()


async def test_an_empty_file_is_no_catalog(file: Path) -> None:
    await asyncio.to_thread(file.touch)
    with pytest.raises(SchemaMissing, match="run `headend migrate` or `headend serve` first"):
        async with open_catalog(file, migrate=False):
            pass


async def test_an_empty_database_is_no_catalog(empty_postgres_url: str) -> None:
    with pytest.raises(SchemaMissing, match="no catalog at postgresql://postgres@/"):
        async with open_catalog(empty_postgres_url, migrate=False):
            pass


@pytest.mark.parametrize("migrating", [True, False])
async def test_a_newer_catalog_is_refused_and_left_alone(
    location: str | Path, migrating: bool
) -> None:
    async with open_catalog(location, migrate=True):
        pass
    run_sql(location, "UPDATE alembic_version SET version_num = '9999'")
    before = await _facts_of(location)
    with pytest.raises(SchemaNewer, match="run the newer version that wrote it") as caught:
        async with open_catalog(location, migrate=migrating):
            pass
    assert (caught.value.found, caught.value.wanted) == ("9999", REVISION)
    assert await _facts_of(location) == before


async def test_an_older_catalog_is_refused_until_it_is_migrated(empty_location: str | Path) -> None:
    make_tables_of_0_2(empty_location)
    with pytest.raises(SchemaOlder, match="run `headend migrate`") as caught:
        async with open_catalog(empty_location, migrate=False):
            pass
    assert (caught.value.found, caught.value.wanted) == ("0016.2", REVISION)
    async with open_catalog(empty_location, migrate=True):
        pass
    async with open_catalog(empty_location, migrate=False):
        pass


@pytest.mark.parametrize("migrating", [True, False])
@pytest.mark.parametrize("revision", ["0001", "0015", "0016", "0016.1"])
async def test_a_catalog_of_a_version_before_0_2_is_refused_and_left_alone(
    empty_location: str | Path, revision: str, migrating: bool
) -> None:
    make_tables_of_0_2(empty_location)
    run_sql(empty_location, f"UPDATE alembic_version SET version_num = '{revision}'")
    before = await _facts_of(empty_location)
    sentence = f"at revision {revision}, of a version before 0.2; install version 0.2 of Headend"
    with pytest.raises(SchemaTooOld, match=re.escape(sentence)):
        async with open_catalog(empty_location, migrate=migrating):
            pass
    assert await _facts_of(empty_location) == before


async def test_what_0_2_has_queued_stays_queued(empty_location: str | Path) -> None:
    make_tables_of_0_2(empty_location)
    job = (
        "INSERT INTO jobs (id, kind, video_id, state, attempt, run_after_us, facts, created_us,"
        " updated_us, project_id)"
        " VALUES ({id}, 'transcode', {id}, '{state}', 4, 1, '{{}}', 1, 1, 1)"
    )
    run_sql(
        empty_location,
        "INSERT INTO projects (id, key, name, created_us) VALUES (1, 'p1', 'One', 3)",
        *(
            "INSERT INTO videos (id, project_id, hash, file_title, title_fold, description, name,"
            " size, length_us, width, height, state, phase, progress, eta, reason, warnings,"
            " created_us, updated_us, published, hidden, countries, generation, poster_labels,"
            f" storage_size, version) VALUES ({number}, 1, 'video-{number}', 'a', 'a', 'Words',"
            " 'a', 1, 1, 1, 1, 'transcoding', 'inprogress', 5, 0, '', '[]', 1, 1, true, false,"
            " '', 1, '', 1, 1)"
            for number in (11, 12)
        ),
        job.format(id=11, state="queued"),
        job.format(id=12, state="waiting"),
        "INSERT INTO spans (job_id, number, state, attempt, failures, run_after_us, cost, done,"
        " facts, created_us, updated_us, project_id)"
        " VALUES (12, 1, 'queued', 0, 0, 1, 1, 0, '\"s\"', 1, 1, 1)",
    )
    async with open_catalog(empty_location, migrate=True) as catalog:
        status = await catalog.videos.find_status(12)
        assert status is not None
        assert status.attempt == 4
        leased_job = await catalog.jobs.lease("one", 2, TRANSCODE)
        assert leased_job is not None
        assert (leased_job.id, leased_job.project) == (11, 1)
        assert await catalog.spans.adopt(2)
        span_held = await catalog.jobs.lease("one", 2, SPAN)
        assert span_held is not None
        assert (span_held.job, span_held.subject, span_held.project) == (12, 12, 1)


async def test_to_code_that_needs_a_later_step_the_newest_is_old(location: str | Path) -> None:
    async with open_database(database_url(location), create=True) as database:
        await migrate(database)
        with pytest.raises(SchemaOlder):
            await check(database, wanted="0099")


async def test_a_step_that_fails_leaves_the_catalog_as_it_was(empty_location: str | Path) -> None:
    run_sql(empty_location, "CREATE TABLE streams (id INTEGER)")
    with pytest.raises(CatalogError):
        async with open_catalog(empty_location, migrate=True):
            pass
    assert list(await _facts_of(empty_location)) == ["streams"]


async def test_a_catalog_in_use_is_not_migrated(empty_postgres_url: str) -> None:
    url = database_url(empty_postgres_url)
    async with open_database(url, create=False, busy_ms=200) as running:
        async with running.reading() as connection:
            await connection.execute(text("SELECT 1"))
        # A connection that is idle counts, too.
        async with open_database(url, create=False, busy_ms=200) as other:
            with pytest.raises(CatalogBusy, match="while another Headend uses it: stop that"):
                await migrate(other)
    async with open_database(url, create=False, busy_ms=200) as other:
        await migrate(other)
        await check(other)


async def test_a_catalog_that_needs_no_step_may_be_migrated_while_in_use(
    postgres_url: str,
) -> None:
    async with open_catalog(postgres_url, migrate=False) as running:
        await running.ping()
        async with open_catalog(postgres_url, migrate=True) as catalog:
            await catalog.ping()


async def test_processes_that_start_at_once_make_one_catalog(empty_location: str | Path) -> None:
    answers = await run_together(*(3 * [(STARTER, str(empty_location))]))
    words = [answer.split() for answer in answers]
    assert len({(key, broadcaster) for key, broadcaster, _ in words}) == 1
    assert sorted(new for _, _, new in words) == ["False", "False", "True"]
