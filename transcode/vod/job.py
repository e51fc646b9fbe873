"""Uploaded files become adaptive playlists with posters: jobs, and the spans of long videos.

`VideoTranscoder` decides what is leased next; `VideoJob` is one attempt at a job. Media are written
to folders of the attempt's own, which nothing references before a transaction does. An attempt that
fails or loses its lease removes its folders.
"""

import logging
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Final

import msgspec

from storage.catalog.records.transcoding import VideoWork
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.errors import CatalogError
from storage.leases import Lease
from storage.workers.leased_task import InputRefused, LeasedTask, Postponed, TaskEvents
from storage.workers.patient_objects import PatientObjects
from storage.workers.worker_pool import WorkSource
from transcode.inspect.probe import NotMedia
from transcode.vod.assembler import Assembled, VideoAssembler
from transcode.vod.asset_attempt import TranscodeContext
from transcode.vod.asset_plan import Original, attempt_folders
from transcode.vod.attempt_cleanup import (
    mark_replaced,
    remove_attempt,
    remove_old_attempts,
    remove_unlisted,
)
from transcode.vod.span_job import SPENT_REASON, SpanJob

log = logging.getLogger(__name__)

# Every fourth lease is a span of a video that plays already: while many files arrive, its other
# renditions are made slower, but they are made.
_MOST_JOBS_IN_A_ROW: Final = 3
# Files of which nothing can be made without encoders, remembered while live streams need the
# machine. Each was surveyed to learn that, and each is a parameter of a query.
_MOST_PASSED_OVER: Final = 1000


class VideoTranscoder(WorkSource[TranscodeContext]):
    """Leases and does jobs and spans of videos.

    While no picture may be encoded, jobs are leased one at a time for what a file can be made into
    without that, and spans wait. What is made is stored while the store is well.
    """

    def __init__(self, context: TranscodeContext) -> None:
        objects = PatientObjects(context.objects, context.health)
        super().__init__(msgspec.structs.replace(context, objects=objects))
        self._jobs_in_a_row = 0
        self._copied: Lease | None = None  # the job that is done while spans wait
        self._passed_over: set[int] = set()  # jobs that need encoders from their beginning

    def place(self) -> AbstractAsyncContextManager[None]:
        """Return a block that holds a core of the budget."""
        return self.context.cores.one()

    async def lease(self, owner: str) -> Lease | None:
        """Lease what is to be done next; `owner` is a new random name.

        A job comes before a span, because it makes what plays first; a span follows a few jobs, so
        that videos are completed however many files come in.
        """
        if not self.context.may_encode():
            if self._copied is None and len(self._passed_over) < _MOST_PASSED_OVER:
                self._copied = await self._lease_job(owner)
                return self._copied
            return None
        self._passed_over.clear()
        if self._jobs_in_a_row < _MOST_JOBS_IN_A_ROW:
            return await self._lease_job(owner) or await self._lease_span(owner)
        return await self._lease_span(owner) or await self._lease_job(owner)

    async def _lease_job(self, owner: str) -> Lease | None:
        job = await self.lease_kind(TRANSCODE, owner, passed_over=self._passed_over)
        if job is not None:
            self._jobs_in_a_row += 1
        return job

    async def _lease_span(self, owner: str) -> Lease | None:
        while await self.context.spans.adopt(self.context.now_us()):
            pass  # before newer ones are leased: they keep their place
        span = await self.lease_kind(SPAN, owner)
        if span is not None:
            self._jobs_in_a_row = 0
        return span

    async def do(self, held: Lease) -> None:
        """Do a job or a span to its end; see `WorkSource.do`."""
        if held.kind == SPAN:
            work = await self.context.write(self.context.spans.begin, held)
            await SpanJob(self.context, work, held).run()
            return
        try:
            await self._do_job(held)
        finally:
            if self._copied is held:
                self._copied = None

    async def _do_job(self, held: Lease) -> None:
        work = await self.context.write(self.context.transcoding.begin, held)
        job = VideoJob(self.context, work, held)
        await job.run()
        if job.needs_encoders:
            self._passed_over.add(held.id)


class VideoJob(LeasedTask[TranscodeContext, Assembled | None]):
    """One attempt at a video's job.

    A short video is made in one attempt. For a long one, an attempt makes what plays early, queues
    the spans and releases the job; when all spans are done, another attempt assembles them.
    """

    events: ClassVar = TaskEvents(
        what="video",
        begun="transcoding",
        failed="video failed",
        given_up="video given up",
    )
    spent_reason: ClassVar = SPENT_REASON

    def __init__(self, context: TranscodeContext, work: VideoWork, job: Lease) -> None:
        super().__init__(context, job, video=work.hash)
        self._work = work
        self._assembler = VideoAssembler(context)
        self.needs_encoders = False
        """True once nothing can be made of the file for now, as no picture may be encoded."""
        self._waits_for_spans = False
        self._kept: set[str | None] | None = None  # folders of the video that was completed

    async def make(self) -> Assembled | None:
        """Make the video, or None if its spans are still to be made (see `VideoAssembler.make`)."""
        work, job = self._work, self.held
        original = await self._original()
        # The rows of a job that is over are gone. So a worker that slept until then finds no
        # original, and would treat the folders that the video was made of as orphans. The lease is
        # extended after the read, since the worker may sleep between the two.
        await self.extend_lease()
        if original is None:
            # Folders of workers that were killed; one that was only suspended removes its own.
            await self._remove_old(
                (work.media, work.posters, work.previews), job.attempt - 1, job.id - 1
            )
        try:
            assembled = await self._assembler.make(work, job)
        except NotMedia as error:
            raise InputRefused(error.reason) from error
        except Postponed:
            self.needs_encoders = True
            raise
        if assembled is not None:
            await mark_replaced(
                self._context.objects,
                work.hash,
                work.media,
                generation=work.generation,
                by=assembled.folders,
            )
        return assembled

    async def finish(self, outcome: Assembled | None) -> None:
        """Publish the video; see `LeasedTask.finish`."""
        if outcome is None:
            log.info("waiting for spans", extra=self.facts)
            self._waits_for_spans = True
            self._context.more.set()
            return
        made_video, work = outcome.video, self._work
        replaced = await self._context.transcoding.complete(
            self.held, made_video, self._context.now_us()
        )
        log.info("video completed", extra={**self.facts, "bytes": made_video.size})
        kept = {*outcome.folders, made_video.posters, work.posters, made_video.previews}
        self._kept = kept - set(replaced).difference(outcome.folders)

    async def fail(self, reason: str) -> None:
        """Fail the video; see `LeasedTask.fail`."""
        await self._context.transcoding.fail(self.held, reason, self._context.now_us())

    async def clean_up(self) -> None:
        """Remove what this and older attempts left, except what plays."""
        if self._waits_for_spans:
            return
        if self._kept is not None:
            await self._remove_old(self._kept, self.held.attempt, self.held.id)
            return
        try:
            shown = await self._context.transcoding.find_folders(self.held.subject)
        except CatalogError as error:  # then `storage.cleanup.orphans` removes them
            log.warning("old attempt not removed", extra={**self.facts, "cause": str(error)})
            return
        await self._remove_old(shown, self.held.attempt, self.held.id)
        media = shown[0] if shown else None
        if media is not None and media.startswith(f"{self._work.generation}-"):
            await remove_unlisted(self._context.objects, self._work.hash, media)

    async def put_back(self, *, failed: bool) -> None:
        """See `LeasedTask.put_back`."""
        await self._context.transcoding.requeue(self.held, self._context.now_us(), failed=failed)

    async def discard(self) -> None:
        """Remove the folders of this attempt, except those that play or that a span job needs."""
        try:
            keep = {*await self._context.transcoding.find_folders(self.held.subject)}
            original = await self._original()
        except CatalogError as error:  # the attempt that completes the video removes them
            log.warning("old attempt not removed", extra={**self.facts, "cause": str(error)})
            return
        if original is not None:
            keep |= {original.piece.folder, original.posters, original.previews}
        elif keep and self._assembler.may_have_recorded:
            # The job is over: other workers may have made the video from these folders. Folders
            # that are not in use are removed with the orphans.
            return
        folders = [name for name in attempt_folders(self._work, self.held) if name not in keep]
        await remove_attempt(self._context.objects, self._work.hash, folders)

    async def _original(self) -> Original | None:
        """Return what this attempt or an older one made in one piece for the job, if recorded."""
        outcomes = await self._context.spans.outcomes(self.held)
        return msgspec.json.decode(outcomes[0], type=Original) if outcomes and outcomes[0] else None

    async def _remove_old(self, keep: Collection[str | None], attempt: int, job: int) -> None:
        """Remove folders of this generation; media of an older file stay for its viewers."""
        generation = self._work.generation
        await remove_old_attempts(
            self._context.objects,
            self._work.hash,
            keep=keep,
            generations=range(generation, generation + 1),
            attempt=attempt,
            job=job,
        )
