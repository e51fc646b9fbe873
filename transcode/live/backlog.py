"""The queue of a run's packets and orders for its engine, with a bound and a drop policy.

Pure: times are seconds of a monotonic clock. An engine that cannot keep up must not make the
publisher wait, so packets that exceed the bound are dropped, up to a keyframe at which there is
room again. After the gap the source starts anew: players get a discontinuity instead of one segment
that spans the gap.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from media.loop_lag import LoopLag
from media.packet import PACKET_OVERHEAD, MediaPacket
from media.ticks import MICROSECONDS
from media.track import AudioTrack, Track, VideoTrack
from transcode.protocol.messages import Finish, LeaveOut, Packet

__all__ = ["QUEUE_BYTES", "QUEUE_SECONDS", "Backlog", "NoSource", "QueueItem", "SourceStart"]

# A backup's GOP buffer (24 MiB at most), which comes in at once, and 4 s at 32 Mbit/s: far more
# than comes in during an engine's start.
QUEUE_BYTES: Final = 40 << 20
# Older media are better skipped than shown: players are 12 s behind the live edge at most.
QUEUE_SECONDS: Final = 10.0
# What waited on its way (for the tracks of its source, for the run, in a GOP buffer) comes in right
# after the beginning, at once; this covers a machine that is busy meanwhile.
_BURST_SECONDS: Final = 1.0


class SourceStart(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a source; `wall_us` is when its first packet came, in us since the epoch.

    Viewers may get a later packet first: each has the time of its own.
    `splice` is True if it replaces a source that did not finish.
    """

    video: VideoTrack | None
    audio: AudioTrack | None
    wall_us: int
    splice: bool = False

    @classmethod
    def from_tracks(
        cls, tracks: tuple[Track, ...], wall_us: int, *, splice: bool = False
    ) -> "SourceStart":
        """Return the start of a source with these tracks, at most one of each kind."""
        return cls(
            video=next((track for track in tracks if isinstance(track, VideoTrack)), None),
            audio=next((track for track in tracks if isinstance(track, AudioTrack)), None),
            wall_us=wall_us,
            splice=splice,
        )


class NoSource(msgspec.Struct, frozen=True, kw_only=True):
    """The source ended at `since`, and none is on air: viewers get the slate."""

    since: float


QueueItem = SourceStart | NoSource | Packet | LeaveOut | Finish


class _Burst:
    """The first packets of a source, of which the first one came `late` seconds before `began`.

    Those that waited with it follow at once, though they came one after the other.
    """

    def __init__(self, began: float, late: float) -> None:
        self._began = began
        self._late = late
        self._first: dict[type[Track], int] = {}  # the time stamps of the first packets

    def late(self, packet: MediaPacket, now: float) -> float:
        """Return how many seconds ago a packet came that is offered now."""
        waited = now - self._began
        if waited > _BURST_SECONDS:
            return 0.0
        first = self._first.setdefault(type(packet.track), packet.dts)
        behind = self._late + waited - (packet.dts - first) / packet.track.scale
        return min(max(behind, 0.0), self._late)


class Backlog:
    """The queue of one run; `wall_us` returns the time of day in us since the epoch.

    `bytes` is what the queued packets take in memory; `dropping` is True while packets are dropped.
    `lag` is that of the loop that feeds the engine: packets do not age by it.
    """

    def __init__(self, wall_us: Callable[[], int], lag: LoopLag | None = None) -> None:
        self.bytes = 0
        self.dropping = False
        self._wall_us = wall_us
        self._lag = LoopLag() if lag is None else lag
        self._queue: deque[tuple[QueueItem, float]] = deque()
        self._source: SourceStart | None = None  # the source that packets belong to
        self._burst: _Burst | None = None  # that the source begins with
        self._on_slate = False  # no source is on air

    def __bool__(self) -> bool:
        return bool(self._queue)

    def age(self, now: float) -> float:
        """Return for how many seconds the oldest item has waited."""
        return self._lag.elapsed(self._queue[0][1], now) if self._queue else 0.0

    def begin(
        self, tracks: tuple[Track, ...], now: float, late: float = 0.0, *, splice: bool = False
    ) -> None:
        """Queue the start of a source whose first packet came `late` seconds ago."""
        self.dropping = False
        self._burst = _Burst(now, late)
        wall_us = self._wall_us() - round(late * MICROSECONDS)
        self._source = SourceStart.from_tracks(tracks, wall_us, splice=splice or self._on_slate)
        self._on_slate = False
        self._queue.append((self._source, now))

    def offer(self, packet: MediaPacket, now: float) -> bool:
        """Queue a packet; return False if it was dropped."""
        video = isinstance(packet.track, VideoTrack)
        if self.bytes + packet.memory_bytes > QUEUE_BYTES or self.age(now) > QUEUE_SECONDS:
            self.dropping = True
        if self.dropping:
            if not self._resumes(packet, now, video=video):
                return False
            self.restart_source(now)
        self.bytes += packet.memory_bytes
        late = self._burst.late(packet, now) if self._burst is not None else 0.0
        order = Packet(
            video=video,
            dts=packet.dts,
            pts=packet.pts,
            key=packet.key,
            data=packet.data,
            came_us=self._wall_us() - round(late * MICROSECONDS),
        )
        self._queue.append((order, now))
        return True

    def restart_source(self, now: float) -> None:
        """Restart the source with the next packet."""
        self.dropping, self._burst = False, None
        if self._source is not None:
            self._source = msgspec.structs.replace(
                self._source, wall_us=self._wall_us(), splice=False
            )
            self._queue += ((Finish(), now), (self._source, now))

    def begin_slate(self, now: float, late: float = 0.0) -> None:
        """Queue the end of the source, `late` seconds ago, and the slate after it."""
        if self._on_slate:
            return
        self.dropping, self._source, self._on_slate = False, None, True
        self._queue.append((NoSource(since=now - late), now))

    def finish(self, now: float) -> None:
        """Queue the end of the source."""
        self.dropping, self._source, self._on_slate = False, None, False
        self._queue.append((Finish(), now))

    def put_first(self, order: LeaveOut, now: float) -> None:
        """Queue an order before everything else; the queue is as old as before."""
        oldest = self._queue[0][1] if self._queue else now
        self._queue.appendleft((order, oldest))

    def pop(self) -> QueueItem:
        """Remove and return the oldest item."""
        order, _ = self._queue.popleft()
        if isinstance(order, Packet):
            self.bytes -= len(order.data) + PACKET_OVERHEAD
        return order

    def resume_source(self, source: SourceStart, now: float) -> None:
        """Start `source` again in a new engine, at the next queued keyframe.

        Its wall clock is that of the keyframe's arrival, which may be seconds ago.
        """
        while self._queue and not isinstance(
            head := self._queue[0][0], SourceStart | NoSource | Finish
        ):
            if isinstance(head, Packet) and head.key and (head.video or source.video is None):
                break
            self.pop()
        if not (self._queue and isinstance(self._queue[0][0], SourceStart)):
            arrived = self._queue[0][1] if self._queue else now
            wall_us = self._wall_us() - round((now - arrived) * MICROSECONDS)
            self._queue.appendleft((msgspec.structs.replace(source, wall_us=wall_us), arrived))

    def resume_slate(self, source: SourceStart, now: float) -> None:
        """Continue the slate in a new engine, in the renditions of `source`."""
        if not (self._queue and isinstance(self._queue[0][0], SourceStart | Finish)):
            source = msgspec.structs.replace(source, wall_us=self._wall_us())
            self._queue.extendleft(((NoSource(since=now), now), (source, now)))

    def _resumes(self, packet: MediaPacket, now: float, *, video: bool) -> bool:
        """Return whether there is room again and decoding can begin at this packet."""
        audio_only = self._source is not None and self._source.video is None
        return (
            packet.key
            and (video or audio_only)
            and self.bytes < QUEUE_BYTES // 2
            and self.age(now) < QUEUE_SECONDS / 2
        )
