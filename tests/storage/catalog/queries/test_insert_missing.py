"""A row is added once, and the transaction goes on."""

from sqlalchemy import select

from storage.catalog.engine.database import Database
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.schema.tables import stream_owners
from tests.support.shared_engines import ON_BOTH


@ON_BOTH
async def test_a_row_is_added_where_there_is_none_with_its_key(database: Database) -> None:
    row = {"stream_id": 7, "generation": 1, "taken_us": 1}
    async with database.writing() as connection:
        first = insert_missing(connection, stream_owners, row)
        added = await connection.execute(first.returning(stream_owners.c.stream_id))
        assert added.scalar_one_or_none() == 7
        again = insert_missing(connection, stream_owners, row | {"generation": 2})
        added = await connection.execute(again.returning(stream_owners.c.stream_id))
        assert added.scalar_one_or_none() is None
        rows = await connection.execute(select(stream_owners.c.generation))
        assert rows.scalars().all() == [1]
