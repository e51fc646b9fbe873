"""A video's file replaced by another: its number, its hash and its addresses stay.

What plays stays, too, until what is made of the new file takes its place in one transaction
(`storage.catalog.videos.transcoding.complete`). The former file is in the trash for some days
(`storage.catalog.videos.former_files`). Runs within the caller's transaction.
"""

from typing import Any, Final

from sqlalchemy import Row, delete, select, update

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import VideoFileTakenBackEvent, VideoReplacedEvent
from storage.catalog.queries import counters, named_rows, removals, trash_rows
from storage.catalog.queries.trash_rows import DeletedRecord
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.schema.tables import videos as table
from storage.catalog.schema.upload_tables import imports, trash
from storage.catalog.videos import jobs, past_files, rows
from storage.catalog.videos import queries as video_queries
from storage.catalog.videos.creation import UPLOADING
from storage.errors import NoSuchVideo, UploadInProgress

_ROW: Final = table.c
_IN_PROGRESS: Final = "inprogress"
FILES: Final = "files"
"""Under which name the trash has what is known of a file."""


async def lock(connection: AsyncConnection, video: int) -> Row[int, PublicHash, str] | None:
    """Lock a video's row; return its project, its hash and its state, None if there is none.

    It is locked before a link's or an upload's row, as by a deletion.
    """
    if video > named_rows.MAX_ID:
        return None
    query = select(_ROW.project_id, _ROW.hash, _ROW.state).where(_ROW.id == video)
    return (await connection.execute(query.with_for_update())).one_or_none()


async def lock_in_project(
    connection: AsyncConnection, project: int, video: int
) -> Row[int, PublicHash, str]:
    """Lock the row of a project's video, as `lock` does.

    Raises:
        NoSuchVideo: the project has no such video.
    """
    row = await lock(connection, video)
    if row is None or row.project_id != project:
        raise NoSuchVideo(video)
    return row


async def require(connection: AsyncConnection, project: int, video: int) -> None:
    """Lock a video of a project that may get another file.

    Raises:
        NoSuchVideo: the project has no such video.
        UploadInProgress: its first file has not arrived yet.
    """
    row = await lock_in_project(connection, project, video)
    if row.state == UPLOADING:
        raise UploadInProgress(video)


async def replace(
    connection: AsyncConnection,
    video: int,
    file: VideoFile,
    change: Change,
    *,
    taken_back: bool = False,
) -> tuple[WholeVideo, str | None] | None:
    """Replace a video's file by the one at `file.source`, and queue the job for it.

    A job at work on the old one ends, and its workers lose it. The old file goes to the trash.
    Returns the video and, if nothing is kept, the address of the old file, which nothing references
    any more; None if there is no such video. `taken_back`: the file is from the trash.

    Raises:
        UploadInProgress: its first file has not arrived yet.
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
            **rows.file_columns(file),
            generation=_ROW.generation + 1,
            state="queued",
            phase=_IN_PROGRESS,
            progress=0,
            eta=0,
            reason="",
            warnings="[]",
            uploaded_us=change.now_us,
            transcoding_us=None,
            completed_us=None,
            # What its owner uploads is no recording any more, and stays.
            expires_us=None,
            updated_us=change.now_us,
            version=_ROW.version + 1,
        )
    )
    await past_files.record(connection, row, change.now_us)
    # If they are not known yet, the job will plan them.
    await rows.plan_resolutions(connection, video, file.rungs)
    # The URL that it could be fetched from is not needed any more, and may hold a secret.
    await connection.execute(delete(imports).where(imports.c.video_id == video))
    dropped = await _keep_former(connection, row, file.source, change)
    await jobs.enqueue(connection, video, change.now_us)
    event_type = VideoFileTakenBackEvent if taken_back else VideoReplacedEvent
    event = event_type(size=file.size, generation=row.generation + 1)
    await announce(connection, row.project_id, row.hash, event, change=change)
    counters.move_video(connection, row.project_id, row.phase, _IN_PROGRESS)
    return await video_queries.read(connection, video), dropped


async def _keep_former(
    connection: AsyncConnection,
    row: Row[Any],  # Any: the row of a whole table has no static type
    source: str,
    change: Change,
) -> str | None:
    """Put the file of a locked video's row into the trash, as `source` takes its place.

    If that was there, it is so no more. If nothing is kept, the address of the old file is
    returned, unless a backup holds it, and it is recorded that it is to be deleted. A recording has
    no file.
    """
    taken_back = trash_rows.files_of(row.id) & (trash.c.source == source)
    await connection.execute(delete(trash).where(taken_back))
    if row.source is None:
        return None
    if change.keep_us:
        await trash_rows.add(connection, former_file(row), change)
        return None
    await removals.record(connection, objects=[row.source])
    return None if await removals.are_held(connection) else str(row.source)


def former_file(
    row: Row[Any],  # Any: as above
) -> DeletedRecord:
    """Return the file of a video's row as it goes to the trash."""
    return DeletedRecord(
        kind="file",
        project=row.project_id,
        record=row.id,
        hash=row.hash,
        title=row.file_title if row.title is None else row.title,
        size=row.size,
        rows={FILES: [rows.file_columns(row)]},
        source=row.source,
    )
