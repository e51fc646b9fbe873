"""A run on its way from packets to a publication: the parent's side of a live engine.

One `LiveRun` is the sink of one run. What is offered waits in a backlog with a bound and a policy;
one task opens the publication, keeps an engine alive, writes to it and stores what it makes.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from media.ladder import Ladder, Rendition, ladder_for
from media.packet import MediaPacket
from media.segment import InitSection, Part, Segment
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from media.track import Track, VideoTrack
from storage.errors import StorageError
from storage.objects.base import ObjectError
from storage.publication import Publication
from transcode.backlog import Backlog, Source
from transcode.figures import RunFigures
from transcode.keyframes import Keyframes
from transcode.overload import RunLoad
from transcode.process import Engine, EngineLost, engine
from transcode.wire import (
    Begin,
    Finish,
    Finished,
    Prepared,
    Progress,
    Rungs,
    TakenOver,
    Trouble,
    WireError,
)

__all__ = ["Home", "LiveRun"]

log = logging.getLogger(__name__)

# Engines that die more often than this within the period have a cause that a new one will not cure.
_DEATHS: Final = 5
_DEATH_PERIOD: Final = 60.0
# Orders were written and no report came: an engine at work reports about once a second.
SILENT_SECONDS: Final = 15.0


class Home(Protocol):
    """What a run needs of the place it belongs to."""

    def wall_us(self) -> int:
        """Return the time of day, in microseconds since the Unix epoch."""
        ...

    async def open_publication(self, stream: str, window: float, *, picture: bool) -> Publication:
        """Go on with the stream's newest run where a restart cut it off, else begin another.

        `picture` says whether the source has one; a run keeps what it began with.
        """
        ...

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        """Write down what the stream's owner may want to know."""
        ...


class _Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the engine for one source."""

    renditions: tuple[Rendition, ...]
    wall_us: int


class LiveRun:
    """The sink of one run (see `ingest.ports.PacketSink`)."""

    def __init__(
        self,
        *,
        home: Home,
        stream: str,
        active: frozenset[str],
        window: float,
        notify: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.figures = RunFigures()
        self.backlog = Backlog(home.wall_us)
        self._home = home
        self._active = active
        self._window = window
        self._notify = notify
        self._more = asyncio.Event()
        self._ended = False
        self._closed = False
        self._source: Source | None = None  # what the engine was told of last
        self._publication: Publication | None = None
        self._renditions: tuple[Rendition, ...] = ()  # the picture's, from the first source on
        self._epochs: dict[int, _Epoch] = {}
        self._playable = False
        self._last_report = 0.0
        self._deaths: deque[float] = deque()
        self._keyframes = Keyframes()
        self._encoded: tuple[str, ...] = ()  # the rungs that are made by an encoder, largest first
        self._least = 1

    # -- the sink ---------------------------------------------------------------------------------

    @property
    def playable(self) -> bool:
        """Whether viewers have been given a segment of this run."""
        return self._playable

    def begin(self, tracks: tuple[Track, ...], late: float = 0.0) -> None:
        """A source starts or starts again; its first packet came `late` seconds ago."""
        self.figures.begun()
        self._keyframes.begin()
        self.backlog.begin(tracks, time.monotonic(), late)
        self._more.set()

    def offer(self, packet: MediaPacket) -> None:
        """Take a packet, or drop it up to the next keyframe where the engine is too far behind."""
        now = time.monotonic()
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

    def finish(self) -> None:
        """The source ended."""
        self.backlog.finish(time.monotonic())
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
        shed = self.figures.off.intersection(self._encoded)
        return {rung.name: rung.name not in shed for rung in self._renditions}

    def load(self) -> RunLoad | None:
        """Return how the run stands; None where no source is being made, or nobody knows yet."""
        if self._source is None or not self._encoded or not self.figures.pace:
            return None
        return self.figures.load(self.stream, self._encoded, least=self._least)

    async def make_all_but(self, off: frozenset[str]) -> None:
        """Have the engine make all rungs but these, from the next cut on."""
        shed, back = sorted(off - self.figures.off), sorted(self.figures.off - off)
        self.figures.off = off
        self.figures.sheds += len(shed)
        self.backlog.urge(Rungs(off=tuple(sorted(off))), time.monotonic())
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
        if self._ended and self._publication is not None:
            await self._publication.finish()

    async def _anything(self) -> bool:
        """Wait until there is something to make; False where the run is closed."""
        while not self.backlog and not self._closed:
            self._more.clear()
            await self._more.wait()
        return bool(self.backlog)

    async def _work(self, child: Engine) -> None:
        """Feed one engine until the run is closed, storing what it makes."""
        self._last_report = time.monotonic()
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
        if self._source is not None:  # a new engine for a source that is still sending
            self.backlog.restart(self._source, time.monotonic())
        while True:
            while self.backlog:
                order = self.backlog.pop()
                if isinstance(order, Source):
                    await child.send(await self._beginning(order))
                    continue
                if isinstance(order, Finish):
                    self._source = None
                await child.send(order)
            if self._closed:
                child.close_input()
                return
            self._more.clear()
            await self._more.wait()

    async def _beginning(self, source: Source) -> Begin:
        """Open what the source needs and say where it begins."""
        self._source = source
        video = source.video
        publication = await self._opened(picture=video is not None)
        ladder = self._ladder(video) if video is not None else None
        renditions = ladder.renditions if ladder is not None else ()
        epoch = max([publication.epochs - 1, *self._epochs]) + 1
        self._epochs[epoch] = _Epoch(renditions=renditions, wall_us=source.wall_us)
        return Begin(
            epoch=epoch,
            video=video,
            audio=source.audio,
            ladder=ladder,
            start=max(publication.end, ORIGIN_SECONDS * VIDEO_SCALE),
            sequence=publication.next_sequence,
            inits=publication.next_inits,
            discontinuity=publication.next_sequence > 0,
            off=tuple(sorted(self.figures.off)),
        )

    async def _opened(self, *, picture: bool) -> Publication:
        if self._publication is None:
            self._publication = await self._home.open_publication(
                self.stream, self._window, picture=picture
            )
            self._renditions = self._publication.renditions
            self._log("publication opens", run=self._publication.run)
        return self._publication

    def _ladder(self, video: VideoTrack) -> Ladder:
        """Return the renditions that the run has, or those for its first source.

        Viewers hold the playlists of a run: a source of another size is fitted into its renditions,
        and only one of the top rung's own size can lend it its packets.
        """
        if not self._renditions:
            ladder = ladder_for(video.width, video.height, self._active)
            self._renditions = ladder.renditions
            return ladder
        top, *others = self._renditions
        same = (top.width, top.height) == (video.width, video.height)
        return Ladder((msgspec.structs.replace(top, source_size=same), *others))

    async def _store(self, child: Engine) -> None:
        async for report in child.reports():
            self._last_report = time.monotonic()
            match report:
                case InitSection() | Part() | Segment() if self._publication is not None:
                    await self._take(self._publication, report)
                case Prepared() if self._publication is not None:
                    await self._prepare(self._publication, report)
                case Progress():
                    self._progress(report)
                case TakenOver():
                    await self._taken_over(report)
                case Trouble():
                    self._log("engine trouble", what=report.what, detail=report.detail)
                case Finished():
                    self._log("source made", frames=report.frames_in, **report.frames_out)
                case _:
                    pass

    async def _prepare(self, publication: Publication, report: Prepared) -> None:
        # Reports come in the order of the sources, which may begin faster than they are made.
        self._epochs = {key: self._epochs[key] for key in self._epochs if key >= report.epoch}
        epoch = self._epochs[report.epoch]
        await publication.prepare(report.epoch, epoch.renditions, epoch.wall_us)
        self._encoded = tuple(rung.name for rung in epoch.renditions if rung.name != report.reused)
        self._least = 0 if report.reused is not None else 1
        self._log("renditions", rendition=",".join(report.names), reused=report.reused)

    async def _taken_over(self, report: TakenOver) -> None:
        """The encoder makes the top rung, too: it counts as one that can be shed."""
        if report.epoch == max(self._epochs, default=-1):
            self._least = 1
            self._encoded = tuple(rung.name for rung in self._epochs[report.epoch].renditions)
            source = self._source
            if source is not None and source.video is not None and not report.for_good:
                self._keyframes.lost(source.video)
        cause = "another picture than announced" if report.for_good else "keyframes too far apart"
        log.warning("top rung encoded", extra={"stream": self.stream, "cause": cause})
        await self._home.happened(self.stream, "top rung encoded", {"cause": cause})

    def _progress(self, report: Progress) -> None:
        current = report.epoch == max(self._epochs, default=-1)
        self.figures.report(report, self._last_report, current=current)

    def _log(self, event: str, /, **facts: object) -> None:
        log.info(event, extra={"stream": self.stream, **facts})

    async def _take(self, publication: Publication, report: InitSection | Part | Segment) -> None:
        try:
            await publication.take(report)
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
                self._last_report = time.monotonic()
            elif time.monotonic() - self._last_report > SILENT_SECONDS:
                log.error("engine silent: killed", extra={"stream": self.stream})
                child.kill()

    async def _engine_lost(self, lost: BaseExceptionGroup[Exception]) -> None:
        """Make ready for the next engine, or give up where they die too often."""
        self.figures.deaths += 1
        now = time.monotonic()
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
