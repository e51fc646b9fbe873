"""What goes on air, on its way into a run: into its sink, or held until one is open.

It knows the run's tracks and what is on in it, a source, the slate or neither; who is on air is
not its affair. Times are seconds of the event loop's clock.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from ingest.stream.ports import PacketSink
from ingest.stream.track_finder import continues
from media.packet import MediaPacket
from media.track import AudioTrack, Track

__all__ = ["Feed"]

log = logging.getLogger(__name__)

# What a source may send while its run opens: 8 s at 20 Mbit/s, far past any disk's hiccup.
_WAITING_BYTES: Final = 20 << 20


class _Begin(msgspec.Struct, frozen=True):
    tracks: tuple[Track, ...]
    came: float  # when its first packet came
    splice: bool


class _Slate(msgspec.Struct, frozen=True):
    since: float


class _Finish(msgspec.Struct, frozen=True):
    """The end of a source."""


_Step = _Begin | MediaPacket | _Slate | _Finish


class Feed:
    """The way into one stream's runs, one after the other.

    `changed` is called when there is something to do or to tell: media waits for a run, or what is
    on has changed.
    """

    def __init__(
        self, stream: str, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self.tracks: tuple[Track, ...] = ()  # of the run's newest source
        self._stream = stream
        self._clock = clock
        self._changed = changed
        self._sink: PacketSink | None = None
        self._over = False  # what comes is the next run's
        self._source_on = False
        self._slate_on = False
        # What came before the run was open, from the newest beginning on.
        self._waiting: list[_Step] = []
        self._waiting_bytes = 0

    @property
    def waiting(self) -> bool:
        """Whether something waits for a run to be opened."""
        return bool(self._waiting)

    @property
    def begun(self) -> bool:
        """Whether a source has begun, in the run or on its way into one."""
        return bool(self._waiting) or (bool(self.tracks) and not self._over)

    @property
    def source_on(self) -> bool:
        """Whether the run shows a source."""
        return self._source_on

    @property
    def slate_on(self) -> bool:
        """Whether the run shows the slate, or is to show it once it is open."""
        if self._waiting:
            return isinstance(self._waiting[-1], _Slate)
        return self._slate_on

    @property
    def live(self) -> bool:
        """Whether viewers get the run: they have a segment of it, and more are to come."""
        on = self._source_on or self._slate_on
        return self._sink is not None and on and self._sink.playable

    @property
    def silent(self) -> bool:
        """Whether the source that the run shows has no sound track."""
        return self._source_on and not any(isinstance(track, AudioTrack) for track in self.tracks)

    # -- the run's life ---------------------------------------------------------------------------

    def open(self, sink: PacketSink) -> None:
        """Let what waits into a run, and what comes after it."""
        self._sink = sink
        if not self._over:
            waiting, self._waiting = self._waiting, []
            for step in waiting:
                self._take(step)

    def close(self) -> None:
        """The run is over; what comes from here on waits for the next."""
        self._sink = None
        self._over = self._source_on = self._slate_on = False
        self.tracks = ()

    def turn_away(self) -> None:
        """End what is on: what comes from here on is the next run's, nothing waits."""
        self.finish()
        self._waiting.clear()
        self._over = True

    def give_up(self) -> None:
        """Nothing waits any more: no run will take it."""
        self._waiting.clear()

    # -- what goes on air -------------------------------------------------------------------------

    def begin(self, tracks: tuple[Track, ...], came: float, *, splice: bool = False) -> None:
        """A source goes on air; its first packet came at `came`.

        With `splice` it takes the place of the one that is on.
        """
        self._step(_Begin(tracks, came, splice))

    def offer(self, packet: MediaPacket) -> None:
        """Take a packet of the source that is on."""
        if self._sink is None or self._waiting or self._over:
            self._hold(packet)
        else:
            self._sink.offer(packet)

    def slate(self, since: float) -> None:
        """Nobody is on air since a moment."""
        self._step(_Slate(since))

    def finish(self) -> None:
        """What is on ends, and nothing takes its place."""
        self._step(_Finish())

    def _step(self, step: _Step) -> None:
        if self._sink is None or self._waiting or self._over:
            self._hold(step)
        else:
            self._take(step)
        self._changed()

    def _hold(self, step: _Step) -> None:
        """Keep what comes before a run is open; a visit that is over by then is shown too."""
        if isinstance(step, _Begin):
            self._waiting = [step]
            self._waiting_bytes = 0
        elif self._waiting:
            self._waiting.append(step)
        if isinstance(step, MediaPacket):
            self._waiting_bytes += len(step.data)
        if self._waiting_bytes > _WAITING_BYTES:
            # The engine begins at the next keyframe, so what is left stays decodable.
            del self._waiting[1:]
            self._waiting_bytes = 0
            log.warning("run opens too slowly: media dropped", extra={"stream": self._stream})

    def _take(self, step: _Step) -> None:
        if self._sink is None:
            return
        match step:
            case _Begin():
                self._begin(self._sink, step)
            case MediaPacket():
                self.offer(step)
            case _Slate():
                if self.tracks and not self._slate_on:
                    self._source_on, self._slate_on = False, True
                    self._sink.slate(max(0.0, self._clock() - step.since))
            case _Finish():
                self._finish(self._sink)

    def _begin(self, sink: PacketSink, begin: _Begin) -> None:
        if self.tracks and not continues(self.tracks, begin.tracks):
            self._finish(sink)
            log.info("source differs: another run", extra={"stream": self._stream})
            self._hold(begin)
            return
        splice = begin.splice and self._source_on
        if not splice:
            self._finish(sink)
        self.tracks = begin.tracks
        self._source_on, self._slate_on = True, False
        sink.begin(begin.tracks, max(0.0, self._clock() - begin.came), splice=splice)

    def _finish(self, sink: PacketSink) -> None:
        if self._source_on:
            sink.finish()
        self._source_on = False
