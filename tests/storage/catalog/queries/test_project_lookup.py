"""Projects by number and by key; a deleted one is not found in any way."""

import pytest
from sqlalchemy import select

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.queries import project_lookup
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.schema.tables import streams
from storage.errors import NoSuchProject
from tests.support.shared_engines import ON_BOTH

NOW_US = 1_769_860_800_000_000


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    await catalog.projects.add("the first", Change(NOW_US))  # which cannot be deleted
    return await catalog.projects.add("films", Change(NOW_US))


async def find_project(database: Database, name: str) -> ProjectRecord | None:
    async with database.reading() as connection:
        return await project_lookup.find(connection, name)


@ON_BOTH
async def test_a_project_is_found_by_its_number_and_its_key(
    database: Database, project: ProjectRecord
) -> None:
    assert await find_project(database, str(project.id)) == project
    assert await find_project(database, project.key) == project


@pytest.mark.parametrize("name", ["", "0", "01", "+2", "2 ", "²", "9" * 10, "9" * 40, "nothing"])
async def test_other_spellings_of_a_number_are_keys_that_nothing_has(
    database: Database, project: ProjectRecord, name: str
) -> None:
    assert project.id == 2
    assert await find_project(database, name) is None


async def test_a_deleted_project_is_found_in_no_way(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    await catalog.streams.add(project.id, "The news", Change(NOW_US))
    query = select(streams.c.id).where(project_lookup.is_of_present(streams.c.project_id))
    async with database.writing() as connection:
        await project_lookup.require(connection, project.id)
        assert len((await connection.execute(query)).all()) == 1
    await catalog.projects.remove(project.id, Change(NOW_US))
    assert await find_project(database, str(project.id)) is None
    assert await find_project(database, project.key) is None
    async with database.writing() as connection:
        assert (await connection.execute(query)).all() == []
        with pytest.raises(NoSuchProject):
            await project_lookup.require(connection, project.id)


async def test_the_first_project_is_the_oldest(database: Database, project: ProjectRecord) -> None:
    async with database.reading() as connection:
        assert await project_lookup.find_first(connection) == project.id - 1


async def test_before_the_first_start_there_is_no_first_project(database: Database) -> None:
    async with database.reading() as connection:
        assert await project_lookup.find_first(connection) is None
