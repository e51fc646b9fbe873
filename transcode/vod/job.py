"""One job, or one stretch of one: an uploaded file becomes an adaptive playlist with posters.

What is made lies in folders of the attempt's own, and is shown to nobody before a transaction
names it. Who loses the job, or fails, removes what it made.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from media.no_op import do_nothing
from storage.catalog.records.transcoding import MadeVideo, VideoWork
from storage.catalog.videos.jobs import Jobs
from storage.catalog.videos.spans import Spans
from storage.catalog.videos.transcoding import Transcoding
from storage.errors import CatalogError
from storage.job_leases import HEARTBEAT_SECONDS, LEASE_US, HeldJob, HeldSpan, JobLost
from storage.objects.base import Objects
from transcode.inspect.probe import NotMedia
from transcode.vod.assembler import VideoMaker
from transcode.vod.asset_attempt import Studio
from transcode.vod.asset_plan import Original, folders_of
from transcode.vod.attempt_cleanup import remove_folders, retire, sweep
from transcode.vod.core_budget import Cores
from transcode.vod.engine_task import NotDone
from transcode.vod.lease import holding
from transcode.vod.span_job import Stretcher

__all__ = ["VideoTranscoder"]

log = logging.getLogger(__name__)

_SPENT: Final = "Transcoding broke off {} times and was given up; the file may be damaged."
# A quarter of what is begun goes on with films that play already: their other sizes come slower
# while files pour in, but they come.
_MOST_IN_A_ROW: Final = 3


class VideoTranscoder:
    """Does jobs, and stretches of jobs. `path_of` is where an object stands as a file; `clock`
    never goes back; `cores` are those that all its engines may use together. What it leases is its
    own for `lease_us`, and for as long again with each beat.

    `on_more` is called when there is more to be leased.
    """

    def __init__(  # noqa: PLR0913  # what it stands on, each by its name
        self,
        *,
        jobs: Jobs,
        spans: Spans,
        transcoding: Transcoding,
        objects: Objects,
        path_of: Callable[[str], Path],
        now_us: Callable[[], int],
        cores: Cores | None = None,
        lease_us: int = LEASE_US,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_more: Callable[[], None] = do_nothing
        self.cores = cores or Cores(os.cpu_count() or 1)
        self._jobs = jobs
        self._spans = spans
        self._transcoding = transcoding
        self._objects = objects
        self._now_us = now_us
        self._lease_us = lease_us
        self._clock = clock
        self._turns: dict[type[HeldJob | HeldSpan], int] = {}
        self._jobs_in_a_row = 0
        studio = Studio(
            jobs=jobs,
            transcoding=transcoding,
            spans=spans,
            objects=objects,
            cores=self.cores,
            path_of=path_of,
            now_us=now_us,
            clock=clock,
            nudge=lambda: self.on_more(),
        )
        self._maker = VideoMaker(studio)
        self._stretcher = Stretcher(studio)

    async def lease(self, owner: str) -> HeldJob | HeldSpan | None:
        """Take what is to be done next; `owner` is a new random name.

        A job comes before a span, as it makes what plays first; after some jobs comes a span, so
        that films are ended however many more come in. Projects take turns in both.

        Raises:
            CatalogError: the database did not answer.
        """
        if self._jobs_in_a_row < _MOST_IN_A_ROW:
            return await self._job(owner) or await self._span(owner)
        return await self._span(owner) or await self._job(owner)

    async def _job(self, owner: str) -> HeldJob | None:
        after, lease_us = self._turns.get(HeldJob, 0), self._lease_us
        held = await self._jobs.lease(owner, self._now_us(), lease_us=lease_us, after=after)
        if held is not None:
            self._turns[HeldJob] = held.project
            self._jobs_in_a_row += 1
        return held

    async def _span(self, owner: str) -> HeldSpan | None:
        after, lease_us = self._turns.get(HeldSpan, 0), self._lease_us
        held = await self._spans.lease(owner, self._now_us(), lease_us=lease_us, after=after)
        if held is not None:
            self._turns[HeldSpan] = held.project
            self._jobs_in_a_row = 0
        return held

    async def do(self, held: HeldJob | HeldSpan) -> None:
        """Do a job or a span to its end, good or bad; cancelled, it is given back.

        Raises:
            JobLost, SpanLost: another worker has it.
            CatalogError: its end could not be written down; the lease will run out.
        """
        if isinstance(held, HeldSpan):
            await self._stretcher.do(held)
        else:
            await self._do(held)

    async def _do(self, held: HeldJob) -> None:
        work = await self._transcoding.begin(held, self._now_us())
        facts = {"video": work.hash, "job": held.id, "attempt": held.attempt}
        if held.spent:
            reason = _SPENT.format(held.failures)
            await self._transcoding.fail(held, reason, self._now_us())
            log.error("video given up", extra={**facts, "failures": held.failures})
            await self._sweep(work, held)
            return
        log.info("transcoding", extra=facts)
        try:
            await self._attempt(work, held, facts)
        except asyncio.CancelledError:
            await self._give_back(work, held)
            raise
        except JobLost:
            # Not so where the catalog's answer is missing: what was made may be shown by now.
            await self._remove(work, held)
            raise

    async def _attempt(self, work: VideoWork, held: HeldJob, facts: Mapping[str, object]) -> None:
        """Make the video, or write down why not; only then is the disk cleared.

        Nobody extends the lease while that is slow: another worker would do it all again.
        """
        try:
            await self._make(work, held, facts)
        except NotMedia as error:
            await self._transcoding.fail(held, error.reason, self._now_us())
            log.info("video failed", extra={**facts, "reason": error.reason})
            await self._sweep(work, held)
        except NotDone as error:
            await self._again(work, held, error.reason)

    async def _make(self, work: VideoWork, held: HeldJob, facts: Mapping[str, object]) -> None:
        done = await self._held(work, held)
        if done is None:
            log.info("waiting for spans", extra=dict(facts))
            self.on_more()
            return
        made, folders = done
        replaced = await self._transcoding.complete(held, made, self._now_us())
        log.info("video completed", extra={**facts, "bytes": made.size})
        kept = {*folders, made.posters, work.posters, made.previews}
        kept -= set(replaced.folders).difference(folders)
        await sweep(
            self._objects,
            work.hash,
            keep=kept,
            generations=_this(work),
            attempt=held.attempt,
            job=held.id,
        )

    async def _original(self, held: HeldJob) -> Original | None:
        """Return what was made in one piece for the job, by this attempt or an older one."""
        made = await self._spans.outcomes(held)
        return msgspec.json.decode(made[0], type=Original) if made and made[0] else None

    async def _held(
        self, work: VideoWork, held: HeldJob
    ) -> tuple[MadeVideo, tuple[str, ...]] | None:
        """Make the video while the lease is extended (see `VideoMaker.make`)."""
        return await holding(
            self._made(work, held),
            held=held,
            beat=lambda: self._jobs.beat(held, self._now_us()),
            clock=self._clock,
            ends=(NotMedia, NotDone, JobLost, CatalogError),
        )

    async def _made(
        self, work: VideoWork, held: HeldJob
    ) -> tuple[MadeVideo, tuple[str, ...]] | None:
        if await self._original(held) is None:
            # What workers left that were killed; one that only sleeps clears up after itself.
            await sweep(
                self._objects,
                work.hash,
                keep=(work.media, work.posters, work.previews),
                generations=_this(work),
                attempt=held.attempt - 1,
                job=held.id - 1,
            )
        done = await self._maker.make(work, held)
        if done is not None:
            await retire(self._objects, work.hash, work.media, work.generation)
        return done

    # -- the end that it comes to -----------------------------------------------------------------

    async def _again(self, work: VideoWork, held: HeldJob, reason: str) -> None:
        last = msgspec.structs.replace(held, failures=held.failures + 1).spent
        facts = {"video": work.hash, "job": held.id, "reason": reason}
        if last:
            await self._transcoding.fail(held, reason, self._now_us())
            log.error("video given up", extra=facts)
            await self._sweep(work, held)
        else:
            await self._transcoding.put_back(held, self._now_us(), failed=True)
            log.warning("video put back", extra=facts)
            await self._remove(work, held)

    async def _give_back(self, work: VideoWork, held: HeldJob) -> None:
        """Let another worker begin at once; what cannot be done here its lease does."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._transcoding.put_back(held, self._now_us(), failed=False)
                await self._remove(work, held)
            log.info("video given back", extra={"video": work.hash, "job": held.id})
        except (JobLost, CatalogError, TimeoutError) as error:
            log.warning("video not given back", extra={"video": work.hash, "cause": str(error)})

    async def _remove(self, work: VideoWork, held: HeldJob) -> None:
        """Remove what this attempt made, but what is shown or still needed."""
        try:
            kept = {*await self._transcoding.shown(held.video)}
            original = await self._original(held)
        except CatalogError as error:  # whoever completes the video removes it
            log.warning("leftovers stay", extra={"video": work.hash, "cause": str(error)})
            return
        if original is not None:
            kept |= {original.piece.folder, original.posters, original.previews}
        folders = [name for name in folders_of(work, held) if name not in kept]
        await remove_folders(self._objects, work.hash, folders)

    async def _sweep(self, work: VideoWork, held: HeldJob) -> None:
        """Remove what this job and older ones left, but what is shown."""
        keep = await self._transcoding.shown(held.video)
        await sweep(
            self._objects,
            work.hash,
            keep=keep,
            generations=_this(work),
            attempt=held.attempt,
            job=held.id,
        )


def _this(work: VideoWork) -> range:
    """Return the generation at work: what an older file was made into plays, and stays a while."""
    return range(work.generation, work.generation + 1)
