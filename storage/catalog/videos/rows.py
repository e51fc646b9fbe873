"""The row of one video: locked, and changed with a new version.

Each function runs within the caller's transaction.
"""

from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.schema.tables import videos

__all__ = ["change", "lock"]


async def lock(
    connection: AsyncConnection, video: int
) -> Row[Any] | None:  # Any: the row of a whole table has no static type
    """Lock a video's row and return it; None if there is no such video."""
    asked = select(videos).where(videos.c.id == video).with_for_update()
    return (await connection.execute(asked)).one_or_none()


async def change(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    now_us: int,
    values: dict[str, Any],  # Any: columns of every type
) -> None:
    """Change columns of a locked row; its version rises."""
    await connection.execute(
        update(videos)
        .where(videos.c.id == row.id)
        .values(version=videos.c.version + 1, updated_us=now_us, **values)
    )
