"""Records read out of rows: columns by name, by reference, by another name; values parsed."""

import msgspec
from sqlalchemy import insert, select

from storage.catalog.engine.database import Database
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import ProjectRecord
from storage.catalog.schema.tables import tags

READER_PARSERS = {"name": str.upper}


class ReadTag(msgspec.Struct, frozen=True, kw_only=True):
    """A tag as this test reads it."""

    id: int
    project: int
    name: str
    is_new: bool
    note: str = ""


async def test_a_field_is_the_column_of_its_name_or_as_it_is_said(
    database: Database, project: ProjectRecord
) -> None:
    reader = RowReader(ReadTag, tags, parsers=READER_PARSERS, is_new=tags.c.version == 1)
    statement = insert(tags).values(
        project_id=project.id, name="a", name_fold="a", active=True, created_us=1, updated_us=1,
        version=1,
    )  # fmt: skip
    async with database.writing() as connection:
        added = await reader.find(connection, statement.returning(*reader.columns))
        assert added is not None
        assert added == ReadTag(id=added.id, project=project.id, name="A", is_new=True)
        query = select(*reader.columns, tags.c.active)
        assert await reader.find_all(connection, query) == (added,)
        assert await reader.find(connection, query.where(tags.c.id == 0)) is None
        row = (await connection.execute(query)).one()
        assert row.active is True
        assert reader.read(row, note="given", id=0) == msgspec.structs.replace(
            added, note="given", id=0
        )
