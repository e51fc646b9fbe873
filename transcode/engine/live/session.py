"""A live run inside the engine: orders in, one epoch after the other.

What outlives an epoch is here: the renditions' tracks, the sequence numbers and the place on the
output clock that has been reached.
"""

import resource
import threading
import time
from typing import Final

import msgspec

from media.ladder import AUDIO_RENDITION
from media.ticks import AUDIO_SCALE, VIDEO_SCALE
from transcode.engine.codec.decode import Decoders
from transcode.engine.core.memory import resident
from transcode.engine.core.reports import Outlet
from transcode.engine.live.epoch import Epoch
from transcode.engine.live.live_posters import Stills
from transcode.engine.output.segmenter import Track
from transcode.protocol.messages import Begin, Finish, Order, Packet, Progress, Reach, Rungs, Slate

__all__ = ["Live"]

_PROGRESS_SECONDS: Final = 1.0


class Live:
    """Does what it is ordered; `take` and `close` are called by one thread.

    `decoders` are those of a source that has its own: then there is one epoch.
    """

    def __init__(self, outlet: Outlet, decoders: Decoders | None = None) -> None:
        self._outlet = outlet
        self._decoders = decoders
        self._stills = Stills(outlet) if decoders is None else None
        self._epoch: Epoch | None = None
        self._tracks: dict[str, Track] = {}
        self._inits: dict[str, int] = {}
        self._sequence: int | None = None
        self._made_any = False
        self._end = 0
        self._off: tuple[str, ...] = ()
        self._at_work = False
        self._done = 0
        self._told = (0, 0)
        threading.Thread(target=self._report, name="progress", daemon=True).start()

    def take(self, order: Order) -> None:
        """Carry out one order."""
        self._at_work = True
        match order:
            case Begin():
                if not (order.splice and self._epoch is not None and self._epoch.splice(order)):
                    self._finish()
                    self._begin(order)
            case Finish():
                self._finish()
            case Rungs():
                self._off = order.off
                if self._epoch is not None:
                    self._epoch.shed(order.off)
            case Packet() | Slate() | Reach():
                if self._epoch is not None:
                    _give(self._epoch, order)
        self._done += 1
        self._at_work = False

    def close(self) -> None:
        """Finish what is there: no order follows."""
        self._at_work = True
        self._finish()
        if self._stills is not None:
            self._stills.finish()

    def _begin(self, order: Begin) -> None:
        self._off = order.off or self._off
        if self._sequence is None:
            self._sequence, self._inits = order.sequence, dict(order.inits)
        self._epoch = Epoch(
            msgspec.structs.replace(order, off=self._off),
            origin=max(order.start, self._end),
            sequence=self._sequence,
            discontinuity=order.discontinuity or self._made_any,
            track_of=self._track,
            outlet=self._outlet,
            decoders=self._decoders,
            stills=self._stills,
        )

    def _finish(self) -> None:
        epoch = self._epoch
        if epoch is None:
            return
        finished = epoch.finish()
        self._epoch = None
        self._made_any = self._made_any or epoch.sequence != self._sequence
        self._sequence = epoch.sequence
        self._end = max(self._end, finished.end)
        self._outlet.flush_troubles()
        self._outlet.send(finished)

    def _track(self, name: str) -> Track:
        if name not in self._tracks:
            scale = AUDIO_SCALE if name == AUDIO_RENDITION else VIDEO_SCALE
            init = self._inits.get(name, 0)
            self._tracks[name] = Track(name, scale, self._outlet.send, init=init)
        return self._tracks[name]

    def _rung_cpu_ms(self) -> dict[str, int]:
        spent = [(name, track.cpu_ns // 1_000_000) for name, track in tuple(self._tracks.items())]
        return {name: cpu_ms for name, cpu_ms in spent if cpu_ms}

    def _report(self) -> None:
        """Say how far it is, once a second, but fall silent where an order leads nowhere."""
        while True:
            time.sleep(_PROGRESS_SECONDS)
            self._outlet.flush_troubles()
            epoch = self._epoch
            if epoch is None:
                continue
            source = epoch.source
            step = (self._done, epoch.made)
            if self._at_work and step == self._told:
                continue
            self._told = step
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self._outlet.send(
                Progress(
                    epoch=source.number,
                    taken=source.taken,
                    made=step[1],
                    frames=source.frames,
                    cpu_ms=round((usage.ru_utime + usage.ru_stime) * 1000),
                    memory_bytes=resident(),
                    rung_cpu_ms=self._rung_cpu_ms(),
                )
            )


def _give(epoch: Epoch, order: Packet | Slate | Reach) -> None:
    match order:
        case Packet():
            epoch.take(order)
        case Slate():
            epoch.slate(order.picture)
        case Reach():
            epoch.reach(order.elapsed)
