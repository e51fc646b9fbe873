"""The previews of recordings (`catalog.previews`), which are made after the recording is a video.

With them comes a poster for a video that has none, or that of its stream as clips have.

Each step locks the video's row and then the job's; it changes nothing if the job is no longer held.
The video plays meanwhile, and none of this changes its state: one without previews is complete.
"""

from typing import Any

from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import VideoState
from storage.catalog.jobs import jobs as work
from storage.catalog.records.common import Change
from storage.catalog.records.transcoding import MadePreviews, PreviewWork
from storage.catalog.schema.tables import videos
from storage.catalog.videos import jobs, rows
from storage.catalog.videos.recordings import BORROWED_POSTERS
from storage.leases import Lease


def _needs_poster(posters: str | None) -> bool:
    return posters in (None, BORROWED_POSTERS)


class RecordingPreviews(Repository):
    """The previews of recordings (`catalog.previews`), each call in its own transaction.

    Every method raises `storage.leases.LeaseLost` if the job is not held any more.
    """

    async def begin(self, job: Lease, now_us: int) -> PreviewWork:
        """Return what previews are to be made of; this extends the lease."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await work.extend(connection, job, now_us)
            return PreviewWork(
                hash=row.hash,
                generation=row.generation,
                media=row.media,
                needs_poster=_needs_poster(row.posters),
            )

    async def finish(self, job: Lease, images: MadePreviews, now_us: int) -> str | None:
        """Record the folders of what was made, and end the job; return a folder that is not needed.

        That is the one of the posters that the new ones replace, or of the new ones if the owner
        has sent others meanwhile. The video's channel is notified of what is new.
        """
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await jobs.finish(connection, job)
            unused = None
            values: dict[str, Any] = {}  # Any: columns of every type
            if images.previews is not None:
                values["previews"] = images.previews
                values["storage_size"] = videos.c.storage_size + images.size
            if images.posters is not None and _needs_poster(row.posters):
                unused = row.posters
                labels = ",".join(images.poster_labels)
                values |= {"posters": images.posters, "poster_labels": labels, "image_us": now_us}
            elif images.posters is not None:
                unused = images.posters
            if values:
                await rows.change(connection, row, now_us, values)
                await announce(
                    connection, row.project_id, row.hash, VideoState(), change=Change(now_us)
                )
            return unused

    async def fail(self, job: Lease) -> None:
        """End the job; the video remains without previews."""
        async with self._database.writing() as connection:
            await rows.lock_for_job(connection, job)
            await jobs.finish(connection, job)
