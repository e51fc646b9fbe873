"""Copies a whole catalog from a file of SQLite into an empty database of PostgreSQL.

Rows keep their numbers, and so do the media that they reference and the installation key. Numbers
that were given once are not given again in the copy either. Hosts and the owners of streams are not
copied. It is one transaction: the target has the whole catalog, or nothing of it. A copy that was
made before, by a process that did not live to say so, is recognized by its key and by every row.
"""

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
from sqlalchemy import (
    Connection,
    Table,
    func,
    insert,
    inspect,
    literal,
    or_,
    select,
    table,
    text,
    tuple_,
)
from sqlalchemy.exc import DBAPIError

from storage.catalog import migrations
from storage.catalog.engine import postgres, sqlite
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import BUSY_MS, Database, database_url, open_database
from storage.catalog.engine.postgres_locks import lock_schema
from storage.catalog.schema.tables import (
    METADATA,
    hosts,
    installation,
    store_claims,
    stream_owners,
    streams,
)
from storage.errors import CatalogError, CatalogNotEmpty, CopyOutdated

# Of processes that ran on the old database.
NOT_COPIED: Final = (hosts, stream_owners)
# A run that is open meanwhile counts as left by a host that is gone (there is none with that
# number). Which streams have one is not known here: any that was ever live may.
_ORPHANED_STREAMS: Final = insert(stream_owners).from_select(
    ("stream_id", "host_id", "generation", "taken_us"),
    select(streams.c.id, literal(0), literal(0), literal(0)).where(
        or_(streams.c.published_us.is_not(None), streams.c.hidden)
    ),
)
_Row = dict[str, Any]  # Any: columns of any type
_AT_ONCE: Final = 1000  # rows; those of the widest table take 2 MB


class CatalogCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy: the target's address without a password, and the number of its rows.

    `was_there`: it was made before, and nothing was changed since.
    """

    location: str
    rows: int
    was_there: bool = False


async def copy_catalog(source: Path, target: str, *, busy_ms: int = BUSY_MS) -> CatalogCopy:
    """Copy the catalog in a file of SQLite to the database of PostgreSQL with that URL.

    Nothing may use either meanwhile: the file's write lock and the tables are held. `busy_ms` is
    how long to wait for other processes.

    Raises:
        SchemaMismatch: the source has another form than this code needs, or none.
        CatalogNotEmpty: the target holds rows, and they are not those of the source; nothing was
            changed. `CopyOutdated` if it was copied before.
        CatalogError: one of them cannot be used; nothing was changed.
    """
    url = database_url(target)
    if url.get_backend_name() != "postgresql":
        raise CatalogError(
            "a catalog is copied to PostgreSQL: postgresql://USER:PASSWORD@HOST/NAME"
        )
    async with (
        open_database(database_url(source), create=False, busy_ms=busy_ms) as origin,
        open_database(url, create=True, busy_ms=busy_ms) as copy,
    ):
        await migrations.check(origin, exactly=True)
        # Transactions without a time limit.
        async with origin.migrating() as reader, copy.migrating() as writer:
            try:
                await _prepare(writer, copy)
            except CatalogNotEmpty:
                if not await _has_copy(reader, writer):
                    raise
                rows = await _count_same(reader, writer, CopyOutdated(copy.location, str(source)))
                return CatalogCopy(location=copy.location, rows=rows, was_there=True)
            return CatalogCopy(location=copy.location, rows=await _copy(reader, writer))


async def find_installation(location: str) -> str | None:
    """Return the installation key in a database of PostgreSQL; None if it has no rows.

    Raises:
        CatalogError: it cannot be used.
    """
    async with (
        open_database(database_url(location), create=False) as database,
        database.migrating() as connection,
    ):
        names = await connection.run_sync(lambda each: inspect(each).get_table_names())
        if installation.name in names:
            key = (await connection.execute(select(installation.c.key))).scalar_one_or_none()
            if key is not None:
                return key
        for name in names:
            rows = select(literal(1)).select_from(table(name))
            if name != "alembic_version" and (await connection.execute(rows.limit(1))).first():
                return ""
    return None


async def _prepare(writer: AsyncConnection, copy: Database) -> None:
    """Create the tables of the target, which must hold no row."""
    await writer.run_sync(lock_schema, copy.location)
    for name in await writer.run_sync(lambda connection: inspect(connection).get_table_names()):
        rows = select(literal(1)).select_from(table(name))
        if name != "alembic_version" and (await writer.execute(rows.limit(1))).first():
            raise CatalogNotEmpty(copy.location)
    await writer.run_sync(migrations.migrate_within, copy.location)


async def _has_copy(reader: AsyncConnection, writer: AsyncConnection) -> bool:
    """Return whether the target, which holds rows, has the source's installation."""
    if await writer.run_sync(migrations.find_revision) != migrations.REVISION:
        return False
    key = select(installation.c.key)
    keys = [(await each.execute(key)).scalar_one_or_none() for each in (reader, writer)]
    return bool(keys[0]) and keys[0] == keys[1]


async def _count_same(
    reader: AsyncConnection, writer: AsyncConnection, differing: CopyOutdated
) -> int:
    """Return how many rows both have; raise `differing` if one has others."""
    same = 0
    for catalog_table in METADATA.sorted_tables:
        if catalog_table in NOT_COPIED:
            continue
        key = tuple_(*catalog_table.primary_key.columns)
        names = [column.name for column in catalog_table.primary_key.columns]
        count = select(func.count()).select_from(catalog_table)
        if catalog_table is store_claims:  # each may have renewed its lease of the media since
            same += (await reader.execute(count)).scalar_one()
            continue
        expected = 0
        async for rows in read_batches(reader, catalog_table):
            ours = {tuple(row[name] for name in names): _without_nul(row) for row in rows}
            # By their keys: the databases may order texts differently.
            query = select(catalog_table).where(key.in_(list(ours)))
            theirs = (await writer.execute(query)).mappings()
            if ours != {tuple(row[name] for name in names): dict(row) for row in theirs}:
                raise differing
            expected += len(rows)
        if (await writer.execute(count)).scalar_one() != expected:
            raise differing
        same += expected
    return same


async def _copy(reader: AsyncConnection, writer: AsyncConnection) -> int:
    copied = 0
    numbered = await reader.execute(text("SELECT name, seq FROM sqlite_sequence"))
    last_numbers: dict[str, int] = {row.name: row.seq for row in numbered}
    for catalog_table in METADATA.sorted_tables:
        if catalog_table in NOT_COPIED:
            continue
        number = await _copy_table(reader, writer, catalog_table)
        count = select(func.count()).select_from(catalog_table)
        expected = (await reader.execute(count)).scalar_one()
        if not number == expected == (await writer.execute(count)).scalar_one():
            raise CatalogError(
                f"{number} of the {expected} rows of {catalog_table.name} were copied"
            )
        await _continue_numbering(writer, catalog_table, last_numbers.get(catalog_table.name, 0))
        copied += number
    await writer.execute(_ORPHANED_STREAMS)
    return copied


async def _copy_table(
    reader: AsyncConnection, writer: AsyncConnection, catalog_table: Table
) -> int:
    """Copy a table's rows in the order of their keys; return how many."""
    copied = 0
    async for rows in read_batches(reader, catalog_table):
        await _insert(writer, catalog_table, rows, copied)
        copied += len(rows)
    return copied


async def read_batches(
    connection: AsyncConnection, catalog_table: Table
) -> AsyncGenerator[list[_Row], None]:
    """Yield a table's rows in the order of their keys.

    Raises:
        CatalogError: one of them cannot be read.
    """
    number = 0
    last: _Row | None = None
    while rows := await _read(connection, catalog_table, last, number):
        yield rows
        number += len(rows)
        last = rows[-1]


async def _read(
    reader: AsyncConnection, catalog_table: Table, last: _Row | None, copied: int
) -> list[_Row]:
    """Return the rows after `last`, which is the table's row number `copied`.

    Raises:
        CatalogError: one of them cannot be read.
    """
    try:
        return await _read_after(reader, catalog_table, last, _AT_ONCE)
    except (DBAPIError, sqlite3.Error) as error:
        with suppress(DBAPIError, sqlite3.Error):
            while rows := await _read_after(reader, catalog_table, last, 1):
                last, copied = rows[0], copied + 1
        place = f"the first row of {catalog_table.name}"
        if last is not None:
            place = f"the row after {_place(catalog_table, last, copied)}"
        raise CatalogError(f"{place} cannot be read: {_cause(error)}") from error


async def _read_after(
    reader: AsyncConnection, catalog_table: Table, last: _Row | None, most: int
) -> list[_Row]:
    columns = catalog_table.primary_key.columns
    query = select(catalog_table).order_by(*columns).limit(most)
    if last is not None:
        query = query.where(tuple_(*columns) > tuple(last[column.name] for column in columns))
    return [dict(row) for row in (await reader.execute(query)).mappings()]


async def _insert(
    writer: AsyncConnection, catalog_table: Table, rows: Sequence[_Row], copied: int
) -> None:
    """Insert the rows that follow a table's row number `copied`.

    Raises:
        CatalogError: the target refused one of them.
        DBAPIError: the connection was lost.
    """
    texts = [_without_nul(row) for row in rows]
    try:
        await writer.run_sync(_insert_whole, catalog_table, texts)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        await _insert_singly(writer, catalog_table, texts, copied)


def _insert_whole(connection: Connection, catalog_table: Table, rows: Sequence[_Row]) -> None:
    """Insert all rows or, if the target refuses one, none."""
    with connection.begin_nested():
        connection.execute(insert(catalog_table), rows)


async def _insert_singly(
    writer: AsyncConnection, catalog_table: Table, rows: Sequence[_Row], copied: int
) -> None:
    for position, row in enumerate(rows, copied + 1):
        try:
            await writer.run_sync(_insert_whole, catalog_table, [row])
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            postgres.hide_values(error)
            place = _place(catalog_table, row, position)
            raise CatalogError(f"{place} cannot be copied: {_cause(error)}") from error


def _cause(error: DBAPIError | sqlite3.Error) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    kind = postgres if isinstance(original, psycopg.Error) else sqlite
    return str(kind.translation(original, lost=False))


def _place(catalog_table: Table, row: _Row, position: int) -> str:
    """Name a row by its numbers, or by its position: other keys may be secret."""
    keys = [column.name for column in catalog_table.primary_key.columns]
    if all(isinstance(row[name], int) for name in keys):
        numbers = " and ".join(f"{each} {row[each]}" for each in keys)
        return f"the row of {catalog_table.name} with {numbers}"
    return f"row {position} of {catalog_table.name} in the order of its keys"


def _without_nul(values: _Row) -> _Row:
    """Return a row as PostgreSQL takes it, whose texts have no NUL."""
    return {
        name: value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
        for name, value in values.items()
    }


async def _continue_numbering(
    writer: AsyncConnection, catalog_table: Table, last_number: int
) -> None:
    """Let a table's next number be greater than any that was given."""
    if "id" in catalog_table.c and last_number:
        sequence = func.pg_get_serial_sequence(catalog_table.name, "id")
        await writer.execute(select(func.setval(sequence, last_number)))
