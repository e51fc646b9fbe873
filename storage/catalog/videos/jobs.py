"""The jobs of videos: their kinds; added and ended with the numbers of their attempts.

Attempts are numbered over all jobs of a video, since they make folders that are named by number.
The functions run within the caller's transaction, which locks the job's video first if it changes
that too. `storage.catalog.jobs.jobs` has the rest.
"""

from typing import Final

from sqlalchemy import ColumnElement, delete, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.jobs import jobs as work
from storage.catalog.schema.tables import jobs, videos
from storage.leases import Lease, WorkKind

# A file is made playable, or fetched from an address; a recording, which plays already, gets its
# previews; a span of a file is a part of the job that makes it playable.
TRANSCODE: Final = WorkKind("transcode")
IMPORT: Final = WorkKind("import")
PREVIEWS: Final = WorkKind("previews")
SPAN: Final = WorkKind("span", is_part=True)


async def enqueue(
    connection: AsyncConnection, video: int, now_us: int, kind: WorkKind = TRANSCODE
) -> None:
    """Add a job of a kind to a video.

    An older job of the video ends with this: its lease is lost.
    """
    await _remove(connection, jobs.c.video_id == video)
    query = select(videos.c.project_id, videos.c.attempt).where(videos.c.id == video)
    project, attempt = (await connection.execute(query)).one()
    row = {"video_id": video, "attempt": attempt}
    await work.add(connection, kind, project, now_us, [row])


async def finish(connection: AsyncConnection, lease: Lease) -> None:
    """Remove a job that is over, done or failed, with its spans.

    Raises:
        LeaseLost: it is not held any more: the transaction must change nothing else.
    """
    await work.finish(connection, lease)
    await _number(connection, lease.subject, lease.attempt)


async def end(connection: AsyncConnection, job: int) -> None:
    """Remove a job that cannot succeed, held or not, with its spans."""
    await _remove(connection, jobs.c.id == job)


async def _remove(connection: AsyncConnection, which: ColumnElement[bool]) -> None:
    """Remove a video's job, if there is one. The video keeps its attempt's number."""
    statement = delete(jobs).where(which).returning(jobs.c.video_id, jobs.c.attempt)
    row = (await connection.execute(statement)).one_or_none()
    if row is not None:
        await _number(connection, row.video_id, row.attempt)


async def _number(connection: AsyncConnection, video: int, attempt: int) -> None:
    await connection.execute(update(videos).where(videos.c.id == video).values(attempt=attempt))
