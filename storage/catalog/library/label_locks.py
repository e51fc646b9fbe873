"""The lock that precedes changing or deleting a tag, a category or a player.

The order is that of `storage.catalog.engine.lock_order`.
"""

from sqlalchemy import Table, select

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.schema.tables import projects


async def lock_project(connection: AsyncConnection, table: Table, label: int) -> None:
    """Lock the project of a row of `table` against deletion; nothing if there is no such row.

    The event of the change locks the project, too, but after the row; a deletion of the project
    locks it before the row. Runs within the caller's transaction.
    """
    project = select(table.c.project_id).where(table.c.id == label).scalar_subquery()
    query = select(projects.c.id).where(projects.c.id == project)
    await connection.execute(query.with_for_update(read=True, key_share=True))
