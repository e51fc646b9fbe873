"""What a migration leaves to be done beside running processes, a little at a time.

A step is one transaction, which a start and other processes wait for, so it only does what takes
milliseconds. What takes longer the more rows there are is found here by comparing the database with
`storage.catalog.schema`, and done in short transactions while the service runs: indexes that are
missing, numbers that are narrower than they should be (`storage.catalog.migrations.widening`), and
texts that cannot be searched without accents yet. It can be interrupted anywhere, and goes on at
the next start; until then all works, if more slowly.

Indexes are created CONCURRENTLY on PostgreSQL. One that was interrupted is left behind INVALID:
written, but not read. It is dropped and made again.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from sqlalchemy import Connection, Index, Table, bindparam, func, select, text, update
from sqlalchemy.schema import CreateIndex

from storage.catalog.engine.database import Database
from storage.catalog.migrations import widening
from storage.catalog.queries import text_search
from storage.catalog.schema.tables import METADATA, categories, players, streams, tags, videos
from storage.errors import CatalogError

log = logging.getLogger(__name__)

# One process at a time finishes; the others do not wait for it.
_FINISHING_LOCK: Final = 0x48454149
_PAUSE_SECONDS: Final = 600.0  # until what could not be done is tried again
# An index waits for the transactions that began before it, such as a backup.
_WAIT_MS: Final = 60_000
_AT_ONCE: Final = 500  # rows
_SEARCHED: Final = (
    (streams, "title"),
    (videos, "title"),
    (tags, "name"),
    (categories, "name"),
    (players, "name"),
)
_VALID_INDEXES: Final = text("""
    SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indisvalid AND relnamespace = current_schema()::regnamespace""")
_SQLITE_INDEXES: Final = text("SELECT name FROM sqlite_master WHERE type = 'index'")


def _missing_indexes(connection: Connection) -> list[Index]:
    is_postgres = connection.dialect.name == "postgresql"
    query = _VALID_INDEXES if is_postgres else _SQLITE_INDEXES
    present = set(connection.execute(query).scalars())
    indexes = [index for table in METADATA.sorted_tables for index in table.indexes]
    missing = (index for index in indexes if index.name not in present)
    return sorted(missing, key=lambda index: str(index.name))


def find_unfinished(connection: Connection) -> tuple[str, ...]:
    """Return what is still to be done to the tables, as names of indexes and columns."""
    narrow = (f"{table}.{column}" for table, column in widening.find_narrow(connection))
    return (*narrow, *(str(index.name) for index in _missing_indexes(connection)))


def create_missing_indexes(connection: Connection) -> None:
    """Create the indexes that are missing, within the caller's transaction; SQLite's alone."""
    if connection.dialect.name == "sqlite":
        for index in _missing_indexes(connection):
            index.create(connection)


async def keep_finishing(database: Database, pause: float = _PAUSE_SECONDS) -> None:
    """Do what is still to be done, and again every `pause` seconds until nothing is.

    Raises:
        CatalogError: the database did not answer.
    """
    while True:
        if await finish(database):
            return
        await asyncio.sleep(pause)


async def finish(database: Database) -> bool:
    """Do what is still to be done; return whether all of it is.

    Raises:
        CatalogError: the database did not answer.
    """
    await _fill(database)
    if not database.is_shared:
        return True
    async with database.statement_by_statement() as connection:
        lock = select(func.pg_try_advisory_lock(_FINISHING_LOCK))
        if not (await connection.execute(lock)).scalar_one():
            return False
        narrow = await connection.run_sync(widening.find_narrow)
        for table in dict.fromkeys(table for table, _ in narrow):
            await _tried(f"the numbers of {table}", widening.widen(database, table))
        for index in await connection.run_sync(_missing_indexes):
            await _tried(f"the index {index.name}", _create_beside(database, index))
        return not await connection.run_sync(find_unfinished)


async def _tried(what: str, work: Coroutine[None, None, None]) -> None:
    """Do a part of the work; whatever the server says, Headend works without it."""
    log.info("changing the catalog beside running processes", extra={"part": what})
    try:
        await work
    except CatalogError as error:
        facts = {"part": what, "reason": str(error)}
        log.warning("a change of the catalog is tried again later", extra=facts)


async def _create_beside(database: Database, index: Index) -> None:
    async with database.statement_by_statement() as connection:
        await connection.execute(text(f"SET lock_timeout = {_WAIT_MS}"))
        await connection.execute(text(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}"))
        statement = str(CreateIndex(index).compile(dialect=connection.dialect))
        beside = statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)
        await connection.execute(text(beside))


async def _fill(database: Database) -> None:
    """Make all texts searchable, those included that an older version has written meanwhile."""
    for table, column in _SEARCHED:
        last = 0
        while last is not None:
            last = await _fill_some(database, table, column, last)


async def _fill_some(database: Database, table: Table, column: str, last: int) -> int | None:
    """Make some rows after number `last` searchable; return the last one's number, if any."""
    folded = table.c[f"{column}_fold"]
    stale = text_search.is_stale(table, column, is_postgres=database.is_shared)
    query = select(table.c.id, folded).where(stale, table.c.id > last)
    async with database.reading_all() as connection:
        rows = (await connection.execute(query.order_by(table.c.id).limit(_AT_ONCE))).all()
    if not rows:
        return None
    change = (
        update(table)
        .where(table.c.id == bindparam("of"), folded == bindparam("text"))
        .values({f"{column}_plain": bindparam("plain")})
    )
    plain = [
        {"of": number, "text": text_, "plain": text_search.plain_form(text_)}
        for number, text_ in rows
    ]
    async with database.writing() as connection:
        await connection.execute(change, plain)
    return rows[-1].id
