"""Feeds the media on air into a run: into its sink, or into a queue until a run is open.

The feed knows the run's tracks and whether it shows a source, the slate or nothing; it does not
know which slot is on air. Times are seconds of the event loop's clock.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from ingest.stream.packet_observers import PacketObservers
from ingest.stream.ports import PacketSink
from ingest.stream.track_finder import continues, has_picture
from media.packet import MediaPacket
from media.source_mark import FindMarks, no_marks
from media.track import AudioTrack, Track

log = logging.getLogger(__name__)

# What a source may send while its run opens: 13 s at 20 Mbit/s, far beyond any delay of a disk. The
# media of a run that is taken over from another host (24 MiB at most) come in at once.
_WAITING_BYTES: Final = 32 << 20


class _Begin(msgspec.Struct, frozen=True):
    tracks: tuple[Track, ...]
    arrived: float  # of its first packet
    splice: bool
    continues: bool
    new_clock: bool
    show_from: int | None
    show_until: int | None
    marks: FindMarks


class _Slate(msgspec.Struct, frozen=True):
    since: float


class _Finish(msgspec.Struct, frozen=True):
    """The end of a source."""


_Step = _Begin | Sequence[MediaPacket] | _Slate | _Finish


class RunFeed:
    """The feed of one stream's runs, one after the other.

    `on_change` is called when media wait for a run, or when what the run shows has changed.
    `marks_of_source` returns what finds the marks of the source that begins.
    """

    def __init__(
        self, stream: str, clock: Callable[[], float], on_change: Callable[[], None]
    ) -> None:
        self.tracks: tuple[Track, ...] = ()  # of the run's newest source
        self.marks_of_source: Callable[[], FindMarks] = lambda: no_marks
        self._stream = stream
        self._clock = clock
        self._on_change = on_change
        self._sink: PacketSink | None = None
        self._run_over = False  # what comes is for the next run
        self._source_on = False
        self._slate_on = False
        self.observers = PacketObservers(stream=stream)  # of what is on air
        # What came before the run was open, from the newest beginning on.
        self._waiting: list[_Step] = []
        self._waiting_bytes = 0

    @property
    def waiting(self) -> bool:
        """True while something waits for a run to be opened."""
        return bool(self._waiting)

    @property
    def has_begun(self) -> bool:
        """True once a source has begun, in the run or on its way into one."""
        return bool(self._waiting) or (bool(self.tracks) and not self._run_over)

    @property
    def has_picture(self) -> bool:
        """True if the run has a picture, or will have one once it is open."""
        waiting = self._waiting[0] if self._waiting else None
        tracks = waiting.tracks if isinstance(waiting, _Begin) else self.tracks
        return self.has_begun and has_picture(tracks)

    @property
    def source_on(self) -> bool:
        """True while the run shows a source."""
        return self._source_on

    @property
    def slate_on(self) -> bool:
        """True while the run shows the slate, or will show it once it is open."""
        if self._waiting:
            return isinstance(self._waiting[-1], _Slate)
        return self._slate_on

    @property
    def live(self) -> bool:
        """True while viewers get the run: they have a segment of it, and more will follow."""
        on = self._source_on or self._slate_on
        return self._sink is not None and on and self._sink.playable

    @property
    def silent(self) -> bool:
        """True while the source that the run shows has no audio track."""
        return self._source_on and not any(isinstance(track, AudioTrack) for track in self.tracks)

    # -- the run's life ---------------------------------------------------------------------------

    def open(self, sink: PacketSink) -> None:
        """Send what waits, and what comes after it, into a run."""
        self._sink = sink
        if not self._run_over:
            waiting, self._waiting = self._waiting, []
            for step in waiting:
                self._apply(step)

    def close(self) -> None:
        """Detach from the run; what comes from here on waits for the next one."""
        self._sink = None
        self._run_over = self._source_on = self._slate_on = False
        self.tracks = ()

    def defer_to_next_run(self) -> None:
        """End the source and discard what waits: all that follows is for the next run."""
        self.finish()
        self._waiting.clear()
        self._run_over = True

    def discard_waiting(self) -> None:
        """Discard what waits: no run will show it."""
        self._waiting.clear()

    # -- what goes on air -------------------------------------------------------------------------

    def begin(
        self,
        tracks: tuple[Track, ...],
        arrived: float,
        *,
        splice: bool = False,
        continues: bool = False,
        new_clock: bool = False,
        show_from: int | None = None,
        show_until: int | None = None,
    ) -> None:
        """Begin a source whose first packet arrived at `arrived`.

        With `splice` it replaces the present source. With `continues` it is the one that was on air
        last, and nothing of it is missing. With `show_from` it begins with a keyframe before the
        first picture that is shown, and with `show_until` the present one ends before its last
        picture (see `PacketSink.begin`).
        """
        self.observers.begin(tracks)
        marks = self.marks_of_source()
        self._apply_or_hold(
            _Begin(tracks, arrived, splice, continues, new_clock, show_from, show_until, marks)
        )

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        """Add packets of the present source."""
        self.observers.offer(packets)
        self._offer(packets)

    def _offer(self, packets: Sequence[MediaPacket]) -> None:
        if self._sink is None or self._waiting or self._run_over:
            self._hold(packets)
        else:
            self._sink.offer(packets)

    def slate(self, since: float) -> None:
        """Show the slate, because no source has been on air since then."""
        self.observers.finish()
        self._apply_or_hold(_Slate(since))

    def finish(self) -> None:
        """End the source without a successor."""
        self.observers.finish()
        self._apply_or_hold(_Finish())

    def _apply_or_hold(self, step: _Step) -> None:
        if self._sink is None or self._waiting or self._run_over:
            self._hold(step)
        else:
            self._apply(step)
        self._on_change()

    def _hold(self, step: _Step) -> None:
        """Keep a step until a run is open; a source that has ended by then is shown too."""
        if isinstance(step, _Begin) and not (step.continues and self._waiting):
            self._waiting = [step]
            self._waiting_bytes = 0
        elif self._waiting:
            self._waiting.append(step)
        if isinstance(step, Sequence):
            self._waiting_bytes += sum(packet.memory_bytes for packet in step)
        if self._waiting_bytes > _WAITING_BYTES:
            # The engine begins at the next keyframe, so the rest stays decodable.
            del self._waiting[1:]
            self._waiting_bytes = 0
            log.warning("run opens too slowly: media dropped", extra={"stream": self._stream})

    def _apply(self, step: _Step) -> None:
        if self._sink is None:
            return
        match step:
            case _Begin():
                self._begin(self._sink, step)
            case _Slate():
                if self.tracks and not self._slate_on:
                    self._source_on, self._slate_on = False, True
                    self._sink.slate(self._clock() - step.since)
            case _Finish():
                self._finish(self._sink)
            case packets:
                self._offer(packets)

    def _begin(self, sink: PacketSink, begin: _Begin) -> None:
        if self.tracks and not continues(self.tracks, begin.tracks):
            self._finish(sink)
            log.info("source differs: another run", extra={"stream": self._stream})
            self._hold(begin)
            return
        splice = begin.splice and self._source_on
        goes_on = begin.continues and (self._source_on or self._slate_on)
        if not splice and not goes_on:
            self._finish(sink)
        self.tracks = begin.tracks
        self._source_on, self._slate_on = True, False
        late = max(0.0, self._clock() - begin.arrived)
        new_clock = goes_on and begin.new_clock
        sink.begin(
            begin.tracks,
            late,
            splice=splice,
            continues=goes_on,
            new_clock=new_clock,
            show_from=begin.show_from,
            show_until=begin.show_until if splice else None,
            marks=begin.marks,
        )

    def _finish(self, sink: PacketSink) -> None:
        if self._source_on:
            sink.finish()
        self._source_on = False
