"""Videos whose files arrive: added in advance, or with their files.

A video is in the catalog from the moment that its file begins to arrive (`uploading`), or once its
file is whole. Each function runs within the caller's transaction.
"""

from typing import Final

from sqlalchemy import Row, select, update

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import BytesReceived, VideoAddedEvent, VideoState
from storage.catalog.library import labels
from storage.catalog.library.details import columns_of
from storage.catalog.queries import project_lookup
from storage.catalog.records.common import Change
from storage.catalog.records.details import Edit, VideoDetails
from storage.catalog.records.videos import NewVideo, VideoFile, WholeVideo
from storage.catalog.schema.tables import videos as table
from storage.catalog.videos import jobs, rows
from storage.catalog.videos import queries as video_queries
from storage.errors import HashTaken

UPLOADING: Final = "uploading"
_ROW: Final = table.c


async def expect(connection: AsyncConnection, project: int, file: NewVideo, now_us: int) -> int:
    """Add a video whose file has not arrived yet; return its number.

    `file.size` is what was announced, 0 if nothing was; `source` and the facts about the file are
    ignored.

    Raises:
        NoSuchProject: there is no such project.
        NoSuchLabel: a tag or the category is not of the project.
        HashTaken: another video or stream has the hash by now.
    """
    await project_lookup.require(connection, project)
    if await video_queries.is_hash_taken(connection, file.hash):
        raise HashTaken(file.hash)
    said = Edit(details=file.details, keys=VideoDetails.__struct_fields__)
    number = await rows.add(
        connection,
        project,
        now_us,
        phase="inprogress",
        posters=file.posters,
        labels=file.poster_labels,
        hash=file.hash,
        file_title=file.file_title,
        name=file.name,
        size=file.size,
        length_us=0,
        width=0,
        height=0,
        state=UPLOADING,
        progress=0,
        published=False,
        hidden=False,
        storage_size=0,
        version=0,
        **await columns_of(connection, project, said, file.file_title),
    )
    if file.details.tags:
        await labels.link_tags(connection, project, "video", number, file.details.tags, now_us)
    return number


async def attach_file(
    connection: AsyncConnection, video: int, file: VideoFile, change: Change
) -> WholeVideo | None:
    """Attach the file that arrived, which is at its address, to a video, and queue its job.

    None if the video was deleted meanwhile, or has a file.
    """
    row = await _attach(connection, video, file, change)
    if row is None:
        return None
    await announce(connection, row.project_id, row.hash, VideoState(), change=change)
    return await video_queries.read(connection, video)


async def _attach(
    connection: AsyncConnection, video: int, file: VideoFile, change: Change
) -> Row[int, PublicHash] | None:
    row = await _uploading(connection, video)
    if row is None:
        return None
    await connection.execute(
        update(table)
        .where(_ROW.id == video)
        .values(
            **rows.file_columns(file),
            state="queued",
            uploaded_us=change.now_us,
            updated_us=change.now_us,
            version=_ROW.version + 1,
        )
    )
    await rows.plan_resolutions(connection, video, file.rungs)
    await jobs.enqueue(connection, video, change.now_us)
    event = VideoAddedEvent(size=file.size)
    await announce(connection, row.project_id, row.hash, event, change=change)
    return row


async def add(
    connection: AsyncConnection, project: int, file: NewVideo, change: Change
) -> WholeVideo:
    """Add a video for a file that is at its address, and queue the job that transcodes it.

    Raises:
        NoSuchProject: there is no such project.
        NoSuchLabel: a tag or the category is not of the project.
        HashTaken: another video or stream has the hash by now.
    """
    video = await expect(connection, project, file, change.now_us)
    await _attach(connection, video, file, change)
    return await video_queries.read(connection, video)


async def report_received(
    connection: AsyncConnection, video: int, received: int, size: int | None, now_us: int
) -> None:
    """Broadcast how much of a video's file has arrived; `size` is None while it is unknown."""
    # Clients ignore a version that they have seen.
    change = update(table).where(_ROW.id == video).values(version=_ROW.version + 1)
    changed = await connection.execute(change.returning(_ROW.project_id, _ROW.hash))
    for project, hash_ in changed:  # none if it was deleted
        event = BytesReceived(received_bytes=received, size=size)
        await announce(connection, project, hash_, event, change=Change(now_us))


async def _uploading(connection: AsyncConnection, video: int) -> Row[int, PublicHash] | None:
    query = select(_ROW.project_id, _ROW.hash).where(_ROW.id == video, _ROW.state == UPLOADING)
    return (await connection.execute(query.with_for_update())).one_or_none()
