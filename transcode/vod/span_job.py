"""One span of a long video: encoded by any worker into a folder of the attempt's own.

The span's row names the attempt that won; an attempt that fails or loses its lease removes its
folder.
"""

import logging
from typing import ClassVar, Final

import msgspec

from media.hls.segment import InitSection, Part, Segment
from storage.catalog.records.transcoding import RemainingMedia, SpanWork
from storage.errors import CatalogError
from storage.leases import Lease
from storage.objects.addresses import video
from storage.objects.base import ObjectError
from storage.workers.leased_task import AttemptFailed, InputRefused, LeasedTask, TaskEvents
from transcode.inspect.probe import NotMedia
from transcode.protocol.file_messages import SpanOrder
from transcode.protocol.messages import EngineReport, Progress
from transcode.vod.asset_attempt import TranscodeContext
from transcode.vod.asset_plan import span_folder
from transcode.vod.attempt_cleanup import remove_folders, remove_old_attempts, remove_unlisted
from transcode.vod.engine_task import run_engine
from transcode.vod.rendition_store import (
    NOT_STORED,
    OUT_OF_STEP,
    MadePiece,
    OutOfStep,
    RenditionStore,
)

log = logging.getLogger(__name__)

_PROGRESS_SECONDS: Final = 1.5  # each is a transaction, and there may be many workers
SPENT_REASON: Final = "Transcoding broke off {} times and was given up; the file may be damaged."


class SpanJob(LeasedTask[TranscodeContext, MadePiece]):
    """One attempt at a span."""

    events: ClassVar = TaskEvents(
        what="span",
        begun="span begun",
        failed="video failed",
        given_up="video given up",
    )
    spent_reason: ClassVar = SPENT_REASON

    def __init__(self, context: TranscodeContext, work: SpanWork, held: Lease) -> None:
        super().__init__(context, held, video=work.hash, span=held.part)
        self._work = work
        self._folder = span_folder(work, held)
        self._progress_recorded = 0.0
        self._remaining: RemainingMedia | None = None

    async def make(self) -> MadePiece:
        """Encode the span; see `LeasedTask.make`."""
        work = self._work
        span = msgspec.json.decode(work.order, type=SpanOrder)
        renditions = RenditionStore(
            self._context.objects,
            hash_=work.hash,
            folder=self._folder,
            names=[rung.name for rung in span.rungs],
        )
        self._progress_recorded = self._context.clock()

        async def store(report: EngineReport) -> None:
            match report:
                case InitSection() | Part() | Segment():
                    await renditions.store(report)
                case Progress():
                    await self._record_progress(work.cost * report.frames // max(1, span.pictures))
                case _:
                    pass

        try:
            async with self._context.lend(work.source) as path:
                encoded = await run_engine("span", work.hash, span, path, store)
            await self._context.objects.make_durable(video(work.hash))
        except NotMedia as error:
            raise InputRefused(error.reason) from error
        except OutOfStep as error:
            log.error("renditions out of step", extra={**self.facts, "cause": str(error)})  # noqa: TRY400  # one line
            raise AttemptFailed(OUT_OF_STEP) from error
        except (OSError, ObjectError) as error:
            log.warning("media not stored", extra={**self.facts, "cause": str(error)})
            raise AttemptFailed(NOT_STORED) from error
        return MadePiece(
            folder=self._folder,
            renditions=renditions.made(),
            cpu_ms=encoded.cpu_ms,
            warnings=encoded.warnings,
        )

    async def finish(self, outcome: MadePiece) -> None:
        """Record what was made; if it was the last span, the job is queued again."""
        made = msgspec.json.encode(outcome).decode()
        await self._context.spans.finish(self.held, made, self._context.now_us())
        log.info("span done", extra={**self.facts, "bytes": outcome.size})
        self._context.more.set()

    async def fail(self, reason: str) -> None:
        """Fail the video; see `LeasedTask.fail`."""
        self._remaining = await self._context.spans.fail(self.held, reason, self._context.now_us())

    async def clean_up(self) -> None:
        """Remove all that was made for a video that failed, except what plays."""
        work, remaining = self._work, self._remaining
        if remaining is None:
            return
        await remove_old_attempts(
            self._context.objects,
            work.hash,
            keep=(remaining.media, remaining.posters, remaining.previews),
            generations=range(work.generation, work.generation + 1),
            attempt=remaining.attempt,
            job=self.held.job,
        )
        if remaining.media is not None and remaining.media.startswith(f"{work.generation}-"):
            await remove_unlisted(self._context.objects, work.hash, remaining.media)

    async def discard(self) -> None:
        """Remove the folder of this attempt."""
        await remove_folders(self._context.objects, self._work.hash, [self._folder])

    async def _record_progress(self, done: int) -> None:
        """Record how much of the span's cost is done, every `_PROGRESS_SECONDS`."""
        now = self._context.clock()
        if now - self._progress_recorded < _PROGRESS_SECONDS:
            return
        self._progress_recorded = now
        try:
            await self._context.spans.progress(self.held, done, self._context.now_us())
        except CatalogError as error:
            log.warning("progress not written", extra={**self.facts, "cause": str(error)})
