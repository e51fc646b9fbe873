"""Adding a row where there is none with its key; a failing insert would undo the transaction."""

from collections.abc import Mapping

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from storage.catalog.engine.connection import AsyncConnection


def insert_missing(
    connection: AsyncConnection, table: Table, row: Mapping[str, object] | None = None
) -> postgresql.Insert | sqlite.Insert:
    """Return the statement that adds a row, or nothing where a unique key of it is taken.

    Without a row, it is executed with those that are to be added.

    On PostgreSQL it waits for a transaction that adds the same key.
    """
    # The same words in both dialects, which SQLAlchemy's general insert does not have.
    is_postgres = connection.dialect.name == "postgresql"
    statement = postgresql.insert(table) if is_postgres else sqlite.insert(table)
    if row is not None:
        statement = statement.values(row)
    return statement.on_conflict_do_nothing()
