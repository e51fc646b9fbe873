"""The previews of recordings (`catalog.previews`), which are made after the recording is a video.

Each step locks the video's row and then the job's; it changes nothing if the job is no longer held.
The video plays meanwhile, and none of this changes its state: one without previews is complete.
"""

from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.database import Database
from storage.catalog.events import broadcast
from storage.catalog.records.transcoding import PreviewWork
from storage.catalog.schema.tables import videos
from storage.catalog.videos import jobs, rows
from storage.job_leases import HeldJob, JobLost

__all__ = ["RecordingPreviews"]

_COMPLETED: Final = "completed"


async def _locked(
    connection: AsyncConnection, held: HeldJob
) -> Row[Any]:  # Any: the row of a whole table has no static type
    row = await rows.lock(connection, held.video)
    if row is None:
        raise JobLost(held)
    return row


class RecordingPreviews:
    """The previews of recordings (`catalog.previews`), each call in a transaction of its own.

    Every method raises `storage.errors.CatalogError` if the database does not answer, and
    `storage.job_leases.JobLost` if the job is not held any more.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, held: HeldJob, now_us: int) -> PreviewWork:
        """Return what previews are to be made of; this extends the lease."""
        async with self._database.writing() as connection:
            row = await _locked(connection, held)
            await jobs.extend(connection, held, now_us)
            return PreviewWork(hash=row.hash, generation=row.generation, media=row.media)

    async def finish(self, held: HeldJob, folder: str | None, size: int, now_us: int) -> None:
        """Name the folder of the previews, `size` bytes in all, and end the job.

        None if there is too little to make any of. The video's channel is notified of new ones.
        """
        async with self._database.writing() as connection:
            row = await _locked(connection, held)
            await jobs.finish(connection, held)
            if folder is None:
                return
            values = {"previews": folder, "storage_size": videos.c.storage_size + size}
            await rows.change(connection, row, now_us, values)
            await broadcast.enqueue_video(connection, row.id, _COMPLETED, now_us)

    async def fail(self, held: HeldJob) -> None:
        """End the job; the video remains without previews."""
        async with self._database.writing() as connection:
            await _locked(connection, held)
            await jobs.finish(connection, held)

    async def requeue(self, held: HeldJob, now_us: int, *, failed: bool) -> None:
        """Queue the job again: later if this attempt `failed`, else at once."""
        async with self._database.writing() as connection:
            await _locked(connection, held)
            if failed:
                await jobs.retry(connection, held, now_us)
            else:
                await jobs.release(connection, held, now_us)
