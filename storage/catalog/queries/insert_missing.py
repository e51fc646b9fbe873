"""Adding a row where there is none with its key; a failing insert would undo the transaction."""

from collections.abc import Mapping

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["insert_missing"]


def insert_missing(
    connection: AsyncConnection, table: Table, row: Mapping[str, object]
) -> postgresql.Insert | sqlite.Insert:
    """Return the statement that adds a row, or nothing where a unique key of it is taken.

    On PostgreSQL it waits for a transaction that adds the same key.
    """
    # The same words in both dialects, which SQLAlchemy's general insert does not have.
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).values(row).on_conflict_do_nothing()
    return sqlite.insert(table).values(row).on_conflict_do_nothing()
