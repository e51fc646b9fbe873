"""Locks of a whole database of PostgreSQL, in statements that need no driver of it.

Every connection of a running Headend holds the lock `SCHEMA_LOCK` shared, which prevents a
migration of the tables. The server releases it with the connection.
"""

from typing import Final

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from storage.catalog.engine.connection import AsyncConnection
from storage.errors import CatalogBusy

# Advisory locks: shared by all users of the schema, and held while checking whether to migrate it.
SCHEMA_LOCK: Final = 0x48454146
MIGRATION_LOCK: Final = 0x48454147
NOT_AVAILABLE: Final = "55P03"  # SQLSTATE: a lock was not available in time

# Only the server's user may end sessions of others; their `state` is hidden from this one.
_END_WAITING: Final = text("""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (state = 'idle' OR state = 'active' AND wait_event_type = 'Lock') AND pid IN (
        SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = :schema_lock
    )""")


async def end_waiting_sessions(connection: AsyncConnection) -> None:
    """End the sessions of running processes that do nothing, or wait for a lock.

    For the end of a transaction that has changed the type of a column: what a session has prepared
    that returns it fails once. Processes replace sessions that were idle unnoticed, and take the
    end of others for a restart of the server, which they survive.
    """
    await connection.execute(_END_WAITING, {"schema_lock": SCHEMA_LOCK})


async def lock_first_start(connection: AsyncConnection) -> None:
    """Lock the initialization of an empty catalog; SQLite's write lock is enough for that."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))


def lock_schema(connection: Connection, location: str) -> None:
    """Lock the schema exclusively until the end of the transaction; SQLite's write lock does that.

    Raises:
        CatalogBusy: a running Headend uses it.
    """
    if connection.dialect.name != "postgresql":
        return
    try:
        connection.execute(select(func.pg_advisory_xact_lock(SCHEMA_LOCK)))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != NOT_AVAILABLE:
            raise
        raise CatalogBusy(
            f"the catalog at {location} cannot be migrated while another Headend uses it: stop that"
            " first"
        ) from error
