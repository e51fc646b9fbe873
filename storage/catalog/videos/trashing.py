"""A deleted video on its way to the trash, with all rows that end with it.

`storage.catalog.trash` restores it. Each function runs within the caller's transaction.
"""

from typing import Any, Final

from sqlalchemy import Row, delete, select

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries import snapshots, trash_rows
from storage.catalog.queries.trash_rows import DeletedRecord
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import jobs, video_resolutions, video_tags, videos
from storage.catalog.schema.upload_tables import imports, recorded_times, trash, upload_links

# The tables whose rows refer to a video and end with it, apart from those of its work.
DEPENDENTS: Final = (video_resolutions, video_tags, recorded_times, imports, upload_links)
_UPLOADING: Final = "uploading"


async def keep(
    connection: AsyncConnection,
    row: Row[Any],  # Any: the row of a whole table has no static type
    change: Change,
) -> bool:
    """Put a video, whose row is locked, into the trash before its rows are removed.

    Returns False if there is nothing to restore: its file has not arrived, and will not. Of its
    work the kinds are kept: it begins anew.
    """
    of_video = [(table, table.c.video_id == row.id) for table in DEPENDENTS]
    snapshot = await snapshots.take(connection, [(videos, videos.c.id == row.id), *of_video])
    if row.state == _UPLOADING and not snapshot[imports.name]:
        return False
    work = select(jobs.c.kind, jobs.c.attempt).where(jobs.c.video_id == row.id)
    snapshot[jobs.name] = [dict(each) for each in (await connection.execute(work)).mappings()]
    files = await snapshots.take(connection, [(trash, trash_rows.files_of(row.id))])
    size = row.storage_size + (0 if row.source is None else row.size)
    deleted = DeletedRecord(
        kind="video",
        project=row.project_id,
        record=row.id,
        hash=row.hash,
        title=row.file_title if row.title is None else row.title,
        size=size + sum(each["size"] for each in files[trash.name]),
        rows=snapshot | files,
    )
    await drop_files(connection, row.id)
    await trash_rows.add(connection, deleted, change)
    return True


async def drop_files(connection: AsyncConnection, video: int) -> None:
    """Remove the rows of the files that a video had: they end with it."""
    await connection.execute(delete(trash).where(trash_rows.files_of(video)))
