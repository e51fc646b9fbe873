"""The locks that precede changing or deleting a tag, a category or a player.

The order is that of `storage.catalog.engine.lock_order`. Each function runs within the caller's
transaction.
"""

from typing import Literal

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.schema.tables import projects, streams, videos

__all__ = ["lock_project", "lock_records"]


async def lock_project(connection: AsyncConnection, table: Table, label: int) -> None:
    """Lock the project of a row of `table` against deletion; nothing if there is no such row.

    The event of the change locks the project, too, but after the row; a deletion of the project
    locks it before the row.
    """
    project = select(table.c.project_id).where(table.c.id == label).scalar_subquery()
    query = select(projects.c.id).where(projects.c.id == project)
    await connection.execute(query.with_for_update(read=True, key_share=True))


async def lock_records(
    connection: AsyncConnection, column: Literal["category_id", "player_id"], label: int
) -> None:
    """Lock the streams and videos that have a category or a player.

    Its deletion clears their columns. A transaction that changes one of them holds that row when it
    locks the category or player.
    """
    for table in (streams, videos):
        having = select(table.c.id).where(table.c[column] == label).order_by(table.c.id)
        await connection.execute(having.with_for_update(key_share=True))
