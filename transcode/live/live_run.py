"""A run on its way from packets to a publication: the parent's side of a live engine.

One `LiveRun` is the sink of one run. What is offered waits in a backlog with a bound and a policy;
one task opens the publication, keeps an engine alive, writes to it and stores what it makes.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from media.hls.segment import InitSection, Part, Segment
from media.packet import MediaPacket
from media.ticks import MICROSECONDS, ORIGIN_SECONDS, VIDEO_SCALE
from media.track import Track
from storage.errors import StorageError
from storage.live.publication import Publication
from storage.objects.base import ObjectError
from transcode.live.backlog import Backlog, Nobody, Source, Waiting
from transcode.live.epochs import Epochs
from transcode.live.keyframe_monitor import Keyframes
from transcode.live.load_shedding import RunLoad
from transcode.live.metrics import RunFigures
from transcode.live.ports import Home
from transcode.live.posters import LivePosters
from transcode.protocol.engine_process import Engine, EngineLost, engine
from transcode.protocol.messages import (
    Begin,
    Finish,
    Finished,
    Packet,
    Posters,
    Prepared,
    Progress,
    Reach,
    Rungs,
    Slate,
    Spliced,
    TakenOver,
    Trouble,
    WireError,
)

__all__ = ["LiveRun"]

log = logging.getLogger(__name__)

# Engines that die more often than this within the period have a cause that a new one will not cure.
_DEATHS: Final = 5
_DEATH_PERIOD: Final = 60.0
# Orders were written and no report came: an engine at work reports about once a second.
SILENT_SECONDS: Final = 15.0
# How often an engine is told how far the slate goes: less than a part's length.
REACH_SECONDS: Final = 0.2


class LiveRun:
    """The sink of one run (see `ingest.stream.ports.PacketSink`)."""

    def __init__(
        self,
        *,
        home: Home,
        stream: str,
        active: frozenset[str],
        window: float,
        notify: Callable[[], None],
        posters: LivePosters | None = None,
        slate: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = stream
        self.figures = RunFigures()
        self.backlog = Backlog(home.wall_us)
        self._home = home
        self._window = window
        self._notify = notify
        self._posters = posters
        self._slate = slate
        self._clock = clock
        self._more = asyncio.Event()
        self._ended = False
        self._closed = False
        self._source: Source | None = None  # what the engine was told of last
        self._empty_since: float | None = None  # while nobody is on air: since when
        self._publication: Publication | None = None
        self._epochs = Epochs(active)
        self._playable = False
        self._last_report = 0.0
        self._deaths: deque[float] = deque()
        self._keyframes = Keyframes()

    # -- the sink ---------------------------------------------------------------------------------

    @property
    def playable(self) -> bool:
        """Whether viewers have been given a segment of this run."""
        return self._playable

    def begin(self, tracks: tuple[Track, ...], late: float = 0.0, *, splice: bool = False) -> None:
        """A source starts or starts again; its first packet came `late` seconds ago.

        `splice`: it replaces the one that is on, and goes on where that ends.
        """
        self.figures.begun()
        self._keyframes.begin()
        self.backlog.begin(tracks, self._clock(), late, splice=splice)
        self._more.set()

    def offer(self, packet: MediaPacket) -> None:
        """Take a packet, or drop it up to the next keyframe where the engine is too far behind."""
        now = self._clock()
        self.figures.offered(packet)
        if self._keyframes.regular_again(packet):
            log.info("keyframes are regular again", extra={"stream": self.stream})
            self.figures.begun()
            self.backlog.again(now)
        dropping = self.backlog.dropping
        if not self.backlog.offer(packet, now):
            self.figures.dropped += 1
            if not dropping:
                log.warning("engine too slow: media dropped", extra={"stream": self.stream})
        self._more.set()

    def slate(self, late: float = 0.0) -> None:
        """Nobody is on air since `late` seconds ago: viewers get the slate until one begins."""
        self.figures.idle()
        self._keyframes.begin()
        self.backlog.leave(self._clock(), late)
        self._more.set()

    def finish(self) -> None:
        """The source ended."""
        self.backlog.finish(self._clock())
        self._more.set()

    def end(self) -> None:
        """The run is over for its viewers."""
        self._ended = True

    def close(self) -> None:
        """Nothing follows: make what is queued, then let `serve` return."""
        self._closed = True
        self._more.set()

    # -- overload ---------------------------------------------------------------------------------

    @property
    def rungs(self) -> dict[str, bool]:
        """The renditions of the picture, and whether each is made now."""
        shed = self.figures.off.intersection(self._epochs.encoded)
        return {rung.name: rung.name not in shed for rung in self._epochs.renditions}

    def load(self) -> RunLoad | None:
        """Return how the run stands; None where no source is being made, or nobody knows yet."""
        epochs, on_air = self._epochs, self._source is not None and self._empty_since is None
        if not on_air or not epochs.encoded or not self.figures.costs:
            return None
        return self.figures.load(self.stream, epochs.encoded, least=epochs.least)

    async def make_all_but(self, off: frozenset[str]) -> None:
        """Have the engine make all rungs but these, from the next cut on."""
        shed, back = sorted(off - self.figures.off), sorted(self.figures.off - off)
        self.figures.off = off
        self.figures.sheds += len(shed)
        self.backlog.urge(Rungs(off=tuple(sorted(off))), self._clock())
        self._more.set()
        if shed:
            late = round(self.figures.late, 1)
            log.warning(
                "rung shed",
                extra={"stream": self.stream, "rendition": ",".join(shed), "late": late},
            )
            await self._home.happened(self.stream, "rung shed", {"renditions": shed, "late": late})
        if back:
            self._log("rung returns", rendition=",".join(back))
            await self._home.happened(self.stream, "rung returned", {"renditions": back})

    # -- the task ---------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Keep an engine alive while the run lasts, then end the publication where it is over."""
        while await self._anything():
            try:
                async with engine("live", self.stream) as child:
                    await self._work(child)
            except* (EngineLost, StorageError, WireError) as lost:
                await self._engine_lost(lost)
        await self.over()

    async def over(self) -> None:
        """End the publication, where the run is over: `serve` does, where it comes to its end."""
        if self._ended and self._publication is not None:
            await self._publication.finish()

    async def _anything(self) -> bool:
        """Wait until there is something to make; False where the run is closed."""
        while not self.backlog and self._empty_since is None and not self._closed:
            self._more.clear()
            await self._more.wait()
        return bool(self.backlog) or not self._closed

    async def _work(self, child: Engine) -> None:
        """Feed one engine until the run is closed, storing what it makes."""
        self._last_report = self._clock()
        self.figures.engine_begun()
        log.info("engine on", extra={"stream": self.stream, "engine": child.pid})
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(child))
            storing = tasks.create_task(self._store(child))
            feeding = tasks.create_task(self._feed(child))
            await asyncio.wait((storing, feeding), return_when=asyncio.FIRST_COMPLETED)
            if storing.done() and not storing.cancelled() and not feeding.done():
                # Its output ended while there was more to say: it died.
                raise EngineLost(await child.wait())
            await storing
            watching.cancel()
        status = await child.wait()
        if status != 0:
            raise EngineLost(status)

    async def _feed(self, child: Engine) -> None:
        if self._source is not None and self._empty_since is not None:
            self.backlog.restart_empty(self._source, self._clock())
        elif self._source is not None:  # a new engine for a source that is still sending
            self.backlog.restart(self._source, self._clock())
        while True:
            while self.backlog:
                await self._order(child, self.backlog.pop())
            if self._closed:
                child.close_input()
                return
            self._more.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._empty_since is None else REACH_SECONDS):
                    await self._more.wait()
            if self._empty_since is not None and not self.backlog:
                await self._reach(child, self._empty_since)

    async def _order(self, child: Engine, waiting: Waiting) -> None:
        """Have the engine do what has waited the longest."""
        match waiting:
            case Source():
                if self._empty_since is not None:
                    # Up to when it came, so that the media go on with the wall clock.
                    late_us = max(0, self._home.wall_us() - waiting.wall_us)
                    await self._reach(child, self._empty_since + late_us / MICROSECONDS)
                self._empty_since = None
                await child.send(await self._beginning(waiting))
            case Nobody():
                self._empty_since = waiting.since
                address = self._slate
                picture = await self._home.picture(self.stream, address) if address else None
                self._log("slate")
                await child.send(Slate(picture=picture))
                await self._reach(child, waiting.since)
            case Finish():
                self._source = self._empty_since = None
                await child.send(waiting)
            case Packet() | Rungs():
                await child.send(waiting)

    async def _reach(self, child: Engine, since: float) -> None:
        """Have the slate shown up to now."""
        elapsed = max(0.0, self._clock() - since)
        await child.send(Reach(elapsed=round(elapsed * VIDEO_SCALE)))

    async def _beginning(self, source: Source) -> Begin:
        """Open what the source needs and say where it begins."""
        self._source = source
        publication = await self._opened(picture=source.video is not None)
        ladder = self._epochs.ladder(source.video)
        epoch = self._epochs.begin(ladder, wall_us=source.wall_us, following=publication.epochs)
        return Begin(
            epoch=epoch,
            video=source.video,
            audio=source.audio,
            ladder=ladder,
            start=max(publication.end, ORIGIN_SECONDS * VIDEO_SCALE),
            sequence=publication.next_sequence,
            inits=publication.next_inits,
            discontinuity=publication.next_sequence > 0,
            off=tuple(sorted(self.figures.off)),
            poster=self._posters.every if self._posters is not None else 0,
            splice=source.splice,
        )

    async def _opened(self, *, picture: bool) -> Publication:
        if self._publication is None:
            self._publication = await self._home.open_publication(
                self.stream, self._window, picture=picture
            )
            self._epochs.renditions = self._publication.renditions
            self._log("publication opens", run=self._publication.run)
        return self._publication

    async def _store(self, child: Engine) -> None:
        async for report in child.reports():
            self._last_report = self._clock()
            match report:
                case InitSection() | Part() | Segment() if self._publication is not None:
                    await self._take(self._publication, report)
                case Prepared() if self._publication is not None:
                    await self._prepare(self._publication, report)
                case Spliced():  # players are told nothing of the new source
                    self._epochs.prepared(report)
                    self._log("spliced", reused=report.reused)
                case Progress():
                    self._progress(report)
                case TakenOver():
                    await self._taken_over(report)
                case Trouble():
                    self._log("engine trouble", what=report.what, detail=report.detail)
                case Posters() if self._posters is not None:
                    self._posters.offer(self.stream, report)
                case Finished():
                    self._log("source made", frames=report.frames_in, **report.frames_out)
                case _:
                    pass

    async def _prepare(self, publication: Publication, report: Prepared) -> None:
        epoch = self._epochs.prepared(report)
        await publication.prepare(report.epoch, epoch.renditions, epoch.wall_us)
        self._log("renditions", rendition=",".join(report.names), reused=report.reused)

    async def _taken_over(self, report: TakenOver) -> None:
        """The encoder makes the top rung, too: it counts as one that can be shed."""
        source = self._source
        video = source.video if source is not None and not report.for_good else None
        if self._epochs.taken_over(report) and video is not None:
            self._keyframes.lost(video)
        cause = "another picture than announced" if report.for_good else "keyframes too far apart"
        log.warning("top rung encoded", extra={"stream": self.stream, "cause": cause})
        await self._home.happened(self.stream, "top rung encoded", {"cause": cause})

    def _progress(self, report: Progress) -> None:
        current = self._epochs.is_newest(report.epoch)
        self.figures.report(report, self._last_report, current=current)

    def _log(self, event: str, /, **facts: object) -> None:
        log.info(event, extra={"stream": self.stream, **facts})

    async def _take(self, publication: Publication, report: InitSection | Part | Segment) -> None:
        try:
            await publication.append(report)
        except ObjectError as error:
            # It is a gap, and the run goes on: a full disk may have room for the next.
            log.warning("segment not stored", extra={"stream": self.stream, "cause": str(error)})
        if isinstance(report, Segment) and not report.gap:
            self.figures.segments += 1
            self.figures.bytes_out += report.size
            if not self._playable and publication.end > 0:
                self._playable = True
                self._notify()

    async def _watch(self, child: Engine) -> None:
        """Kill an engine that takes orders and says nothing."""
        while True:
            await asyncio.sleep(1.0)
            if self._source is None:
                self._last_report = self._clock()
            elif self._clock() - self._last_report > SILENT_SECONDS:
                log.error("engine silent: killed", extra={"stream": self.stream})
                child.kill()

    async def _engine_lost(self, lost: BaseExceptionGroup[Exception]) -> None:
        """Make ready for the next engine, or give up where they die too often."""
        self.figures.deaths += 1
        now = self._clock()
        self._deaths.append(now)
        while now - self._deaths[0] > _DEATH_PERIOD:
            self._deaths.popleft()
        causes = "; ".join(str(error) for error in _leaves(lost))
        log.error("engine lost", extra={"stream": self.stream, "cause": causes})
        await self._home.happened(self.stream, "engine lost", {"cause": causes})
        if self._publication is not None:
            await self._publication.drop_partial()
        if len(self._deaths) >= _DEATHS:
            if self._publication is not None:
                await self._publication.finish()
            raise lost


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
