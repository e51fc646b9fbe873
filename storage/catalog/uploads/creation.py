"""Adds resumable uploads, each with the video that it becomes or whose file it replaces.

Each function runs within the caller's transaction.
"""

from typing import Final

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.queries import project_lookup
from storage.catalog.records.uploads import NewUpload, UploadRecord
from storage.catalog.records.videos import NewVideo
from storage.catalog.schema.upload_tables import uploads
from storage.catalog.uploads import links as upload_links
from storage.catalog.videos import creation as video_creation
from storage.catalog.videos import replacement
from storage.errors import TooManyUploads

# Of a project: each is a row, a video in the lists and a file. No client needs a thousand at once.
MAX_OPEN_UPLOADS: Final = 1000
_TABLE: Final = uploads.c
_OPEN: Final = "open"


async def begin(
    connection: AsyncConnection, project: int, new: NewUpload, now_us: int
) -> UploadRecord:
    """Add an upload of which nothing has arrived yet, and its video if that is new.

    Raises:
        NoSuchProject, NoSuchLabel, HashTaken, UploadLinkSpent, TooManyUploads, NoSuchVideo,
        UploadInProgress: as in `Uploads.begin`.
    """
    if isinstance(new.video, NewVideo):
        hash_ = new.video.hash
        await project_lookup.require(connection, project)
    else:
        hash_ = await replacement.require(connection, project, new.video)
    count = select(func.count()).select_from(uploads)
    count = count.where(_TABLE.project_id == project, _TABLE.state == _OPEN)
    if (await connection.execute(count)).scalar_one() >= MAX_OPEN_UPLOADS:
        raise TooManyUploads(MAX_OPEN_UPLOADS)
    if new.link is not None:
        await upload_links.use(connection, new.link, now_us)
    if isinstance(new.video, NewVideo):  # whose labels are locked after the link
        video = await video_creation.expect(connection, project, new.video, now_us)
    else:
        video = new.video
    await connection.execute(
        insert(uploads).values(
            project_id=project,
            link_id=new.link,
            name=new.name,
            length=new.length,
            received=0,
            most_bytes=new.most_bytes,
            facts=new.metadata,
            state=_OPEN,
            video_id=video,
            created_us=now_us,
            expires_us=new.expires_us,
            replaces=not isinstance(new.video, NewVideo),
        )
    )
    return UploadRecord(
        project=project,
        link=new.link,
        name=new.name,
        length=new.length,
        most_bytes=new.most_bytes,
        received=0,
        metadata=new.metadata,
        state="open",
        video=video,
        hash=hash_,
        expires_us=new.expires_us,
        replaces=not isinstance(new.video, NewVideo),
    )
