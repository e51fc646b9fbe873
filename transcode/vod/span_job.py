"""A stretch of a film, made by whichever worker takes it, into a folder of that attempt's own.

Who loses it, or fails, removes what it made. Which attempt won is in the row, and nowhere else.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from media.hls.segment import InitSection, Part, Segment
from storage.errors import CatalogError
from storage.job_leases import HEARTBEAT_SECONDS, HeldSpan, SpanLost
from storage.objects.base import ObjectError
from transcode.inspect.probe import NotMedia
from transcode.protocol.file_messages import Stretch
from transcode.protocol.messages import Progress, Report
from transcode.vod.asset_attempt import Studio
from transcode.vod.asset_plan import folder_of
from transcode.vod.attempt_cleanup import remove_folders, sweep
from transcode.vod.engine_task import NotDone, work
from transcode.vod.lease import holding
from transcode.vod.rendition_store import MadePiece, OutOfStep, Renditions

__all__ = ["Stretcher"]

log = logging.getLogger(__name__)

_TELL_SECONDS: Final = 1.5  # each is a transaction, and there may be many workers
_SPENT: Final = "Transcoding broke off {} times and was given up; the file may be damaged."
_NOT_STORED: Final = "The file could not be read, or what was made of it not stored."
_OUT_OF_STEP: Final = "Transcoding made renditions that do not fit together."


class Stretcher:
    """Makes stretches."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def do(self, held: HeldSpan) -> None:
        """Make a stretch to its end, good or bad; cancelled, it gives the span back.

        Raises:
            SpanLost: another worker has it, or its job has ended.
            CatalogError: its end could not be written down; the lease will run out.
        """
        facts = {"video": held.hash, "job": held.job, "span": held.number, "attempt": held.attempt}
        if held.spent:
            await self._fail(held, _SPENT.format(held.failures))
            log.error("video given up", extra={**facts, "failures": held.failures})
            return
        log.info("span begun", extra=facts)
        try:
            await self._attempt(held, facts)
        except asyncio.CancelledError:
            await self._give_back(held)
            raise
        except SpanLost:
            await self._remove(held)
            raise

    async def _attempt(self, held: HeldSpan, facts: Mapping[str, object]) -> None:
        """Make the stretch, or write down why not; only then is the disk cleared.

        Nobody extends the lease while that is slow.
        """
        spans, now_us = self._studio.spans, self._studio.now_us
        try:
            made = await self._held(held)
            await spans.finish(held, msgspec.json.encode(made).decode(), now_us())
            log.info("span done", extra={**facts, "bytes": made.size})
            self._studio.nudge()
        except NotMedia as error:
            await self._fail(held, error.reason)
            log.info("video failed", extra={**facts, "reason": error.reason})
        except NotDone as error:
            await self._again(held, error.reason)

    async def _held(self, held: HeldSpan) -> MadePiece:
        return await holding(
            self._make(held),
            held=held,
            beat=lambda: self._studio.spans.beat(held, self._studio.now_us()),
            clock=self._studio.clock,
            ends=(NotMedia, NotDone, SpanLost),
        )

    async def _make(self, held: HeldSpan) -> MadePiece:
        stretch = msgspec.json.decode(held.facts, type=Stretch)
        told = self._studio.clock()
        renditions = Renditions(
            self._studio.objects,
            hash_=held.hash,
            folder=folder_of(held),
            names=[rung.name for rung in stretch.rungs],
        )

        async def take(report: Report) -> None:
            nonlocal told
            match report:
                case InitSection() | Part() | Segment():
                    await renditions.take(report)
                case Progress() if self._studio.clock() - told >= _TELL_SECONDS:
                    told = self._studio.clock()
                    done = held.cost * report.frames // max(1, stretch.pictures)
                    await self._progress(held, done)
                case _:
                    pass

        try:
            path = self._studio.path_of(held.source)
            said = await work("stretch", held.hash, stretch, path, take)
        except OutOfStep as error:
            log.error("renditions out of step", extra={"video": held.hash, "cause": str(error)})  # noqa: TRY400  # one line
            raise NotDone(_OUT_OF_STEP) from error
        except (OSError, ObjectError) as error:
            log.warning("media not stored", extra={"video": held.hash, "cause": str(error)})
            raise NotDone(_NOT_STORED) from error
        return MadePiece(
            folder=folder_of(held),
            renditions=renditions.made(),
            cpu_ms=said.cpu_ms,
            warnings=said.warnings,
        )

    async def _progress(self, held: HeldSpan, done: int) -> None:
        try:
            await self._studio.spans.progress(held, done, self._studio.now_us())
        except CatalogError as error:
            log.warning("progress not written", extra={"job": held.job, "cause": str(error)})

    async def _again(self, held: HeldSpan, reason: str) -> None:
        spans, now_us = self._studio.spans, self._studio.now_us
        facts = {"video": held.hash, "job": held.job, "span": held.number, "reason": reason}
        if msgspec.structs.replace(held, failures=held.failures + 1).spent:
            await self._fail(held, reason)
            log.error("video given up", extra=facts)
        else:
            await spans.put_back(held, now_us(), failed=True)
            log.warning("span put back", extra=facts)
            await self._remove(held)

    async def _give_back(self, held: HeldSpan) -> None:
        """Let another worker begin at once; what cannot be done here its lease does."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._studio.spans.put_back(held, self._studio.now_us(), failed=False)
                await self._remove(held)
            log.info("span given back", extra={"video": held.hash, "span": held.number})
        except (SpanLost, CatalogError, TimeoutError) as error:
            log.warning("span not given back", extra={"video": held.hash, "cause": str(error)})

    async def _fail(self, held: HeldSpan, reason: str) -> None:
        """End the job, and remove what was made of it but what is shown."""
        left = await self._studio.spans.fail(held, reason, self._studio.now_us())
        await sweep(
            self._studio.objects,
            held.hash,
            keep=(left.media, left.posters, left.previews),
            generations=range(held.generation, held.generation + 1),
            attempt=left.attempt,
            job=held.job,
        )

    async def _remove(self, held: HeldSpan) -> None:
        await remove_folders(self._studio.objects, held.hash, [folder_of(held)])
