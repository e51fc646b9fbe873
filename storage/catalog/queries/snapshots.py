"""The rows of one record as text, and back: what is in the trash is no row of its tables.

So no query, of whatever version, can find what was deleted. The text is JSON: rows by the names of
their tables, values by those of their columns. Columns that it does not have get their defaults,
those that are gone are left out. Each function runs within the caller's transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Table, insert, select

from storage.catalog.engine.connection import AsyncConnection

Row = dict[str, Any]  # Any: columns of every type
Snapshot = dict[str, list[Row]]
_DECODER: Final = msgspec.json.Decoder(Snapshot)


async def take(
    connection: AsyncConnection, rows: Sequence[tuple[Table, ColumnElement[bool]]]
) -> Snapshot:
    """Return the rows of some tables that meet a condition each."""
    snapshot: Snapshot = {}
    for table, condition in rows:
        found = (await connection.execute(select(table).where(condition))).mappings()
        snapshot[table.name] = [dict(row) for row in found]
    return snapshot


def encode(snapshot: Snapshot) -> str:
    """Return a snapshot as text."""
    return msgspec.json.encode(snapshot).decode()


def decode(text: str) -> Snapshot:
    """Return the snapshot in a text."""
    return _DECODER.decode(text)


async def put_back(
    connection: AsyncConnection, snapshot: Snapshot, table: Table, **changed: object
) -> None:
    """Add the rows of a table again, with other values for the columns in `changed`."""
    await add_rows(connection, table, snapshot.get(table.name, ()), **changed)


async def add_rows(
    connection: AsyncConnection,
    table: Table,
    rows: Iterable[Mapping[str, object]],
    **changed: object,
) -> None:
    """Add rows to a table as they were, as far as it has their columns."""
    known = [{name: value for name, value in row.items() if name in table.c} for row in rows]
    if known:
        await connection.execute(insert(table), [{**row, **changed} for row in known])
