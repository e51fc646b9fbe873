"""What waits for an engine: a queue with a bound, and what happens when it is full.

Pure: times are seconds of a clock that never goes back. An engine that cannot keep up must not make
the encoder wait, so what is too much is dropped, up to a keyframe at which there is room again.
What follows the hole is a new beginning: players are told of it, instead of one segment that spans
it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from media.packet import MediaPacket
from media.ticks import MICROSECONDS
from media.track import AudioTrack, Track, VideoTrack
from transcode.protocol.messages import Finish, Packet, Rungs

__all__ = ["QUEUE_BYTES", "QUEUE_SECONDS", "Backlog", "Nobody", "Source", "Waiting"]

# What a backup's ring holds at most (24 MiB) comes in at once; 4 s at 32 Mbit/s besides, far more
# than comes in during an engine's start.
QUEUE_BYTES: Final = 40 << 20
# What has waited for longer is better skipped than shown: players are 12 s behind the live edge.
QUEUE_SECONDS: Final = 10.0


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A beginning as it waits for the engine; `wall_us` is when it came.

    `splice` says that it replaces the source before it, which did not finish.
    """

    video: VideoTrack | None
    audio: AudioTrack | None
    wall_us: int
    splice: bool = False

    @classmethod
    def of(cls, tracks: tuple[Track, ...], wall_us: int, *, splice: bool = False) -> "Source":
        """Return the beginning of a source with these tracks, at most one of each kind."""
        return cls(
            video=next((track for track in tracks if isinstance(track, VideoTrack)), None),
            audio=next((track for track in tracks if isinstance(track, AudioTrack)), None),
            wall_us=wall_us,
            splice=splice,
        )


class Nobody(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody is on air since that time; the source before has ended."""

    since: float


Waiting = Source | Nobody | Packet | Rungs | Finish


class Backlog:
    """The queue of one run; `wall_us` tells the time of day.

    `bytes` is what the packets in it come to; `dropping` says that it takes nothing for now.
    """

    def __init__(self, wall_us: Callable[[], int]) -> None:
        self.bytes = 0
        self.dropping = False
        self._wall_us = wall_us
        self._queue: deque[tuple[Waiting, float]] = deque()
        self._newest: Source | None = None  # the beginning that packets belong to, if it goes on
        self._empty = False  # whether nobody is on air

    def __bool__(self) -> bool:
        return bool(self._queue)

    def age(self, now: float) -> float:
        """Return for how many seconds the oldest has waited."""
        return now - self._queue[0][1] if self._queue else 0.0

    def begin(
        self, tracks: tuple[Track, ...], now: float, late: float = 0.0, *, splice: bool = False
    ) -> None:
        """Put a beginning whose first packet came `late` seconds ago."""
        self.dropping = False
        wall_us = self._wall_us() - round(late * MICROSECONDS)
        self._newest = Source.of(tracks, wall_us, splice=splice or self._empty)
        self._empty = False
        self._queue.append((self._newest, now))

    def offer(self, packet: MediaPacket, now: float) -> bool:
        """Put a packet; False where it was dropped."""
        video = isinstance(packet.track, VideoTrack)
        if self.bytes + len(packet.data) > QUEUE_BYTES or self.age(now) > QUEUE_SECONDS:
            self.dropping = True
        if self.dropping:
            if not self._resumes(packet, now, video=video):
                return False
            self.again(now)
        self.bytes += len(packet.data)
        order = Packet(
            video=video, dts=packet.dts, pts=packet.pts, key=packet.key, data=packet.data
        )
        self._queue.append((order, now))
        return True

    def again(self, now: float) -> None:
        """Let the source begin anew with the packet that follows."""
        self.dropping = False
        if self._newest is not None:
            self._newest = msgspec.structs.replace(
                self._newest, wall_us=self._wall_us(), splice=False
            )
            self._queue += ((Finish(), now), (self._newest, now))

    def leave(self, now: float, late: float = 0.0) -> None:
        """Put the end of the source, `late` seconds ago, after which nobody is on air."""
        if self._empty:
            return
        self.dropping, self._newest, self._empty = False, None, True
        self._queue.append((Nobody(since=now - late), now))

    def finish(self, now: float) -> None:
        """Put the end of the source."""
        self.dropping, self._newest, self._empty = False, None, False
        self._queue.append((Finish(), now))

    def urge(self, order: Rungs, now: float) -> None:
        """Put an order before all that waits."""
        self._queue.appendleft((order, now))

    def pop(self) -> Waiting:
        """Take the oldest."""
        order, _ = self._queue.popleft()
        if isinstance(order, Packet):
            self.bytes -= len(order.data)
        return order

    def restart(self, source: Source, now: float) -> None:
        """Let `source` begin again in a new engine, at the next keyframe that waits."""
        while self._queue and not isinstance(head := self._queue[0][0], Source | Nobody | Finish):
            if isinstance(head, Packet) and head.key and (head.video or source.video is None):
                break
            self.pop()
        if not (self._queue and isinstance(self._queue[0][0], Source)):
            source = msgspec.structs.replace(source, wall_us=self._wall_us())
            self._queue.appendleft((source, now))

    def restart_empty(self, source: Source, now: float) -> None:
        """Let a new engine go on without a source, in the renditions of the one before."""
        if not (self._queue and isinstance(self._queue[0][0], Source | Finish)):
            source = msgspec.structs.replace(source, wall_us=self._wall_us())
            self._queue.extendleft(((Nobody(since=now), now), (source, now)))

    def _resumes(self, packet: MediaPacket, now: float, *, video: bool) -> bool:
        """Say whether there is room again, at a place where decoding can begin."""
        sound_alone = self._newest is not None and self._newest.video is None
        return (
            packet.key
            and (video or sound_alone)
            and self.bytes < QUEUE_BYTES // 2
            and self.age(now) < QUEUE_SECONDS / 2
        )
