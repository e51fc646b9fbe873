"""The row of one video, added, locked, changed with a new version; the rows of its resolutions.

Each function runs within the caller's transaction.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Row, delete, insert, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries import counters
from storage.catalog.records.videos import Phase, VideoFile
from storage.catalog.schema.tables import video_resolutions, videos
from storage.leases import Lease, LeaseLost

# What the row of a video says of its file, and that of a former file, too.
_FILE_COLUMNS: Final = ("source", "size", "length_us", "width", "height")


def file_columns(
    file: VideoFile | Row[Any],  # Any: the row of a whole table has no static type
) -> dict[str, Any]:
    """Return the columns about a file, or about that of a row."""
    return {name: getattr(file, name) for name in _FILE_COLUMNS}


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


async def add(
    connection: AsyncConnection,
    project: int,
    now_us: int,
    *,
    phase: Phase,
    posters: str | None,
    labels: Sequence[str],
    **values: object,
) -> int:
    """Add a video with these columns, and count it; return its number."""
    row: dict[str, object] = {
        "project_id": project,
        "phase": phase,
        "eta": 0,
        "reason": "",
        "warnings": "[]",
        "created_us": now_us,
        "updated_us": now_us,
        "generation": 1,
        "posters": posters,
        "poster_labels": ",".join(labels),
        "image_us": None if posters is None else now_us,
    }
    statement = insert(videos).values(row | values).returning(videos.c.id)
    number = (await connection.execute(statement)).scalar_one()
    count(connection, project, phase, 1)
    return number


def count(connection: AsyncConnection, project: int, phase: str, number: int) -> None:
    """Count `number` more videos of a project, which are in that phase."""
    counters.add(connection, project, "videos", number)
    counters.add(connection, project, f"videos.{phase}", number)


async def plan_resolutions(
    connection: AsyncConnection, video: int, planned: Iterable[tuple[int, int, int]]
) -> None:
    """Replace a video's resolutions by planned ones: number, width and height of each."""
    old = delete(video_resolutions).where(video_resolutions.c.video_id == video)
    await connection.execute(old)
    await add_resolutions(connection, video, ((*each, 0) for each in planned), transcoded=False)


async def add_resolutions(
    connection: AsyncConnection,
    video: int,
    resolutions: Iterable[tuple[int, int, int, int]],
    *,
    transcoded: bool,
) -> None:
    """Add resolutions of a video: number, width, height and size of each."""
    new = [
        {
            "video_id": video,
            "number": number,
            "width": width,
            "height": height,
            "transcoded": transcoded,
            "size": size,
            "transcode_seconds": 0,
        }
        for number, width, height, size in resolutions
    ]
    if new:
        await connection.execute(insert(video_resolutions), new)
