"""The transcoding of videos (`catalog.transcoding`): begun, planned, in progress, done or failed.

Each step locks the video's row and then the job's; it changes nothing if the job is no longer held.
Each is broadcast to the video's channel; the beginning and the end are events for the owner too.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Row, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    TranscodingBeganEvent,
    VideoCompletedEvent,
    VideoEvent,
    VideoFailedEvent,
    VideoState,
)
from storage.catalog.jobs import jobs as work
from storage.catalog.queries import counters, named_rows, snapshots
from storage.catalog.records.common import Change
from storage.catalog.records.transcoding import MadeRung, MadeVideo, PlannedRung, VideoWork
from storage.catalog.records.videos import OWN_POSTERS
from storage.catalog.schema.tables import video_resolutions, videos
from storage.catalog.schema.upload_tables import trash
from storage.catalog.videos import jobs, rows
from storage.leases import Lease

_TABLE: Final = videos.c
_NEARLY: Final = 99  # percent, shown until it plays


async def _mark_playable(
    connection: AsyncConnection, video: int, rungs: Sequence[MadeRung]
) -> None:
    table = video_resolutions.c
    for rung in rungs:
        await connection.execute(
            update(video_resolutions)
            .where(table.video_id == video, table.number == rung.number)
            .values(transcoded=True, size=rung.size, transcode_seconds=rung.seconds)
        )


async def fail(
    connection: AsyncConnection,
    job: Lease,
    reason: str,
    now_us: int,
    *,
    warnings: Sequence[str] = (),
) -> None:
    """End the job without a video; `reason` is a sentence for its owner.

    Raises:
        LeaseLost: the job is not held any more.
    """
    row = await rows.lock_for_job(connection, job)
    await jobs.finish(connection, job)
    await mark_failed(connection, row, reason, now_us, warnings=warnings)


async def mark_failed(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as below
    reason: str,
    now_us: int,
    *,
    warnings: Sequence[str] = (),
) -> None:
    """Record in a video's row, which is locked, that its job has failed."""
    values = {
        "state": "failed",
        "phase": "failed",
        "eta": 0,
        "reason": reason,
        "warnings": _texts(warnings),
    }
    await rows.change(connection, row, now_us, values)
    await _announce(connection, row, VideoFailedEvent(reason=reason), now_us=now_us)
    counters.move_video(connection, row.project_id, row.phase, "failed")


async def record_progress(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as below
    percent: int,
    eta: int,
    now_us: int,
) -> None:
    """Record and broadcast the progress of a video, whose row is locked; it never falls.

    `eta` is in seconds.
    """
    percent, eta = max(row.progress, min(percent, _NEARLY)), min(eta, named_rows.MAX_ID)
    if (percent, eta) == (row.progress, row.eta):
        return
    await rows.change(connection, row, now_us, {"progress": percent, "eta": eta})
    await _announce(connection, row, VideoState(), now_us=now_us)


async def _announce(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    *events: VideoEvent,
    now_us: int,
) -> None:
    await announce(connection, row.project_id, row.hash, *events, change=Change(now_us))


def _are_replaceable(posters: str | None) -> bool:
    return posters is None or not posters.startswith(OWN_POSTERS)


def _texts(warnings: Sequence[str]) -> str:
    return msgspec.json.encode(tuple(warnings)).decode()


class Transcoding(Repository):
    """The transcoding of videos (`catalog.transcoding`), each call in its own transaction.

    Every method but `find_folders` raises `storage.leases.LeaseLost` if the job is not held any
    more.
    """

    async def find_folders(self, video: int) -> tuple[str | None, ...]:
        """Return the folders of what a video shows: media, posters and previews.

        A video in the trash will show them again if it is restored.
        """
        query = select(_TABLE.media, _TABLE.posters, _TABLE.previews).where(_TABLE.id == video)
        deleted = select(trash.c.rows).where(trash.c.kind == "video", trash.c.record == video)
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
            if row is not None:
                return (row.media, row.posters, row.previews)
            text = (await connection.execute(deleted)).scalar_one_or_none()
        if text is None:
            return ()
        (kept,) = snapshots.decode(text)[videos.name]
        return (kept["media"], kept["posters"], kept["previews"])

    async def begin(self, job: Lease, now_us: int) -> VideoWork:
        """Record that a worker has begun the video; return what is to be done."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await work.extend(connection, job, now_us)
            values: dict[str, object] = {"state": "transcoding"}
            if row.transcoding_us is None:
                values |= {"transcoding_us": now_us, "eta": 0}
            await rows.change(connection, row, now_us, values)
            events: list[VideoEvent] = [VideoState()]
            if row.transcoding_us is None or row.state != "transcoding" or job.failures:
                events.append(TranscodingBeganEvent(attempt=job.attempt))
            await _announce(connection, row, *events, now_us=now_us)
            return VideoWork(
                video=row.id,
                hash=row.hash,
                source=row.source or "",
                generation=row.generation,
                media=row.media,
                posters=row.posters,
                previews=row.previews,
            )

    async def plan(
        self,
        job: Lease,
        rungs: Sequence[PlannedRung],
        now_us: int,
        *,
        length_us: int,
        width: int,
        height: int,
    ) -> None:
        """Record what the file is and which resolutions will be made of it."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await work.extend(connection, job, now_us)
            values = {"length_us": length_us, "width": width, "height": height}
            await rows.change(connection, row, now_us, values)
            table = video_resolutions.c
            query = select(table.number, table.width, table.height).where(table.video_id == row.id)
            existing = {tuple(each) for each in await connection.execute(query)}
            planned = [(rung.number, rung.width, rung.height) for rung in rungs]
            if existing == set(planned):
                return  # planned by an earlier attempt; some may play by now
            await rows.plan_resolutions(connection, row.id, planned)

    async def progress(self, job: Lease, percent: int, eta: int, now_us: int) -> None:
        """Record the progress, which never falls, and extend the lease."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await work.extend(connection, job, now_us)
            await record_progress(connection, row, percent, eta, now_us)

    async def complete(self, job: Lease, made: MadeVideo, now_us: int) -> tuple[str, ...]:
        """Publish what was made, unless the owner hid the video; the job is done.

        Returns the folders, below the video's own, that nothing references any more.
        """
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await jobs.finish(connection, job)
            values: dict[str, object] = {
                "state": "completed",
                "phase": "completed",
                "progress": 100,
                "eta": 0,
                "reason": "",
                "warnings": _texts(made.warnings),
                "length_us": made.length_us,
                "media": made.media,
                "storage_size": made.size,
                "completed_us": now_us,
            }
            if not row.hidden and not row.published:
                values |= {"published": True, "published_us": now_us}
            replaced = [] if row.media in (None, made.media) else [row.media]
            if made.posters is not None and _are_replaceable(row.posters):
                labels = ",".join(made.poster_labels)
                values |= {"posters": made.posters, "poster_labels": labels, "image_us": now_us}
                replaced += [] if row.posters is None else [row.posters]
            elif made.posters is not None:
                replaced.append(made.posters)
            values["previews"] = made.previews
            values["subtitles"] = msgspec.json.encode(made.subtitles).decode()
            replaced += [] if row.previews in (None, made.previews) else [row.previews]
            await rows.change(connection, row, now_us, values)
            await _mark_playable(connection, row.id, made.rungs)
            event = VideoCompletedEvent(size=made.size, warnings=len(made.warnings))
            await _announce(connection, row, event, now_us=now_us)
            counters.move_video(connection, row.project_id, row.phase, "completed")
            return tuple(replaced)

    async def publish_partial(self, job: Lease, made: MadeVideo, now_us: int) -> None:
        """Publish what plays already, unless the owner hid the video; the job continues."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await work.extend(connection, job, now_us)
            values: dict[str, object] = {
                "length_us": made.length_us,
                "media": made.media,
                "storage_size": made.size,
            }
            if not row.hidden and not row.published:
                values |= {"published": True, "published_us": now_us}
            await rows.change(connection, row, now_us, values)
            await _mark_playable(connection, row.id, made.rungs)
            await _announce(connection, row, VideoState(), now_us=now_us)

    async def fail(
        self, job: Lease, reason: str, now_us: int, *, warnings: Sequence[str] = ()
    ) -> None:
        """End the job without a video (see `fail`)."""
        async with self._database.writing() as connection:
            await fail(connection, job, reason, now_us, warnings=warnings)

    async def requeue(self, job: Lease, now_us: int, *, failed: bool) -> None:
        """Queue the job again: later if it `failed` through no fault of the file, else at once."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, job)
            await work.requeue(connection, job, now_us, failed=failed)
            await rows.change(connection, row, now_us, {"state": "queued", "eta": 0})
            await _announce(connection, row, VideoState(), now_us=now_us)
