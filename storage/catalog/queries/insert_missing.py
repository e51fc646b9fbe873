"""Adding a row where there is none with its key; a failing insert would undo the transaction."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from storage.catalog.engine.connection import AsyncConnection

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def insert_missing(
    connection: AsyncConnection, table: Table, row: Mapping[str, object] | None = None
) -> "postgresql.Insert | sqlite.Insert":
    """Return the statement that adds a row, or nothing where a unique key of it is taken.

    Without a row, it is executed with those that are to be added.

    On PostgreSQL it waits for a transaction that adds the same key.
    """
    # The same words in both dialects, which SQLAlchemy's general insert does not have.
    statement = _insert(connection, table)
    if row is not None:
        statement = statement.values(row)
    return statement.on_conflict_do_nothing()


def _insert(connection: AsyncConnection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    # With what knows all drivers of PostgreSQL: 33 ms of CPU.
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 # see above

    return postgresql.insert(table)
