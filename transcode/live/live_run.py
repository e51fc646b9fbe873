"""One live run: packets go to an engine, and its segments to a publication.

A `LiveRun` is the packet sink of one run. Packets wait in a bounded backlog; one task opens the
publication, keeps an engine alive, feeds it and publishes what it makes.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import msgspec

from delivery.run.publication import Publication
from delivery.run.run_objects import OwnershipLost
from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.packet import MediaPacket
from media.source_mark import FindMarks, no_marks
from media.stream_events import (
    EngineLostEvent,
    RungReturnedEvent,
    RungShedEvent,
    SoundMovedEvent,
    TopRungEncodedEvent,
)
from media.ticks import MICROSECONDS, ORIGIN_SECONDS, VIDEO_SCALE
from media.track import Track
from storage.cancellation import uncancelled
from storage.errors import StorageError
from transcode.live.backlog import Backlog, Joint, NoSource, QueueItem, SourceStart
from transcode.live.epochs import Epochs
from transcode.live.keyframe_monitor import KeyframeMonitor
from transcode.live.load_shedding import RunLoad
from transcode.live.metrics import RunMetrics
from transcode.live.ports import RunServices, RunSettings
from transcode.live.posters import LivePosters
from transcode.live.published_media import PublishedMedia
from transcode.protocol.engine_process import EngineLost, EngineProcess
from transcode.protocol.messages import (
    Begin,
    EngineReport,
    EpochFinished,
    ExtendSlate,
    Finish,
    LeaveOut,
    Packet,
    Placed,
    Posters,
    Prepared,
    Progress,
    ReuseSource,
    ShowSlate,
    SoundMoved,
    Spliced,
    TakenOver,
    Trouble,
    WireError,
)

log = logging.getLogger(__name__)
security = logging.getLogger("security")

# An engine at work reports about once a second.
SILENT_SECONDS: Final = 15.0
# How often the slate is extended: less than a part's length.
SLATE_SECONDS: Final = 0.2
# An encoder with two clocks has about the same offset each time it connects.
_SAME_OFFSET_MS: Final = 1_000


class LiveRun:
    """The sink of one run (see `ingest.stream.ports.PacketSink`)."""

    def __init__(
        self,
        *,
        services: RunServices,
        stream: str,
        active: frozenset[str],
        settings: RunSettings,
        on_playable: Callable[[], None],
        posters: LivePosters | None = None,
        slate: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = stream
        self.settings = settings
        self.metrics = RunMetrics()
        self.backlog = Backlog(services.wall_us, services.lag)
        self._services = services
        self._on_playable = on_playable
        self._posters = posters
        self._slate = slate
        self._clock = clock
        self._work_queued = asyncio.Event()
        self._ended = False
        self._closed = False
        self._source: SourceStart | None = None  # the source that the engine got last
        self._slate_since: float | None = None  # set while no source is on air
        self._publication: Publication | None = None
        self._opened = asyncio.Event()
        self._epochs = Epochs(active)
        self._playable = False
        self._engine_has_source = False
        # Since when the engine's next report is awaited; None while one is being handled.
        self._awaiting_since: float | None = None
        self._deaths = services.engine_deaths(stream)
        self._closing = asyncio.Event()
        self._owned_elsewhere = False
        self._keyframe_monitor = KeyframeMonitor()
        self._published = PublishedMedia()
        self._sound_offset_ms = 0  # as last recorded for its owner

    # -- the sink ---------------------------------------------------------------------------------

    @property
    def playable(self) -> bool:
        """True once viewers can play a segment of this run."""
        return self._playable

    def begin(
        self,
        tracks: tuple[Track, ...],
        late: float = 0.0,
        *,
        splice: bool = False,
        continues: bool = False,
        new_clock: bool = False,
        show_from: int | None = None,
        show_until: int | None = None,
        marks: FindMarks = no_marks,
    ) -> None:
        """Start a source, or start it again; its first packet came `late` seconds ago.

        With `splice` it replaces the source that is on air and continues where that one ends. With
        `continues` it is that source, and its pictures go on. `show_from` and `show_until` are
        where the one is shown from and the other to, and `marks` finds by what its clock is known
        again (see `PacketSink`).
        """
        self.metrics.begin_source(tracks)
        joint = Joint.NEW
        if continues:
            joint = Joint.CLOCK if new_clock else Joint.SOUND
        else:
            self._keyframe_monitor.stop()
        self.backlog.begin(
            tracks,
            self._clock(),
            late,
            splice=splice,
            joint=joint,
            show_from=show_from,
            show_until=show_until,
            marks=marks,
        )
        self._work_queued.set()

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        """Queue packets; drop them if the engine is too far behind, until there is room again."""
        now = self._clock()
        self.metrics.count_packets(packets)
        place = self._keyframe_monitor.find_regular(packets)
        if place is not None:
            self._queue(packets[:place], now)
            log.info("keyframes are regular again", extra={"stream": self.stream})
            self.backlog.reuse_source(now)
            packets = packets[place:]
        self._queue(packets, now)
        self._work_queued.set()

    def _queue(self, packets: Sequence[MediaPacket], now: float) -> None:
        dropping = self.backlog.dropping
        dropped = self.backlog.offer(packets, now)
        self.metrics.dropped += dropped
        if dropped and not dropping:
            log.warning("engine too slow: media dropped", extra={"stream": self.stream})

    def slate(self, late: float = 0.0) -> None:
        """Show the slate from `late` seconds ago until a source begins."""
        self.metrics.idle()
        self._keyframe_monitor.stop()
        self.backlog.begin_slate(self._clock(), late)
        self._work_queued.set()

    def finish(self) -> None:
        """End the source."""
        self.backlog.finish(self._clock())
        self._work_queued.set()

    def end(self) -> None:
        """Mark the run as over for its viewers."""
        self._ended = True

    def close(self) -> None:
        """Let `serve` return once the queue is empty; nothing is queued after this."""
        self._closed = True
        self._closing.set()
        self._work_queued.set()

    # -- overload ---------------------------------------------------------------------------------

    @property
    def rungs(self) -> dict[str, bool]:
        """The video renditions, and whether each is made now."""
        shed = self.metrics.off.intersection(self._epochs.encoded)
        return {rung.name: rung.name not in shed for rung in self._epochs.renditions}

    def load(self) -> RunLoad | None:
        """Return the run's load, or None if no source is on air or no cost is known yet."""
        epochs, on_air = self._epochs, self._source is not None and self._slate_since is None
        if not on_air or not epochs.encoded or not self.metrics.costs:
            return None
        return self.metrics.load(self.stream, epochs.encoded, min_rungs=epochs.min_rungs)

    def shed_rungs(self, off: frozenset[str]) -> None:
        """Make the engine encode all rungs except `off`, from the next cut on."""
        shed, back = sorted(off - self.metrics.off), sorted(self.metrics.off - off)
        self.metrics.off = off
        self.metrics.sheds += len(shed)
        self.backlog.put_first(LeaveOut(off=tuple(sorted(off))), self._clock())
        self._work_queued.set()
        if shed:
            late = round(self.metrics.lag, 1)
            log.warning(
                "rung shed",
                extra={"stream": self.stream, "rendition": ",".join(shed), "late": late},
            )
            self._services.record_event(self.stream, RungShedEvent(renditions=shed, late=late))
        if back:
            self._log("rung returns", rendition=",".join(back))
            self._services.record_event(self.stream, RungReturnedEvent(renditions=back))

    # -- the task ---------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Keep an engine alive while the run lasts, then end the publication if it is over.

        A run that fails ends its publication, too.
        """
        async with asyncio.TaskGroup() as tasks:
            storing = tasks.create_task(self._store())
            try:
                await self._run_engines()
            except Exception:
                # Players would otherwise wait for ever in a playlist without an end.
                if self._publication is not None:
                    await self._publication.finish()
                raise
            await self.end_publication()
            storing.cancel()

    async def _store(self) -> None:
        """Store what the publication has shown, until cancelled."""
        await self._opened.wait()
        while self._publication is not None:
            await self._publication.store_next()
            self._report_stored(self._publication)

    async def _run_engines(self) -> None:
        while not self._owned_elsewhere and await self._wait_for_work():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._deaths.pause(self._clock())):
                    await self._closing.wait()
            started, lost = self._clock(), None
            try:
                with uncancelled():
                    async with self._services.engine(self.stream) as child:
                        await self._run_engine(child)
            # OSError: the engine could not be started, for want of memory or processes for example.
            except* (EngineLost, OSError, StorageError, WireError) as errors:
                lost = errors
            if lost is not None:  # here: Python 3.11.2 puts what is raised above into a group
                await self._engine_lost(lost, started)

    async def end_publication(self) -> None:
        """Store what is left, and end the publication if the run is over; `serve` does so."""
        if self._publication is None:
            return
        if self._ended:
            await self._publication.finish()
        else:
            await self._publication.suspend()
        self._report_stored(self._publication)

    @contextlib.asynccontextmanager
    async def observed(self) -> AsyncGenerator[None, None]:
        """Let the run's observers finish what is under way at the end of the block."""
        try:
            yield
        finally:
            if self._publication is not None:
                await self._publication.release_observers()

    def _report_stored(self, publication: Publication) -> None:
        self._report_playable(publication)
        if publication.stored_until_us is not None:
            self._services.on_stored(self.stream, publication.stored_until_us)

    def _report_playable(self, publication: Publication) -> None:
        if not self._playable and publication.is_playable:
            self._playable = True
            self._on_playable()

    async def _wait_for_work(self) -> bool:
        """Wait until there is something to make; return False if the run is closed."""
        while not self.backlog and self._slate_since is None and not self._closed:
            self._work_queued.clear()
            await self._work_queued.wait()
        return bool(self.backlog) or not self._closed

    async def _run_engine(self, child: EngineProcess) -> None:
        """Feed one engine and publish what it makes, until the run is closed."""
        self._engine_has_source = False
        self._awaiting_since = self._clock()
        self.metrics.begin_engine()
        log.info("engine started", extra={"stream": self.stream, "engine": child.pid})
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(child))
            storing = tasks.create_task(self._handle_reports(child))
            feeding = tasks.create_task(self._feed(child))
            await asyncio.wait((storing, feeding), return_when=asyncio.FIRST_COMPLETED)
            if storing.done() and not storing.cancelled() and not feeding.done():
                # Its output ended before its input: it died.
                raise EngineLost(await child.wait())
            await storing
            watching.cancel()
        status = await child.wait()
        if status != 0:
            raise EngineLost(status)

    async def _feed(self, child: EngineProcess) -> None:
        published, self._published = self._published, PublishedMedia()
        if self._source is not None and self._slate_since is not None:
            self.backlog.resume_slate(self._source, self._clock())
        elif self._source is not None:  # a new engine for a source that is still sending
            end = published.source_end(self._epochs.newest)
            # Packets that two engines died of, one after the other, may cost the next one, too.
            again = end is not None or self._source.joint is not Joint.ENGINE
            self.backlog.resume_source(self._source, self._clock(), end, again=again)
        while True:
            while self.backlog:
                if packets := self.backlog.pop_packets():
                    await child.send(*packets)
                else:
                    await self._send(child, await self._next_item())
            if self._closed:
                child.close_input()
                return
            self._work_queued.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if self._slate_since is None else SLATE_SECONDS):
                    await self._work_queued.wait()
            if self._slate_since is not None and not self.backlog:
                await self._extend_slate(child, self._slate_since)

    async def _next_item(self) -> QueueItem:
        """Return the oldest item; the first source begins where another process left the run."""
        start = self.backlog.next_start
        if start is not None and self._publication is None:
            publication = await self._open_publication(picture=start.video is not None)
            if (left := publication.left) is not None:
                known = self.backlog.go_on_from(*left)
                self._log("run goes on", exact=known)
        return self.backlog.pop()

    async def _send(self, child: EngineProcess, item: QueueItem) -> None:
        """Send the engine the oldest item of the backlog."""
        match item:
            case SourceStart():
                if self._slate_since is not None:
                    # Up to the source's first packet, so that media time follows the wall clock.
                    late_us = max(0, self._services.wall_us() - item.wall_us)
                    await self._extend_slate(child, self._slate_since + late_us / MICROSECONDS)
                self._slate_since = None
                self._engine_has_source = False  # while waiting for the disk
                message = await self._begin_message(item)
                self._engine_has_source = True
                await child.send(message)
                for packet in item.preroll:
                    await child.send(packet)
            case NoSource():
                self._slate_since = item.since
                address = self._slate
                picture = (
                    await self._services.read_slate_image(self.stream, address) if address else None
                )
                self._log("slate")
                if self._publication is not None:
                    self._publication.place(None)
                await child.send(ShowSlate(picture=picture))
                await self._extend_slate(child, item.since)
            case Finish():
                self._source = self._slate_since = None
                self._engine_has_source = False
                await child.send(item)
            case Packet() | LeaveOut() | ReuseSource():
                await child.send(item)

    async def _extend_slate(self, child: EngineProcess, since: float) -> None:
        """Extend the slate up to now; `since` is when it began."""
        elapsed = max(0.0, self._clock() - since)
        await child.send(ExtendSlate(elapsed=round(elapsed * VIDEO_SCALE)))

    async def _begin_message(self, source: SourceStart) -> Begin:
        """Open the publication if needed, and return the message that starts a source."""
        self._source = source.without_packets
        publication = await self._open_publication(picture=source.video is not None)
        ladder = self._epochs.ladder(source.video)
        epoch = self._epochs.add(
            ladder, wall_us=source.wall_us, following=publication.epochs, marks=source.marks
        )
        return Begin(
            epoch=epoch,
            video=source.video,
            audio=source.audio,
            ladder=ladder,
            start=max(publication.end, ORIGIN_SECONDS * VIDEO_SCALE),
            sequence=publication.next_sequence,
            inits=publication.next_inits,
            discontinuity=publication.next_sequence > 0,
            part=round(self.settings.part_seconds * VIDEO_SCALE),
            low_latency=publication.low_latency,
            off=tuple(sorted(self.metrics.off)),
            poster=self._posters.every if self._posters is not None else 0,
            splice=source.splice,
            preroll=len(source.preroll),
            continues=source.joint in (Joint.SOUND, Joint.CLOCK),
            new_clock=source.joint is Joint.CLOCK,
            show_from=source.show_from,
            show_until=source.show_until,
        )

    async def _open_publication(self, *, picture: bool) -> Publication:
        if self._publication is None:
            self._publication = await self._services.open_publication(
                self.stream, self.settings, picture=picture
            )
            self._opened.set()
            self._epochs.renditions = self._publication.renditions
            self._log("publication opens", run=self._publication.run)
        return self._publication

    async def _handle_reports(self, child: EngineProcess) -> None:
        async for report in child.reports():
            self._awaiting_since = None
            await self._handle(report)
            self._awaiting_since = self._clock()

    async def _handle(self, report: EngineReport) -> None:
        match report:
            case (
                EpochStart() | InitSection() | SegmentStart() | GapStart() | Part() | Segment()
            ) if self._publication is not None:
                await self._publish(self._publication, report)
            case Prepared() if self._publication is not None:
                await self._prepare(self._publication, report)
            case Spliced():  # the playlists continue without a discontinuity
                self._epochs.start(report)
                self._log("spliced", reused=report.reused)
            case Progress():
                current = self._epochs.is_newest(report.epoch)
                self.metrics.update(report, self._clock(), current=current)
            case Placed() if self._publication is not None:
                self._published.place(report)
                self._publication.place((report.offset, self._epochs.marks(report.epoch)))
            case TakenOver() | SoundMoved():
                self._record_odd_source(report)
            case Trouble():
                self._log("engine trouble", what=report.what, detail=report.detail)
            case Posters() if self._posters is not None:
                self._posters.offer(self.stream, report)
            case EpochFinished():
                self._log("source made", frames=report.frames_in, **report.frames_out)
            case _:
                pass

    async def _prepare(self, publication: Publication, report: Prepared) -> None:
        if report.reused is not None and self._epochs.is_newest(report.epoch):
            self._keyframe_monitor.stop()
        epoch = self._epochs.start(report)
        await publication.prepare(
            report.epoch,
            epoch.renditions,
            epoch.wall_us,
            reused=report.reused,
            part=report.part,
        )
        self._log("renditions", rendition=",".join(report.names), reused=report.reused)

    def _record_odd_source(self, report: TakenOver | SoundMoved) -> None:
        """Record what the engine had to do about an odd source."""
        match report:
            case TakenOver():
                self._taken_over(report)
            case SoundMoved():
                self._sound_moved(report)

    def _taken_over(self, report: TakenOver) -> None:
        """Note that the top rung is encoded, too: it can be shed from now on."""
        source = self._source
        video = source.video if source is not None and not report.for_good else None
        if self._epochs.encode_top_rung(report) and video is not None:
            self._keyframe_monitor.watch(video)
        cause = "another picture than announced" if report.for_good else "keyframes too far apart"
        log.warning("top rung encoded", extra={"stream": self.stream, "cause": cause})
        self._services.record_event(self.stream, TopRungEncodedEvent(cause=cause))

    def _sound_moved(self, report: SoundMoved) -> None:
        """Record that the encoder's sound was moved, unless the same was recorded in this run."""
        offset = report.offset_ms
        if abs(offset - self._sound_offset_ms) < _SAME_OFFSET_MS:
            return
        self._sound_offset_ms = offset
        event = SoundMovedEvent(offset_ms=offset, moved_ms=-offset)
        log.warning(event.kind, extra={"stream": self.stream, **event.facts})
        self._services.record_event(self.stream, event)

    def _log(self, event: str, /, **facts: object) -> None:
        log.info(event, extra={"stream": self.stream, **facts})

    async def _publish(
        self,
        publication: Publication,
        report: EpochStart | InitSection | SegmentStart | GapStart | Part | Segment,
    ) -> None:
        if isinstance(report, EpochStart):  # nothing came in the future, whatever an engine says
            came_us = min(report.came_us, self._services.wall_us())
            report = msgspec.structs.replace(report, came_us=came_us)
        await publication.append(report)
        self._published.add(report)
        self._report_playable(publication)
        if isinstance(report, Segment) and not report.gap:
            self.metrics.segments += 1
            self.metrics.bytes_out += report.size

    async def _watch(self, child: EngineProcess) -> None:
        """Kill an engine that has a source and does not report for `SILENT_SECONDS`.

        What it has reported may wait for the disk or for the event loop, which is not its fault.
        """
        while True:
            await asyncio.sleep(1.0)
            now = self._services.lag.read_until(self._clock())
            if self._awaiting_since is None:
                continue
            if not self._engine_has_source:
                self._awaiting_since = now
            elif now - self._awaiting_since > SILENT_SECONDS:
                log.error("engine silent: killed", extra={"stream": self.stream})
                child.kill()

    async def _engine_lost(self, lost: BaseExceptionGroup[Exception], began: float) -> None:
        """Handle the loss of an engine that started at `began`; re-raise `lost` after too many."""
        causes = "; ".join(str(error) for error in _leaves(lost))
        if lost.subgroup(OwnershipLost) is not None:
            # No engine is at fault, and the next one could do no more. This run will be cancelled.
            self._log("run not opened", cause=causes)
            self._owned_elsewhere = True
            await self._closing.wait()
            return
        self.metrics.deaths += 1
        now = self._clock()
        self._deaths.record(now, lived=now - began)
        log.error("engine lost", extra={"stream": self.stream, "cause": causes})
        if lost.subgroup(WireError) is None:  # that is recorded already
            security.info("engine lost", extra={"stream": self.stream, "cause": causes})
        self._services.record_event(self.stream, EngineLostEvent(cause=causes))
        if self._publication is not None:
            await self._publication.close_open()
        if self._deaths.are_too_many(now):
            raise lost


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
