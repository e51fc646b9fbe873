"""Takes a category or a player from the streams and videos that have it, in batches.

Its deletion does the same to what is left, all at once. On PostgreSQL an edit of one of 150 000
videos would wait for that for ten seconds, and be refused then; on SQLite every writer would wait
for one. (A tag's links to as many videos are deleted in half a second, or less.)

A process that dies in between leaves a label that some records have lost.
"""

from typing import Final, Literal

from sqlalchemy import select, update

from storage.catalog.engine.database import Database
from storage.catalog.schema.tables import streams, videos

__all__ = ["clear"]

_AT_ONCE: Final = 500  # 40 ms on PostgreSQL, 10 ms on SQLite


async def clear(
    database: Database, column: Literal["category_id", "player_id"], label: int
) -> None:
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
