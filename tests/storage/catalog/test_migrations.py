"""The catalog's form: made, kept, and refused where it is another."""

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from storage.catalog import migrations, open_catalog
from storage.catalog.database import database_url, open_database
from storage.catalog.migrations import REVISION, check, migrate
from storage.catalog.tables import METADATA
from storage.errors import CatalogError, SchemaMissing, SchemaNewer, SchemaOlder

pytestmark = pytest.mark.anyio

STARTER = """
import asyncio, sys
from storage.catalog import open_catalog

async def main():
    async with open_catalog(sys.argv[1], migrate=True) as catalog:
        first = await catalog.first_start(1)
        print(first.project.key, first.broadcaster_key, first.owner_token is not None)

asyncio.run(main())
"""


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": True}
    )
    return list(compare_metadata(context, METADATA))


def _set_revision(place: Path, revision: str) -> None:
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()


def _tables(place: Path) -> dict[str, str]:
    connection = sqlite3.connect(place)
    try:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return dict(rows.fetchall())
    finally:
        connection.close()


async def test_the_steps_make_exactly_the_tables_that_the_code_uses(place: Path) -> None:
    async with open_database(database_url(place), create=True) as database:
        await migrate(database)
        async with database.reading() as connection:
            assert await connection.run_sync(_differences) == []


async def test_the_steps_write_the_tables_as_sqlalchemy_would(place: Path, tmp_path: Path) -> None:
    async with open_database(database_url(place), create=True) as database:
        await migrate(database)
    other = tmp_path / "other.db"
    async with (
        open_database(database_url(other), create=True) as database,
        database.writing() as connection,
    ):
        await connection.run_sync(METADATA.create_all)

    def loose(tables: dict[str, str]) -> dict[str, list[str]]:
        # Constraints may stand in another order: that is no difference.
        return {
            name: sorted(line.strip().rstrip(",") for line in sql.splitlines())
            for name, sql in tables.items()
            if name not in ("alembic_version", "sqlite_sequence")
        }

    assert loose(_tables(place)) == loose(_tables(other))


async def test_the_named_revision_is_the_newest_step() -> None:
    folder = Path(migrations.__file__).parent
    assert ScriptDirectory(folder).get_current_head() == REVISION


async def test_migrating_again_changes_nothing(place: Path) -> None:
    async with open_catalog(place, migrate=True) as catalog:
        made = await catalog.first_start(1)
    before = _tables(place)
    async with open_catalog(place, migrate=True) as catalog:
        assert (await catalog.first_start(2)).project == made.project
    assert _tables(place) == before


async def test_a_migrated_catalog_opens_without_migrating(place: Path) -> None:
    async with open_catalog(place, migrate=True):
        pass
    async with open_catalog(place, migrate=False) as catalog:
        await catalog.ping()


async def test_an_empty_file_is_no_catalog(place: Path) -> None:
    await asyncio.to_thread(place.touch)
    with pytest.raises(SchemaMissing, match="run `headend migrate` or `headend serve` first"):
        async with open_catalog(place, migrate=False):
            pass


@pytest.mark.parametrize("migrating", [True, False])
async def test_a_newer_catalog_is_refused_and_left_alone(place: Path, migrating: bool) -> None:
    async with open_catalog(place, migrate=True):
        pass
    _set_revision(place, "9999")
    before = _tables(place)
    with pytest.raises(SchemaNewer, match="run the newer version that wrote it") as caught:
        async with open_catalog(place, migrate=migrating):
            pass
    assert (caught.value.found, caught.value.wanted) == ("9999", REVISION)
    assert _tables(place) == before


async def test_an_older_catalog_is_refused_until_it_is_migrated(place: Path) -> None:
    async with open_database(database_url(place), create=True) as database:
        await migrate(database)
        # To a code that needs a later step, what this one made is old.
        with pytest.raises(SchemaOlder, match="run `headend migrate`") as caught:
            await check(database, wanted="0099")
        assert (caught.value.found, caught.value.wanted) == (REVISION, "0099")


async def test_a_step_that_fails_leaves_the_catalog_as_it_was(place: Path) -> None:
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE streams (id INTEGER)")
    connection.commit()
    connection.close()
    with pytest.raises(CatalogError):
        async with open_catalog(place, migrate=True):
            pass
    assert _tables(place) == {"streams": "CREATE TABLE streams (id INTEGER)"}


async def test_processes_that_start_at_once_make_one_catalog(place: Path) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        children = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", STARTER, str(place), stdout=asyncio.subprocess.PIPE
            )
            for _ in range(3)
        ]
        answers = [tasks.create_task(child.communicate()) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    words = [answer.result()[0].decode().split() for answer in answers]
    assert len({(key, broadcaster) for key, broadcaster, _ in words}) == 1
    assert sorted(new for _, _, new in words) == ["False", "False", "True"]
