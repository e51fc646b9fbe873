"""What is due is counted among what will be, on both databases."""

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.queries.due import Due, count_due
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import projects
from tests.support.shared_engines import ON_BOTH


@ON_BOTH
async def test_due_rows_are_counted_among_others(catalog: Catalog, database: Database) -> None:
    column = projects.c.created_us
    async with database.reading() as connection:
        assert await count_due(connection, column <= 5, column > 2) == Due(0, 0)
    for now_us in range(1, 10):
        await catalog.projects.add("films", Change(now_us))
    async with database.reading() as connection:
        assert await count_due(connection, column <= 5, column > 2) == Due(3, 7)
