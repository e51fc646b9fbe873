"""Deletes a tag, a category or a player, from the streams and videos that have it as well.

A category or a player is first taken from its records in batches. On PostgreSQL an edit of one of
150 000 videos would wait for ten seconds for all at once, and be refused then; on SQLite every
writer would wait for one. (A tag's links to as many videos are deleted in half a second, or less.)

A process that dies in between leaves a label that some records have lost.
"""

from typing import Final, Literal

from sqlalchemy import Table, delete, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Database
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import LABEL_EVENTS
from storage.catalog.library import label_locks
from storage.catalog.queries import counters
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import streams, videos
from storage.errors import CatalogBusy

_AT_ONCE: Final = 500  # 40 ms on PostgreSQL, 10 ms on SQLite
# Each further try means that a record which got the label meanwhile was being changed.
_TRIES: Final = 20

_Column = Literal["category_id", "player_id"]


async def remove(
    database: Database,
    kind: Literal["tag", "category", "player"],
    table: Table,
    label: int,
    change: Change,
    *,
    column: _Column | None,
) -> bool:
    """Delete the label; return False if there is none.

    `column` is that of the streams and videos that have it, or None for a tag.

    Raises:
        CatalogBusy: records keep getting it, and being changed.
    """
    for _ in range(_TRIES):
        if column is not None:
            await _clear(database, column, label)
        async with database.writing() as connection:
            await label_locks.lock_project(connection, table, label)
            if column is not None and not await _take_rest(connection, table, column, label):
                continue
            deleted = delete(table).where(table.c.id == label)
            deleted = deleted.returning(table.c.project_id, table.c.name)
            row = (await connection.execute(deleted)).one_or_none()
            if row is None:
                return False
            project, name = row
            counters.add(connection, project, table.name, -1)
            event = LABEL_EVENTS[kind].deleted(label=label, name=name)
            await announce(connection, project, "", event, change=change)
            return True
    raise CatalogBusy(f"streams and videos keep getting the {kind}")


async def _clear(database: Database, column: _Column, label: int) -> None:
    """Clear the column of all streams and videos that have that category or player.

    Versions stay as they are, as with the deletion itself. Records that get it behind the present
    batch are left out: so this ends.
    """
    for table in (streams, videos):
        after = 0
        while True:
            having = select(table.c.id).where(table.c[column] == label, table.c.id > after)
            # Locked in the usual order (`storage.catalog.engine.lock_order`).
            some = having.order_by(table.c.id).limit(_AT_ONCE).with_for_update(key_share=True)
            async with database.writing() as connection:
                numbers = (await connection.execute(some)).scalars().all()
                if numbers:
                    cleared = update(table).where(table.c.id.in_(numbers))
                    await connection.execute(cleared.values({column: None}))
            if not numbers:
                break
            after = numbers[-1]


async def _take_rest(
    connection: AsyncConnection, table: Table, column: _Column, label: int
) -> bool:
    """Lock a category or a player, and clear the records that got it since they were cleared.

    Return False if some have it still. Their rows may be held by transactions that wait for the
    category, so they are not waited for, as its deletion would.
    """
    await connection.execute(select(table.c.id).where(table.c.id == label).with_for_update())
    for records in (streams, videos):
        having = select(records.c.id).where(records.c[column] == label)
        some = having.order_by(records.c.id).limit(_AT_ONCE)
        free = some.with_for_update(key_share=True, skip_locked=True)
        numbers = (await connection.execute(free)).scalars().all()
        if numbers:
            cleared = update(records).where(records.c.id.in_(numbers))
            await connection.execute(cleared.values({column: None}))
        if (await connection.execute(having.limit(1))).first() is not None:
            return False
    return True
