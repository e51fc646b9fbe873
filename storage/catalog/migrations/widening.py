"""Makes numbers of 31 bits wider on PostgreSQL, while processes use the tables.

SQLite's are of 64 bits. PostgreSQL writes a table anew to change the type of a column, and nothing
reads it meanwhile: 12 s for 2 million events. Most tables are queues with a few rows, and are
changed in place. The rows of `events` are copied to a table beside it, to which a trigger brings
what changes meanwhile, and at last the new table takes its place.

Each transaction waits for a lock for half a second at most, since all others wait behind it, and is
tried again later. An interrupted copy goes on later; one that a step of another version finds is
removed, since the tables may differ from then on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import BigInteger, Connection, TextClause, text

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Database
from storage.catalog.engine.postgres_locks import end_waiting_sessions
from storage.catalog.schema.tables import METADATA, events
from storage.errors import CatalogBusy, CatalogError

_COPIED: Final = events.name
_AT_ONCE: Final = 5_000  # rows; 50 ms
# Less than `deadlock_timeout` (1 s): of two that wait for each other, this one gives way.
_LOCK_MS: Final = 500
_PAUSES: Final = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0)  # seconds before each try
_NARROW: Final = text("""
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND data_type = 'integer'""")

T = TypeVar("T")


def find_narrow(connection: Connection) -> list[tuple[str, str]]:
    """Return the tables and columns that hold 31 bits and should hold 63, in order."""
    if connection.dialect.name != "postgresql":
        return []
    narrow = {(row.table_name, row.column_name) for row in connection.execute(_NARROW)}
    columns = (column for table in METADATA.sorted_tables for column in table.columns)
    return [
        (column.table.name, column.name)
        for column in columns
        if isinstance(column.type, BigInteger) and (column.table.name, column.name) in narrow
    ]


async def widen(database: Database, table: str) -> None:
    """Widen the numbers of a table, and the sequence that gives them.

    Raises:
        CatalogBusy: others kept using it; it is as it was.
        CatalogError: the database did not answer, or refused.
    """
    if table == _COPIED:
        await _patiently(database, _begin_copy)
        await _copy_rows(database)
        await _patiently(database, _swap)
    else:
        await _patiently(database, lambda connection: _widen_in_place(connection, table))


async def _patiently(database: Database, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Work in a transaction, and try again while others hold what it needs."""
    for number, pause in enumerate(_PAUSES, 1):
        await asyncio.sleep(pause)
        try:
            async with database.migrating() as connection:
                await connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MS}"))
                return await work(connection)
        except CatalogBusy:
            if number == len(_PAUSES):
                raise
    raise AssertionError("there are pauses")


async def _sequence_of(connection: AsyncConnection, table: str) -> str:
    query = text(f"SELECT pg_get_serial_sequence('{table}', 'id')")
    return str((await connection.execute(query)).scalar_one())


async def _widen_in_place(connection: AsyncConnection, table: str) -> None:
    narrow = await connection.run_sync(find_narrow)
    columns = [column for each, column in narrow if each == table]
    changes = ", ".join(f"ALTER COLUMN {column} TYPE bigint" for column in columns)
    await connection.execute(text(f"ALTER TABLE {table} {changes}"))
    sequence = await _sequence_of(connection, table)
    await connection.execute(text(f"ALTER SEQUENCE {sequence} AS bigint"))
    await end_waiting_sessions(connection)


# -- events ---------------------------------------------------------------------------------------

# What the new table and its indexes are called until it takes the place of the old one.
_BESIDE: Final = "wide_events"
_MIRROR: Final = """
    CREATE FUNCTION wide_events() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP <> 'INSERT' THEN DELETE FROM wide_events WHERE id = OLD.id; END IF;
        IF TG_OP <> 'DELETE' THEN INSERT INTO wide_events SELECT NEW.*; END IF;
        RETURN NULL;
    END $$"""
# The owner and the rights of other roles, as an operator gave them.
_RIGHTS: Final = """
    DO $$ DECLARE given record; BEGIN
        EXECUTE format('ALTER TABLE wide_events OWNER TO %I', (
            SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'events'::regclass));
        FOR given IN SELECT privilege_type, grantee
            FROM pg_class, aclexplode(relacl) WHERE oid = 'events'::regclass
        LOOP
            EXECUTE format('GRANT %s ON wide_events TO %s', given.privilege_type,
                CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
        END LOOP;
    END $$"""
# Locked, so that none is copied while it is being deleted.
_COPY: Final = text("""
    WITH batch AS (
        SELECT * FROM events WHERE id > :last
        AND NOT EXISTS (SELECT FROM wide_events WHERE wide_events.id = events.id)
        ORDER BY id LIMIT :most FOR KEY SHARE
    ), copied AS (INSERT INTO wide_events SELECT * FROM batch ON CONFLICT DO NOTHING)
    SELECT max(id) FROM batch""")
_BEGUN: Final = text("SELECT to_regclass('wide_events')")
_NEWEST: Final = text("SELECT max(id) FROM events")
_BOTH: Final = text("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM wide_events)")


def abandon(connection: Connection) -> None:
    """Remove a copy that was begun, within the caller's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"DROP FUNCTION IF EXISTS {_BESIDE}() CASCADE"))  # and its trigger
        connection.execute(text(f"DROP TABLE IF EXISTS {_BESIDE}"))


async def _begin_copy(connection: AsyncConnection) -> None:
    """Create the table beside, and the trigger that keeps it right, unless they are there."""
    if (await connection.execute(_BEGUN)).scalar_one() is not None:
        return
    for statement in (
        f"CREATE TABLE {_BESIDE} (LIKE events INCLUDING DEFAULTS)",
        f"ALTER TABLE {_BESIDE} ALTER COLUMN id TYPE bigint",
        f"ALTER TABLE {_BESIDE} ADD CONSTRAINT wide_pk_events PRIMARY KEY (id)",
        f"ALTER TABLE {_BESIDE} ADD CONSTRAINT wide_fk_events_project_id"
        " FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE",
        *(
            f"CREATE INDEX wide_{index.name} ON {_BESIDE}"
            f" ({', '.join(column.name for column in index.columns)})"
            for index in events.indexes
        ),
        _MIRROR,
        # Waits for the writers before it: all that they wrote can be seen from then on.
        f"CREATE TRIGGER {_BESIDE} AFTER INSERT OR UPDATE OR DELETE ON events"
        f" FOR EACH ROW EXECUTE FUNCTION {_BESIDE}()",
    ):
        await connection.execute(text(statement))


async def _copy_rows(database: Database) -> None:
    newest = await _patiently(database, partial(_number, query=_NEWEST, facts={}))
    last = 0
    while last < newest:
        facts = {"last": last, "most": _AT_ONCE}
        last = await _patiently(database, partial(_number, query=_COPY, facts=facts)) or newest


async def _number(connection: AsyncConnection, query: TextClause, facts: dict[str, int]) -> int:
    return (await connection.execute(query, facts)).scalar_one() or 0


async def _swap(connection: AsyncConnection) -> None:
    """Let the new table take the place of the old one."""
    execute = connection.execute
    await execute(text("LOCK TABLE projects, events IN ACCESS EXCLUSIVE MODE"))
    old, new = (await execute(_BOTH)).one()
    if old != new:
        raise CatalogError(f"of {old} events {new} were copied")
    sequence = await _sequence_of(connection, "events")
    for statement in (
        _RIGHTS,
        f"ALTER SEQUENCE {sequence} OWNED BY {_BESIDE}.id",
        "DROP TABLE events",
        f"DROP FUNCTION {_BESIDE}()",
        f"ALTER TABLE {_BESIDE} RENAME TO events",
        f"ALTER SEQUENCE {sequence} AS bigint",
        *(
            f"ALTER TABLE events RENAME CONSTRAINT wide_{name} TO {name}"
            for name in ("pk_events", "fk_events_project_id")
        ),
        *(f"ALTER INDEX wide_{index.name} RENAME TO {index.name}" for index in events.indexes),
        "ANALYZE events",
    ):
        await execute(text(statement))
    await end_waiting_sessions(connection)
