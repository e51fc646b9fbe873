"""A run on its way from packets to a publication: the parent's side of a live engine.

One `LiveRun` is the sink of one run. What is offered waits in a queue with a bound and a policy;
one task opens the publication, keeps an engine alive, writes to it and stores what it makes.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from media.ladder import Rendition, ladder_for
from media.packet import MediaPacket
from media.segment import InitSection, Part, Segment
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from media.track import AudioTrack, Track, VideoTrack
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.objects.base import ObjectError, Objects
from storage.publication import Publication, Window
from transcode.process import Engine, EngineLost, engine
from transcode.wire import Begin, Finish, Finished, Packet, Prepared, Progress, Trouble

__all__ = ["LiveRun", "LiveTranscoding", "RunFigures"]

log = logging.getLogger(__name__)

# What may wait for the engine: 4 s at 32 Mbit/s. More means that it cannot keep up.
QUEUE_BYTES: Final = 16 << 20
# Engines that die more often than this within the period have a cause that a new one will not cure.
_DEATHS: Final = 5
_DEATH_PERIOD: Final = 60.0
# Orders were written and no report came: an engine at work reports about once a second.
SILENT_SECONDS: Final = 15.0
_CLOSE_SECONDS: Final = 10.0
_EVER: Final = 100 * 365 * 86_400.0  # seconds: however long ago


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """A beginning as it waits in the queue; `wall_us` is when it came."""

    video: VideoTrack | None
    audio: AudioTrack | None
    wall_us: int


class _Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the engine for one source."""

    renditions: tuple[Rendition, ...]
    wall_us: int


class RunFigures:
    """What the run's engine did so far, for the metrics."""

    def __init__(self) -> None:
        self.packets = 0
        self.dropped = 0
        self.deaths = 0
        self.segments = 0
        self.progress: Progress | None = None


class LiveRun:
    """The sink of one run (see `ingest.ports.PacketSink`)."""

    def __init__(
        self,
        *,
        transcoding: "LiveTranscoding",
        stream: str,
        active: frozenset[str],
        window: float,
        notify: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.figures = RunFigures()
        self._home = transcoding
        self._active = active
        self._window = window
        self._notify = notify
        self._queue: deque[_Source | Packet | Finish] = deque()
        self.queued_bytes = 0
        self._skipping = False
        self._more = asyncio.Event()
        self._ended = False
        self._closed = False
        self._source: _Source | None = None
        self._publication: Publication | None = None
        self._epochs: dict[int, _Epoch] = {}
        self._playable = False
        self._last_report = 0.0
        self._deaths: deque[float] = deque()

    # -- the sink ---------------------------------------------------------------------------------

    @property
    def playable(self) -> bool:
        """Whether viewers have been given a segment of this run."""
        return self._playable

    def begin(self, tracks: tuple[Track, ...]) -> None:
        """A source starts or starts again."""
        video = next((track for track in tracks if isinstance(track, VideoTrack)), None)
        audio = next((track for track in tracks if isinstance(track, AudioTrack)), None)
        self._put(_Source(video=video, audio=audio, wall_us=self._home.wall_us()))
        self._skipping = False

    def offer(self, packet: MediaPacket) -> None:
        """Take a packet, or drop it up to the next keyframe where the engine is too far behind."""
        video = isinstance(packet.track, VideoTrack)
        self.figures.packets += 1
        if self.queued_bytes + len(packet.data) > QUEUE_BYTES and not self._skipping:
            self._skipping = True
            log.warning("engine too slow: media dropped", extra={"stream": self.stream})
        if self._skipping:
            if not (video and packet.key and self.queued_bytes < QUEUE_BYTES // 2):
                self.figures.dropped += 1
                return
            self._skipping = False
        self.queued_bytes += len(packet.data)
        self._put(
            Packet(video=video, dts=packet.dts, pts=packet.pts, key=packet.key, data=packet.data)
        )

    def finish(self) -> None:
        """The source ended."""
        self._put(Finish())

    def end(self) -> None:
        """The run is over for its viewers."""
        self._ended = True

    def close(self) -> None:
        """Nothing follows: make what is queued, then let `serve` return."""
        self._closed = True
        self._more.set()

    def _put(self, order: _Source | Packet | Finish) -> None:
        self._queue.append(order)
        self._more.set()

    # -- the task ---------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Keep an engine alive while the run lasts, then end the publication where it is over."""
        while await self._anything():
            try:
                async with engine("live", self.stream) as child:
                    await self._work(child)
            except* (EngineLost, StorageError) as lost:
                await self._engine_lost(lost)
        if self._ended and self._publication is not None:
            await self._publication.finish()

    async def _anything(self) -> bool:
        """Wait until there is something to make; False where the run is closed."""
        while not self._queue and not self._closed:
            self._more.clear()
            await self._more.wait()
        return bool(self._queue)

    async def _work(self, child: Engine) -> None:
        """Feed one engine until the run is closed, storing what it makes."""
        self._last_report = time.monotonic()
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
            self._skip_to_beginning()
        while True:
            while self._queue:
                order = self._queue.popleft()
                if isinstance(order, Packet):
                    self.queued_bytes -= len(order.data)
                    await child.send(order)
                elif isinstance(order, _Source):
                    await child.send(await self._beginning(order))
                else:
                    self._source = None
                    await child.send(order)
            if self._closed:
                child.close_input()
                return
            self._more.clear()
            await self._more.wait()

    async def _beginning(self, source: _Source) -> Begin:
        """Open what the source needs and say where it begins."""
        self._source = source
        video = source.video
        ladder = ladder_for(video.width, video.height, self._active) if video is not None else None
        renditions = ladder.renditions if ladder is not None else ()
        if self._publication is None:
            self._publication = await self._home.open_publication(
                self.stream, renditions, self._window
            )
            log.info(
                "publication opens", extra={"stream": self.stream, "run": self._publication.run}
            )
        publication = self._publication
        epoch = max([publication.epochs - 1, *self._epochs]) + 1
        # Reports of the source before this one may still be on their way; older ones are not.
        self._epochs = {key: self._epochs[key] for key in self._epochs if key == epoch - 1}
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
        )

    def _skip_to_beginning(self) -> None:
        """Let the present source begin again in a new engine, from its next keyframe."""
        source = self._source
        while self._queue and isinstance(head := self._queue[0], Packet):
            if head.video and head.key:
                break
            self.queued_bytes -= len(head.data)
            self._queue.popleft()
        if source is not None and not (self._queue and isinstance(self._queue[0], _Source)):
            self._queue.appendleft(msgspec.structs.replace(source, wall_us=self._home.wall_us()))

    async def _store(self, child: Engine) -> None:
        async for report in child.reports():
            self._last_report = time.monotonic()
            match report:
                case InitSection() | Part() | Segment() if self._publication is not None:
                    await self._take(self._publication, report)
                case Prepared() if self._publication is not None:
                    await self._prepare(self._publication, report)
                case Progress():
                    self.figures.progress = report
                case Trouble():
                    self._log("engine trouble", what=report.what, detail=report.detail)
                case Finished():
                    self._log("source made", frames=report.frames_in, **report.frames_out)
                case _:
                    pass

    async def _prepare(self, publication: Publication, report: Prepared) -> None:
        epoch = self._epochs[report.epoch]
        await publication.prepare(report.epoch, epoch.renditions, epoch.wall_us)
        self._log("renditions", rendition=",".join(report.names), reused=report.reused)

    def _log(self, event: str, /, **facts: object) -> None:
        log.info(event, extra={"stream": self.stream, **facts})

    async def _take(self, publication: Publication, report: InitSection | Part | Segment) -> None:
        try:
            await publication.take(report)
        except ObjectError as error:
            # The step is not listed and the run goes on: a full disk may have room for the next.
            log.warning("segment not stored", extra={"stream": self.stream, "cause": str(error)})
        if isinstance(report, Segment):
            self.figures.segments += 1
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


class LiveTranscoding:
    """Makes runs: binds engines to the places where their media is kept."""

    def __init__(
        self,
        *,
        objects: Objects,
        edge: Edge,
        window: Window,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.wall_us = wall_us
        self.runs: dict[str, LiveRun] = {}
        self._objects = objects
        self._edge = edge
        self._listed = window
        self._opening = asyncio.Lock()

    async def open_publication(
        self, stream: str, renditions: tuple[Rendition, ...], window: float
    ) -> Publication:
        """Go on with the stream's newest run where a restart cut it off, else begin another."""
        async with self._opening:
            resumed = await self._resume(stream, window)
            if resumed is not None:
                if resumed.renditions == renditions:
                    return resumed
                await resumed.finish()
            return await Publication.open(
                self._objects, self._edge, hash=stream, now_us=self.wall_us(), window=self._listed
            )

    async def end_abandoned(self, streams: Collection[str], window: float) -> None:
        """End the runs that a stop cut off and whose encoders did not come back.

        Those older than `window` seconds are ended at once, the others when it is over; a player
        would else wait in an open playlist for ever.
        """
        for patience in (0.0, window):
            await asyncio.sleep(patience)
            for stream in streams:
                try:
                    await self._end_abandoned(stream, 0.0 if patience else window)
                except StorageError as error:
                    log.warning("run not ended", extra={"stream": stream, "cause": str(error)})

    async def _end_abandoned(self, stream: str, window: float) -> None:
        async with self._opening:
            going_on = stream in self.runs or await self._resume(stream, window) is not None
            left = None if going_on else await self._resume(stream, _EVER)
            if left is not None:
                await left.finish()
                log.info("run ended", extra={"stream": stream, "run": left.run})

    async def _resume(self, stream: str, within: float) -> Publication | None:
        return await Publication.resume(
            self._objects,
            self._edge,
            hash=stream,
            now_us=self.wall_us(),
            window=self._listed,
            within_seconds=within,
        )

    @asynccontextmanager
    async def run(
        self, *, stream: str, active: frozenset[str], window: float, notify: Callable[[], None]
    ) -> AsyncGenerator[LiveRun, None]:
        """Open a run for the length of the block (see `ingest.ports.SinkFactory`)."""
        run = LiveRun(transcoding=self, stream=stream, active=active, window=window, notify=notify)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(run.serve())
            self.runs[stream] = run
            try:
                yield run
                run.close()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await serving
            finally:
                del self.runs[stream]
                serving.cancel()
