"""One attempt at a whole film: what is made of it in one piece, while its job is held.

What plays first is shown first: the film's own packets as the top rung, with the sound. What is
left to all workers is planned before anything is made, so that they can begin.
"""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from media.hls.segment import InitSection, Part, Segment
from media.ladder import AUDIO_RENDITION, BOX_NUMBERS, Ladder
from storage.catalog.records.transcoding import (
    MadeRung,
    MadeSubtitles,
    MadeVideo,
    PlannedRung,
    VideoWork,
)
from storage.catalog.videos.jobs import Jobs
from storage.catalog.videos.spans import Spans
from storage.catalog.videos.transcoding import Transcoding
from storage.errors import CatalogError
from storage.job_leases import HeldJob
from storage.objects.addresses import video_poster
from storage.objects.base import Objects
from transcode.inspect.probe import NotMedia, Probed, probe
from transcode.protocol.file_messages import Film, Ready, Surveyed
from transcode.protocol.messages import Progress, Report
from transcode.vod.asset_plan import (
    Original,
    Pace,
    folders_of,
    length_of,
    order_for,
    planned,
)
from transcode.vod.core_budget import Cores
from transcode.vod.engine_task import Said, work
from transcode.vod.playlists import stitch, stitched
from transcode.vod.posters import PosterError, Stills, posters
from transcode.vod.previews import store_previews
from transcode.vod.rendition_store import MadePiece, Renditions
from transcode.vod.subtitles import read_subtitles, store_subtitles

__all__ = ["Filming", "Studio"]

log = logging.getLogger(__name__)

# Nobody waits for the answer here, so a slow disk may take its time.
_PROBE_SECONDS: Final = 60.0
# A film that one engine makes alone gets the cores that are idle besides, where no other film waits
# for one. More than the usual ladder's rungs could not be used. A longer one keeps one free until
# it plays: beside a stretch that takes half as long again, as two cores may be threads of one.
_MOST_MORE: Final = 3
_ONE_MORE: Final = 1
_SHORT_US: Final = 20_000_000


class Studio(msgspec.Struct, frozen=True, kw_only=True):
    """What films are made with: `path_of` is where an object stands as a file, `clock` never goes
    back, `nudge` says that there are stretches to be made.
    """

    jobs: Jobs
    transcoding: Transcoding
    spans: Spans
    objects: Objects
    cores: Cores
    path_of: Callable[[str], Path]
    now_us: Callable[[], int]
    clock: Callable[[], float]
    nudge: Callable[[], None]


class Filming:
    """An attempt; `is_planned` says, after `make`, that there are stretches to wait for."""

    def __init__(self, studio: Studio, work: VideoWork, held: HeldJob) -> None:
        self.is_planned = False
        self._studio = studio
        self._work = work
        self._held = held
        self._media, self._stills, self._previews = folders_of(work, held)
        self._surveyed = Surveyed()
        self._mono = False
        self._advance = 0
        self._ladder: Ladder | None = None
        self._claimed_us = 0
        self._pace = Pace(0, 0.0)
        self._renditions: Renditions | None = None
        self._is_short = False
        self._besides = AsyncExitStack()  # cores

    async def make(self) -> Original:
        """Make what is made of the film in one piece.

        Raises:
            NotMedia, AttemptFailed, ProbeSlow, OutOfStep, StorageError, OSError: as they say.
        """
        path = self._studio.path_of(self._work.source)
        found = await probe(path, seconds=_PROBE_SECONDS)
        order = order_for(found)
        await self._plan(found, order)
        said = await self._film(path, order, found)
        stills = await self._posters(path, said)
        preview_size = await self._store(stills)
        subtitles = await self._subtitles(path, found, said)
        return Original(
            ladder=self._ladder,
            piece=self._piece(said),
            length_us=found.length_us,
            reused=self._surveyed.reused or said.reused,
            mono=self._mono,
            advance=self._advance,
            posters=self._stills if stills.posters else None,
            poster_labels=tuple(still.label for still in stills.posters),
            poster_size=sum(len(still.data) for still in stills.posters),
            previews=self._previews if preview_size else None,
            preview_size=preview_size,
            subtitles=subtitles,
        )

    async def _plan(self, found: Probed, order: Film) -> None:
        self._ladder, self._claimed_us = order.ladder, found.length_us
        rungs = order.ladder.renditions if order.ladder is not None else ()
        await self._studio.transcoding.plan(
            self._held,
            [
                PlannedRung(number=BOX_NUMBERS[rung.name], width=rung.width, height=rung.height)
                for rung in rungs
            ],
            self._studio.now_us(),
            length_us=found.length_us,
            width=found.width,
            height=found.height,
        )

    async def _film(self, path: Path, order: Film, found: Probed) -> Said:
        names = (*(order.ladder.names if order.ladder is not None else ()), AUDIO_RENDITION)
        self._renditions = Renditions(
            self._studio.objects, hash_=self._work.hash, folder=self._media, names=names
        )
        self._pace = Pace(found.length_us, self._studio.clock())
        waiting = await self._studio.jobs.waiting(self._studio.now_us())
        self._is_short = found.length_us <= _SHORT_US
        most = _MOST_MORE if self._is_short else _ONE_MORE
        async with self._besides as held:
            more = self._studio.cores.more(0 if waiting else most)
            besides = await held.enter_async_context(more)
            order = msgspec.structs.replace(order, threads=1 + besides if self._is_short else 1)
            return await work("film", self._work.hash, order, path, self._take)

    def _piece(self, said: Said) -> MadePiece:
        made = self._renditions.made() if self._renditions is not None else ()
        return MadePiece(
            folder=self._media,
            renditions=tuple(each for each in made if each.segments),
            cpu_ms=said.cpu_ms,
            warnings=said.warnings,
        )

    async def _take(self, report: Report) -> None:
        match report:
            case InitSection() | Part() | Segment():
                if self._renditions is not None:
                    await self._renditions.take(report)
            case Surveyed():
                await self._survey(report)
            case Ready():
                await self._play(report.names)
            case Progress():
                await self._progress(report.made)
            case _:
                pass

    async def _survey(self, found: Surveyed) -> None:
        """Leave the stretches to all workers, where there are several."""
        self._surveyed, self._mono = found, found.mono
        if not found.segments and not self._is_short:  # it goes another way
            await self._besides.aclose()
        facts = {"video": self._work.hash, "reused": found.reused, "sound_kept": found.kept}
        log.info(
            "film surveyed",
            extra={**facts, "spans": len(found.stretches), "reason": found.reason},
        )
        if len(found.stretches) > 1:
            self.is_planned = True
            spans = planned(found.stretches)
            await self._studio.spans.plan(self._held, spans, self._studio.now_us())
            self._studio.nudge()

    async def _play(self, names: tuple[str, ...]) -> None:
        """Show what plays already, where more is to come, and nothing better of an older file."""
        if not self._is_short:
            await self._besides.aclose()
        shown = self._work.media
        if shown is not None and not shown.startswith(f"{self._work.generation}-"):
            return
        rungs = self._ladder.renditions if self._ladder is not None else ()
        own = tuple(rung for rung in rungs if rung.name in names)
        if not own or len(own) == len(rungs) or self._renditions is None:
            return
        piece = MadePiece(folder=self._media, renditions=self._renditions.made(names))
        made = stitched(self._media, own, (piece,), channels=1 if self._mono else 2)
        lists = await stitch(self._studio.objects, self._work.hash, self._media, made)
        self._advance = sum(lists.values())
        await self._studio.transcoding.play(
            self._held,
            MadeVideo(
                media=self._media,
                size=piece.size + self._advance,
                length_us=length_of(self._claimed_us, made.length)[0],
                rungs=tuple(
                    MadeRung(
                        number=BOX_NUMBERS[rung.name],
                        size=made.sizes[rung.name] + lists[rung.name],
                        seconds=0,
                    )
                    for rung in own
                ),
                posters=None,
                poster_labels=(),
            ),
            self._studio.now_us(),
        )
        log.info("video plays", extra={"video": self._work.hash, "job": self._held.id})

    async def _progress(self, made_ms: int) -> None:
        told = self._pace.told(made_ms, self._studio.clock())
        if told is None or self.is_planned:
            return
        try:
            await self._studio.transcoding.progress(self._held, *told, self._studio.now_us())
        except CatalogError as error:
            log.warning("progress not written", extra={"job": self._held.id, "cause": str(error)})

    async def _posters(self, path: Path, said: Said) -> Stills:
        try:
            return await posters(path, self._ladder, length_us=self._claimed_us)
        except (NotMedia, PosterError) as error:
            log.warning("no posters", extra={"video": self._work.hash, "cause": str(error)})
            said.warnings["no posters"] = 1
            return Stills(posters=())

    async def _store(self, stills: Stills) -> int:
        """Store stills; returns the bytes of the previews."""
        objects, hash_ = self._studio.objects, self._work.hash
        for still in stills.posters:
            await objects.put(video_poster(hash_, self._stills, still.label), still.data)
        if stills.previews is None:
            return 0
        return await store_previews(
            objects, hash_, self._previews, stills.previews, self._claimed_us
        )

    async def _subtitles(self, path: Path, found: Probed, said: Said) -> tuple[MadeSubtitles, ...]:
        if self._ladder is None or not found.subtitles:
            return ()
        words = await read_subtitles(self._work.hash, path, said.warnings)
        return await store_subtitles(self._studio.objects, self._work.hash, self._media, words)
