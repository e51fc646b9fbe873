"""A video's file replaced by another: its number, its hash and its addresses stay.

What plays stays, too, until what is made of the new file takes its place in one transaction
(`storage.catalog.videos.transcoding.complete`). Runs within the caller's transaction.
"""

from typing import Final

from sqlalchemy import Row, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash
from storage.catalog.events import broadcast
from storage.catalog.events import log as event_log
from storage.catalog.queries import counters, named_rows
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.schema.tables import videos as table
from storage.catalog.schema.upload_tables import imports
from storage.catalog.videos import jobs, rows
from storage.catalog.videos import queries as video_queries
from storage.catalog.videos.creation import UPLOADING
from storage.errors import NoSuchVideo, UploadInProgress

__all__ = ["hold", "hold_of", "replace", "require"]

_ROW: Final = table.c
_IN_PROGRESS: Final = "inprogress"


async def hold(connection: AsyncConnection, video: int) -> Row[int, PublicHash, str] | None:
    """Hold a video's row; returns its project, its hash and its state, None where there is none.

    Who takes a link's or an upload's row too takes this one first, as a deletion does.
    """
    if video > named_rows.MAX_ID:
        return None
    asked = select(_ROW.project_id, _ROW.hash, _ROW.state).where(_ROW.id == video)
    return (await connection.execute(asked.with_for_update())).one_or_none()


async def hold_of(
    connection: AsyncConnection, project: int, video: int
) -> Row[int, PublicHash, str]:
    """Hold the row of a project's video, as `hold` does.

    Raises:
        NoSuchVideo: the project has no such video.
    """
    row = await hold(connection, video)
    if row is None or row.project_id != project:
        raise NoSuchVideo(video)
    return row


async def require(connection: AsyncConnection, project: int, video: int) -> PublicHash:
    """Hold a video of a project that may get another file; returns its hash.

    Raises:
        NoSuchVideo: the project has no such video.
        UploadInProgress: its first file is not there yet.
    """
    row = await hold_of(connection, project, video)
    if row.state == UPLOADING:
        raise UploadInProgress(video)
    return row.hash


async def replace(
    connection: AsyncConnection, video: int, file: VideoFile, now_us: int, *, by: int | None
) -> tuple[WholeVideo, str | None] | None:
    """Give a video the file at `file.source` instead of its own, and queue the job for it.

    A job that was at work on the old one ends: its workers find that they have lost it. Returns
    with the video the address of the old file, which nothing names any more; None: no such video.

    Raises:
        UploadInProgress: its first file is not there yet.
    """
    row = await rows.lock(connection, video)
    if row is None:
        return None
    if row.state == UPLOADING:
        raise UploadInProgress(video)
    await connection.execute(
        update(table)
        .where(_ROW.id == video)
        .values(
            source=file.source,
            generation=_ROW.generation + 1,
            size=file.size,
            length_us=file.length_us,
            width=file.width,
            height=file.height,
            state="queued",
            phase=_IN_PROGRESS,
            progress=0,
            eta=0,
            reason="",
            warnings="[]",
            uploaded_us=now_us,
            transcoding_us=None,
            completed_us=None,
            # What its owner uploads is no recording any more, and stays.
            expires_us=None,
            updated_us=now_us,
            version=_ROW.version + 1,
        )
    )
    # Where they are not known yet, the job will plan them.
    await rows.plan_resolutions(connection, video, file.rungs)
    # Where it could be fetched from is of no use any more, and may hold a secret.
    await connection.execute(delete(imports).where(imports.c.video_id == video))
    await jobs.enqueue(connection, video, now_us)
    facts = {"size": file.size, "generation": row.generation + 1}
    await event_log.record(
        connection, row.project_id, "video replaced", facts, now_us, subject=row.hash, by=by
    )
    await broadcast.enqueue_video(connection, video, "progress", now_us)
    counters.move_video(connection, row.project_id, row.phase, _IN_PROGRESS)
    return await video_queries.read(connection, video), row.source
