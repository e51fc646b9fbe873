"""One attempt at a VOD asset: what is made of a file in one piece, while its job is held.

The file's own packets become the top rung where players can take them; they are made first, with
the sound, and published early. The spans of the other rungs are planned before anything is encoded,
so that other workers can begin.
"""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from media.hls.segment import InitSection, Part, Segment
from media.ladder import AUDIO_RENDITION, BOX_NUMBERS, Ladder
from media.no_op import always
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from storage.catalog.records.transcoding import (
    MadeRung,
    MadeSubtitles,
    MadeVideo,
    PlannedRung,
    VideoWork,
)
from storage.catalog.videos.jobs import TRANSCODE
from storage.catalog.videos.spans import Spans
from storage.catalog.videos.transcoding import Transcoding
from storage.errors import CatalogError
from storage.leases import Lease
from storage.objects.addresses import video
from storage.objects.base import Objects
from storage.workers.context import WorkContext
from storage.workers.leased_task import Postponed
from transcode.inspect.probe import NotMedia, probe
from transcode.protocol.file_messages import AssetOrder, Ready, Surveyed
from transcode.protocol.messages import EngineReport, Probed, Progress
from transcode.vod.asset_plan import (
    AssetProgress,
    Original,
    attempt_folders,
    length_and_warnings,
    order_for,
    planned_spans,
    playing_ticks,
)
from transcode.vod.attempt_cleanup import mark_replaced
from transcode.vod.core_budget import CoreBudget
from transcode.vod.engine_task import EngineOutcome, run_engine
from transcode.vod.images import PosterError, VodImages, make_images, store_images
from transcode.vod.playlists import write_playlists
from transcode.vod.rendition_store import MadePiece, RenditionStore
from transcode.vod.subtitles import read_subtitles, store_subtitles

log = logging.getLogger(__name__)

# While no other job waits, a short file gets idle cores as well; more than the usual ladder has
# rungs could not be used. A longer file reserves one idle core until it plays and leaves it idle: a
# span encoded there would slow it down by half, because two cores may be threads of one.
_MOST_EXTRA_CORES: Final = 3
_EXTRA_CORES_OF_LONG: Final = 1
_SHORT_US: Final = 20_000_000


def _all_cores() -> CoreBudget:
    return CoreBudget(os.cpu_count() or 1)


class TranscodeContext(WorkContext, frozen=True, kw_only=True):
    """What jobs and spans are transcoded with.

    `lend` gives a file with an object's bytes (see `MediaStore`); `cores` is the budget of all
    engines together; while `may_encode` returns False, because live streams need the machine, no
    picture is encoded that was not begun before.
    """

    transcoding: Transcoding
    spans: Spans
    objects: Objects
    lend: Callable[[str], AbstractAsyncContextManager[Path]]
    cores: CoreBudget = msgspec.field(default_factory=_all_cores)
    may_encode: Callable[[], bool] = always


class AssetAttempt:
    """One attempt; after `make`, `is_planned` is True if there are spans to wait for.

    It is True from the beginning if an older attempt has queued them.
    """

    def __init__(
        self, context: TranscodeContext, work: VideoWork, job: Lease, *, is_planned: bool = False
    ) -> None:
        self.is_planned = is_planned
        self._context = context
        self._work = work
        self._job = job
        self._media_folder, self._poster_folder, self._preview_folder = attempt_folders(work, job)
        self._surveyed = Surveyed()
        self._mono = False
        self._early_playlist_bytes = 0
        self._ladder: Ladder | None = None
        self._claimed_us = 0
        self._progress = AssetProgress(0, 0.0)
        self._renditions: RenditionStore | None = None
        self._is_short = False
        self._encodes = True  # pictures
        self._extra_cores = AsyncExitStack()

    async def make(self) -> Original:
        """Make what is made in one piece, and its posters, previews and subtitles.

        Raises:
            NotMedia: the file cannot be transcoded.
            AttemptFailed: the engine broke off.
            Postponed: nothing can be made without encoders, which live streams need.
            ProbeTimeout: the file could not be probed in time.
            OutOfStep: the renditions do not fit together.
            StorageError, OSError: something could not be stored or read.
        """
        async with self._context.lend(self._work.source) as path:
            return await self._make(path)

    async def _make(self, path: Path) -> Original:
        # No request waits for the answer here, so a large file or a slow disk may take its time.
        probed = await probe(path, name=self._work.hash, seconds=None)
        order = order_for(probed)
        await self._plan(probed, order)
        outcome = await self._encode(path, order, probed)
        stills = await self._posters(path, outcome)
        folders = self._poster_folder, self._preview_folder
        preview_size = await store_images(
            self._context.objects, self._work.hash, stills, *folders, self._claimed_us
        )
        subtitles = await self._subtitles(path, probed, outcome)
        return Original(
            ladder=self._ladder,
            piece=self._piece(outcome),
            length_us=0 if probed.estimated else probed.length_us,
            reached=self._surveyed.reached,
            reused=self._surveyed.reused or outcome.reused,
            audible=self._surveyed.audible,
            mono=self._mono,
            advance=self._early_playlist_bytes,
            posters=self._poster_folder if stills.posters else None,
            poster_labels=tuple(still.label for still in stills.posters),
            poster_size=sum(len(still.data) for still in stills.posters),
            previews=self._preview_folder if preview_size else None,
            preview_size=preview_size,
            subtitles=subtitles,
        )

    async def _plan(self, probed: Probed, order: AssetOrder) -> None:
        self._ladder, self._claimed_us = order.ladder, probed.length_us
        rungs = order.ladder.renditions if order.ladder is not None else ()
        planned = [
            PlannedRung(number=BOX_NUMBERS[rung.name], width=rung.width, height=rung.height)
            for rung in rungs
        ]
        await self._context.write(
            lambda job, now_us: self._context.transcoding.plan(
                job,
                planned,
                now_us,
                length_us=probed.length_us,
                width=probed.width,
                height=probed.height,
            ),
            self._job,
        )

    async def _encode(self, path: Path, order: AssetOrder, probed: Probed) -> EngineOutcome:
        names = (*(order.ladder.names if order.ladder is not None else ()), AUDIO_RENDITION)
        self._renditions = RenditionStore(
            self._context.objects, hash_=self._work.hash, folder=self._media_folder, names=names
        )
        self._progress = AssetProgress(probed.length_us, self._context.clock())
        waiting = await self._context.jobs.has_due(self._context.now_us(), TRANSCODE)
        self._encodes = self._context.may_encode() and not self.is_planned
        takes_more = self._encodes and not waiting
        self._is_short = probed.length_us <= _SHORT_US
        most_extra = _MOST_EXTRA_CORES if self._is_short else _EXTRA_CORES_OF_LONG
        async with self._extra_cores as stack:
            idle_cores = self._context.cores.idle_ones(most_extra if takes_more else 0)
            extra = await stack.enter_async_context(idle_cores)
            threads = 1 + extra if self._is_short else 1
            order = msgspec.structs.replace(order, threads=threads, encode=self._encodes)
            return await run_engine("asset", self._work.hash, order, path, self._handle)

    def _piece(self, outcome: EngineOutcome) -> MadePiece:
        stored = self._renditions.made() if self._renditions is not None else ()
        return MadePiece(
            folder=self._media_folder,
            renditions=tuple(each for each in stored if each.segments),
            cpu_ms=outcome.cpu_ms,
            warnings=outcome.warnings,
        )

    async def _handle(self, report: EngineReport) -> None:
        match report:
            case InitSection() | Part() | Segment():
                if self._renditions is not None:
                    await self._renditions.store(report)
            case Surveyed():
                await self._plan_spans(report)
            case Ready():
                await self._publish_early(report.names)
            case Progress():
                await self._record_progress(report.made)
            case _:
                pass

    async def _plan_spans(self, survey: Surveyed) -> None:
        """Queue the spans for all workers, if there are several or this one may not encode.

        Raises:
            Postponed: it may not, and there are no spans.
        """
        self._surveyed, self._mono = survey, survey.mono
        if not survey.segments and not self._is_short:  # all rungs are encoded: none plays early
            await self._extra_cores.aclose()
        facts = {"video": self._work.hash, "reused": survey.reused, "sound_kept": survey.kept}
        log.info(
            "source surveyed",
            extra={**facts, "spans": len(survey.spans), "reason": survey.reason},
        )
        if not (self._encodes or survey.segments or self._ladder is None):
            raise Postponed("Live streams need the machine, and all of the file must be encoded.")
        if len(survey.spans) > (1 if self._encodes else 0):
            self.is_planned = True
            spans = planned_spans(survey.spans)
            await self._context.write(
                lambda job, now_us: self._context.spans.plan(job, spans, now_us), self._job
            )
            self._context.more.set()

    async def _publish_early(self, names: tuple[str, ...]) -> None:
        """Publish the rungs `names`, if others follow and no older file's video plays."""
        if not self._is_short:
            await self._extra_cores.aclose()
        shown = self._work.media
        if shown is not None and not shown.startswith(f"{self._work.generation}-"):
            return
        rungs = self._ladder.renditions if self._ladder is not None else ()
        playable = tuple(rung for rung in rungs if rung.name in names)
        if not playable or len(playable) == len(rungs) or self._renditions is None:
            return
        piece = MadePiece(folder=self._media_folder, renditions=self._renditions.made(names))
        playlists, list_sizes = await write_playlists(
            self._context.objects,
            self._work.hash,
            self._media_folder,
            playable,
            (piece,),
            audible=self._surveyed.audible,
            channels=1 if self._mono else 2,
        )
        self._early_playlist_bytes = sum(list_sizes.values())
        early = MadeVideo(
            media=self._media_folder,
            size=piece.size + self._early_playlist_bytes,
            length_us=length_and_warnings(self._claimed_us, playlists.length)[0],
            rungs=tuple(
                MadeRung(
                    number=BOX_NUMBERS[rung.name],
                    size=playlists.sizes[rung.name] + list_sizes[rung.name],
                    seconds=0,
                )
                for rung in playable
            ),
            posters=None,
            poster_labels=(),
        )
        await mark_replaced(
            self._context.objects,
            self._work.hash,
            shown,
            generation=self._work.generation,
            by=(self._media_folder,),
        )
        await self._context.objects.make_durable(video(self._work.hash))
        await self._context.write(
            lambda job, now_us: self._context.transcoding.publish_partial(job, early, now_us),
            self._job,
        )
        log.info("video playable", extra={"video": self._work.hash, "job": self._job.id})

    async def _record_progress(self, made_ms: int) -> None:
        update = self._progress.update(made_ms, self._context.clock())
        if update is None or self.is_planned:
            return
        try:
            await self._context.transcoding.progress(self._job, *update, self._context.now_us())
        except CatalogError as error:
            log.warning("progress not written", extra={"job": self._job.id, "cause": str(error)})

    async def _posters(self, path: Path, outcome: EngineOutcome) -> VodImages:
        try:
            return await make_images(
                self._work.hash, path, self._ladder, length_us=self._claimed_us
            )
        except (NotMedia, PosterError) as error:
            log.warning("no posters", extra={"video": self._work.hash, "cause": str(error)})
            outcome.warnings["no posters"] = 1
            return VodImages(posters=())

    async def _subtitles(
        self, path: Path, probed: Probed, outcome: EngineOutcome
    ) -> tuple[MadeSubtitles, ...]:
        if self._ladder is None or not probed.subtitles:
            return ()
        tracks = await read_subtitles(self._work.hash, path, outcome.warnings)
        # What the container claims may be the end of a subtitle that is shown for ever.
        made = self._piece(outcome).renditions
        ticks = playing_ticks(made, self._surveyed.spans)
        length_ms = rescale(ticks, VIDEO_SCALE, MILLISECONDS) or probed.length_us // 1000
        return await store_subtitles(
            self._context.objects, self._work.hash, self._media_folder, tracks, length_ms
        )
