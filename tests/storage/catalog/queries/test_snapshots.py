"""Rows as text, and back, also where the tables have changed meanwhile."""

from pathlib import Path

from storage.catalog import Catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.queries import snapshots
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.schema.tables import tags
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql


@ON_BOTH
async def test_rows_are_put_back_as_they_were(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    await catalog.labels.add("tag", project.id, 'Știri "azi"', Change(7), active=False)
    before = run_sql(location, "SELECT * FROM tags")
    async with open_database(database_url(location), create=False) as database:
        async with database.writing() as connection:
            taken = await snapshots.take(connection, [(tags, tags.c.project_id == project.id)])
        text = snapshots.encode(taken)
        run_sql(location, "DELETE FROM tags")
        # A column that is gone by then, and one that was not there yet.
        (row,) = taken["tags"]
        old = snapshots.decode(text.replace('"name_plain"', '"gone"'))
        assert "gone" in old["tags"][0]
        async with database.writing() as connection:
            await snapshots.put_back(connection, old, tags, version=row["version"] + 1)
            await snapshots.put_back(connection, {}, tags)
    ((*_, version, plain),) = run_sql(location, "SELECT version, name_plain FROM tags")
    assert (version, plain) == (row["version"] + 1, None)
    run_sql(location, "DELETE FROM tags")
    async with (
        open_database(database_url(location), create=False) as database,
        database.writing() as connection,
    ):
        await snapshots.put_back(connection, snapshots.decode(text), tags)
    assert run_sql(location, "SELECT * FROM tags") == before
