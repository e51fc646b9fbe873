"""The row of one video, locked and changed with a new version, and the rows of its resolutions.

Each function runs within the caller's transaction.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.schema.tables import video_resolutions, videos
from storage.leases import Lease, LeaseLost


async def lock(
    connection: AsyncConnection, video: int
) -> Row[Any] | None:  # Any: the row of a whole table has no static type
    """Lock a video's row and return it; None if there is no such video."""
    query = select(videos).where(videos.c.id == video).with_for_update()
    return (await connection.execute(query)).one_or_none()


async def lock_for_job(connection: AsyncConnection, job: Lease) -> Row[Any]:  # Any: as above
    """Lock the row of a job's or span's video and return it.

    Raises:
        LeaseLost: there is no such video any more.
    """
    row = await lock(connection, job.subject)
    if row is None:
        raise LeaseLost(job)
    return row


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


async def plan_resolutions(
    connection: AsyncConnection, video: int, planned: Iterable[tuple[int, int, int]]
) -> None:
    """Replace a video's resolutions by planned ones: number, width and height of each."""
    old = delete(video_resolutions).where(video_resolutions.c.video_id == video)
    await connection.execute(old)
    new = [
        {
            "video_id": video,
            "number": number,
            "width": width,
            "height": height,
            "transcoded": False,
            "size": 0,
            "transcode_seconds": 0,
        }
        for number, width, height in planned
    ]
    if new:
        await connection.execute(insert(video_resolutions), new)
