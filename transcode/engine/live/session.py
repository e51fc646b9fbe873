"""A live run inside the engine: carries out the orders, one epoch after the other.

It keeps what outlives an epoch: the renditions' segmenters, the sequence numbers, and how far the
output clock has been filled.
"""

import resource
import threading
import time
from typing import Final

from media.ladder import AUDIO_RENDITION
from media.no_op import do_nothing
from media.ticks import AUDIO_SCALE, VIDEO_SCALE
from transcode.engine.codec.decode import DecoderFactory
from transcode.engine.core.memory import resident_bytes
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live.epoch import EpochPipeline
from transcode.engine.live.first_packets import FirstPackets
from transcode.engine.live.live_posters import PosterStage
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import (
    Begin,
    EngineOrder,
    ExtendSlate,
    Finish,
    LeaveOut,
    Packet,
    Progress,
    ReuseSource,
    ShowSlate,
)

_PROGRESS_SECONDS: Final = 1.0


class LiveSession:
    """Carries out orders; `handle` and `close` are called by one thread.

    `decoders` are those of a source that has its own; then there is one epoch. If `audible` is
    False the source has no sound, and gets no audio rendition of silence.
    """

    def __init__(
        self,
        reports: ReportWriter,
        decoders: DecoderFactory | None = None,
        *,
        audible: bool = True,
    ) -> None:
        self._reports = reports
        self._decoders = decoders
        self._audible = audible
        self._posters = PosterStage(reports) if decoders is None else None
        self._first: FirstPackets | None = None  # of the next epoch, while they are held back
        self._epoch: EpochPipeline | None = None
        self._tracks: dict[str, LiveSegmenter] = {}
        self._inits: dict[str, int] = {}
        self._sequence: int | None = None
        self._made_any = False
        self._end = 0
        self._off: tuple[str, ...] = ()
        self._at_work = False
        self._done = 0
        self._reported = (0, 0)
        threading.Thread(target=self._report, name="progress", daemon=True).start()

    def handle(self, order: EngineOrder) -> None:
        """Carry out one order."""
        self._at_work = True
        if not isinstance(order, Packet | LeaveOut):
            self._open_epoch()
        match order:
            case Begin():
                self._begin(order)
            case Packet() if self._first is not None:
                self._hold(self._first, order)
            case Finish():
                self._finish()
            case LeaveOut():
                self._off = order.off
                if self._epoch is not None:
                    self._epoch.leave_out(order.off)
            case Packet() | ReuseSource() | ShowSlate() | ExtendSlate():
                if self._epoch is not None:
                    _forward(self._epoch, order)
        self._done += 1
        self._at_work = False

    def close(self) -> None:
        """Finish the epoch and the posters: no order follows."""
        self._at_work = True
        self._open_epoch()
        self._finish()
        if self._posters is not None:
            self._posters.finish()

    def _begin(self, order: Begin) -> None:
        if order.continues and self._epoch is not None and self._epoch.continue_source(order):
            return
        if order.splice and self._epoch is not None and self._epoch.splice(order):
            return
        self._finish()
        self._off = order.off or self._off
        if self._sequence is None:
            self._sequence, self._inits = order.sequence, dict(order.inits)
        self._first = FirstPackets(order)
        if self._first.suffice:
            self._open_epoch()

    def _hold(self, first: FirstPackets, packet: Packet) -> None:
        first.add(packet)
        if first.suffice:
            self._open_epoch()

    def _open_epoch(self) -> None:
        """Open the epoch whose first packets were held back, if there is one."""
        first, self._first = self._first, None
        if first is None or self._sequence is None:
            return
        order = first.begin
        self._epoch = EpochPipeline(
            first,
            origin=max(order.start, self._end),
            sequence=self._sequence,
            discontinuity=order.discontinuity or self._made_any,
            track_of=self._track,
            reports=self._reports,
            decoders=self._decoders,
            posters=self._posters,
        )
        self._epoch.leave_out(self._off)
        for packet in first.packets:
            self._epoch.add_packet(packet)

    def _finish(self) -> None:
        epoch = self._epoch
        if epoch is None:
            return
        finished = epoch.finish()
        self._epoch = None
        self._made_any = self._made_any or epoch.sequence != self._sequence
        self._sequence = epoch.sequence
        self._end = max(self._end, finished.end)
        self._reports.flush_troubles()
        self._reports.send(finished)

    def _track(self, name: str) -> LiveSegmenter:
        if name not in self._tracks:
            scale = AUDIO_SCALE if name == AUDIO_RENDITION else VIDEO_SCALE
            init = self._inits.get(name, 0)
            is_listed = self._audible or name != AUDIO_RENDITION
            send = self._reports.send if is_listed else do_nothing
            self._tracks[name] = LiveSegmenter(name, scale, send, init=init)
        return self._tracks[name]

    def _rung_cpu_ms(self) -> dict[str, int]:
        spent = [(name, track.cpu_ns // 1_000_000) for name, track in tuple(self._tracks.items())]
        return {name: cpu_ms for name, cpu_ms in spent if cpu_ms}

    def _report(self) -> None:
        """Report progress once a second, except while an order makes no progress."""
        while True:
            time.sleep(_PROGRESS_SECONDS)
            self._reports.flush_troubles()
            epoch = self._epoch
            if epoch is None:
                continue
            source = epoch.source
            step = (self._done, epoch.made)
            if self._at_work and step == self._reported:
                continue
            self._reported = step
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self._reports.send(
                Progress(
                    epoch=source.number,
                    taken=source.newest_ms,
                    made=step[1],
                    frames=source.frames,
                    cpu_ms=round((usage.ru_utime + usage.ru_stime) * 1000),
                    memory_bytes=resident_bytes(),
                    rung_cpu_ms=self._rung_cpu_ms(),
                )
            )


def _forward(epoch: EpochPipeline, order: Packet | ReuseSource | ShowSlate | ExtendSlate) -> None:
    match order:
        case Packet():
            epoch.add_packet(order)
        case ReuseSource():
            epoch.reuse_source()
        case ShowSlate():
            epoch.show_slate(order.picture)
        case ExtendSlate():
            epoch.extend_slate(order.elapsed)
