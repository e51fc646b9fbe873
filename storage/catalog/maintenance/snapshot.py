"""Copies a catalog, as it is at one moment, into a file of SQLite, without holding up a writer.

A file is copied by SQLite's own backup, in one step: in WAL a reader blocks no writer. A database
of PostgreSQL is read in one transaction that sees the state of its beginning (REPEATABLE READ), and
becomes a file, too: a backup is then read by the same code, can be looked at without a server, and
can be restored to either, by any version of the server and without its tools. Hosts and the owners
of streams are left out of such a file, as where a file is moved to PostgreSQL (`copying`).
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, func, insert, select, text

from storage.catalog import migrations
from storage.catalog.engine import sqlite
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.maintenance.copying import NOT_COPIED, read_batches
from storage.catalog.schema.tables import METADATA


async def snapshot_catalog(location: str | Path, path: Path) -> None:
    """Copy the catalog at `location` to a new file.

    Raises:
        SchemaMismatch: a database of PostgreSQL has another form than this version needs.
        CatalogError: the catalog does not answer, or the file cannot be written.
    """
    url = database_url(location)
    try:
        if url.get_backend_name() == "sqlite":
            await asyncio.to_thread(_copy_file, Path(url.database or ""), path)
        else:
            await _export(url, path)
            await asyncio.to_thread(_close_log, path)
    except sqlite3.Error as error:
        raise sqlite.translation(error, lost=False) from error


def check_file(path: Path) -> list[str]:
    """Return what SQLite finds wrong with a file; it blocks."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            found = connection.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.DatabaseError as error:
            return [str(error)]
    return [str(row[0]) for row in found if row[0] != "ok"]


def _copy_file(source: Path, path: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as origin,
        closing(sqlite3.connect(path)) as copy,
    ):
        origin.backup(copy)
    _close_log(path)


def _close_log(path: Path) -> None:
    """Have one file hold all of it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")


async def _export(url: URL, path: Path) -> None:
    async with (
        open_database(url, create=False) as origin,
        open_database(database_url(path), create=True) as copy,
    ):
        await migrations.check(origin, exactly=True)
        # Neither has a time limit.
        async with origin.statement_by_statement() as reader, copy.migrating() as writer:
            await writer.run_sync(migrations.migrate_within, copy.location)
            await reader.execute(text("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            for table in METADATA.sorted_tables:
                if table in NOT_COPIED:
                    continue
                async for rows in read_batches(reader, table):
                    await writer.execute(insert(table), rows)
                if "id" in table.c:
                    await _continue_numbering(reader, writer, table.name)
            await reader.execute(text("COMMIT"))


async def _continue_numbering(reader: AsyncConnection, writer: AsyncConnection, table: str) -> None:
    """Let no number be given again that the database has given (see `copying`)."""
    query = select(func.pg_get_serial_sequence(table, "id"))
    sequence = (await reader.execute(query)).scalar()
    if not sequence:
        return
    # The server has quoted the name.
    last = text(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}")  # noqa: S608
    values = {"name": table, "last": (await reader.execute(last)).scalar_one()}
    for statement in (
        "DELETE FROM sqlite_sequence WHERE name = :name",
        "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)",
    ):
        await writer.execute(text(statement), values)
