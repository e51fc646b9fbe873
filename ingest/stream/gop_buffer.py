"""The newest media of one source, so that it can be put on air from a little before now.

Cut at keyframes: what it gives out can be decoded from its first packet on. Pure; `now` is when a
packet came, in seconds.
"""

from collections import deque
from itertools import dropwhile
from math import inf
from typing import Final

from media.packet import MediaPacket
from media.track import Track, VideoTrack

__all__ = ["RING_BYTES", "Ring"]

# 9 s at 20 Mbit/s, the most that an encoder may send on average.
RING_BYTES: Final = 24 << 20
# A stall is noticed on the stream's next tick, not at once.
_MARGIN_SECONDS: Final = 0.5
# Sound can be cut anywhere; as fine as this is fine enough.
_SOUND_SECONDS: Final = 0.5


class _Group:
    """A keyframe and what follows it, up to the next."""

    __slots__ = ("bytes", "came", "packets", "since")

    def __init__(self, since: float, came: float) -> None:
        self.since = since
        self.came = came
        self.packets: list[MediaPacket] = []
        self.bytes = 0


class Ring:
    """What came in the last seconds, from a keyframe on.

    It reaches `seconds` back and on to the keyframe before that: at most that and two groups of
    pictures. `tracks` are those that its packets belong to, none before the source has begun.
    """

    def __init__(self, seconds: float) -> None:
        self.tracks: tuple[Track, ...] = ()
        self.reach(seconds)
        self._picture = False
        self._groups: deque[_Group] = deque()
        self._bytes = 0
        self._last = 0.0
        self._reached = -inf
        self._keyframes: deque[float] = deque(maxlen=2)  # when the newest were due

    def reach(self, seconds: float) -> None:
        """Reach as many seconds back from now on; what was let go does not return."""
        self._keep = seconds + _MARGIN_SECONDS
        self._break = seconds

    @property
    def picture(self) -> bool:
        """Whether the source has one."""
        return self._picture

    @property
    def filled(self) -> bool:
        """Whether there is a keyframe in it."""
        return bool(self._groups)

    @property
    def bytes(self) -> int:
        """How much media it holds."""
        return self._bytes

    def begin(self, tracks: tuple[Track, ...]) -> None:
        """The source begins, or begins anew: what was before belongs to other tracks."""
        self.tracks = tracks
        self._picture = any(isinstance(track, VideoTrack) for track in tracks)
        self._forget()

    def clear(self) -> None:
        """Forget the packets."""
        self._reached = -inf
        self._groups.clear()
        self._bytes = 0

    def _forget(self) -> None:
        self.clear()
        self._keyframes.clear()

    def _hear(self, now: float) -> None:
        if now - self._last >= self._break:
            # After a stall the packets before it are old news.
            self._forget()
        self._last = now

    def glance(self, packet: MediaPacket, now: float, due: float) -> None:
        """Take note of when a packet was due that need not be kept."""
        self._hear(now)
        if self._picture and self._begins(packet, now):
            self._keyframes.append(due)

    def put(self, packet: MediaPacket, now: float, due: float | None = None) -> bool:
        """Take a packet; True where decoding can begin with it.

        `due` is when it should have come, where something held it up: then it counts as of then.
        """
        self._hear(now)
        due = now if due is None else due
        self._reached = max(self._reached, due)
        begins = self._begins(packet, now)
        if begins:
            self._groups.append(_Group(due, now))
            self._keyframes.append(due)
            while len(self._groups) > 1 and self._groups[1].came <= now - self._keep:
                self._drop()
        elif not self._groups:
            return False
        newest = self._groups[-1]
        newest.packets.append(packet)
        newest.bytes += len(packet.data)
        self._bytes += len(packet.data)
        while self._bytes > RING_BYTES:
            self._drop()
        return begins and self.filled

    @property
    def due(self) -> float | None:
        """When the next keyframe is to come, by the two newest; None: nobody can say."""
        if len(self._keyframes) < 2:
            return None
        before, newest = self._keyframes
        return 2 * newest - before

    @property
    def reached(self) -> float:
        """When the newest packet was due."""
        return self._reached

    def nearest(self, moment: float) -> float:
        """Return when the keyframe was due that was due nearest to a moment.

        Raises:
            LookupError: there is no keyframe.
        """
        if not self._groups:
            raise LookupError("no keyframe")
        # Of two that are as near the later one: the last packet's picture stands for a while yet.
        dues = (group.since for group in reversed(self._groups))
        return min(dues, key=lambda due: round(abs(due - moment), 3))

    def since_nearest(self, moment: float) -> tuple[float, list[MediaPacket], float]:
        """Return what is there from the keyframe on that was due nearest to a moment.

        Before it when that was due, behind it when it came.

        Raises:
            LookupError: there is no keyframe.
        """
        first = self.nearest(moment)
        groups = list(dropwhile(lambda group: group.since != first, self._groups))
        packets = [packet for group in groups for packet in group.packets]
        return first, packets, groups[0].came

    def _begins(self, packet: MediaPacket, now: float) -> bool:
        if self._picture:
            return packet.key and isinstance(packet.track, VideoTrack)
        return not self._groups or now - self._groups[-1].since >= _SOUND_SECONDS

    def _drop(self) -> None:
        self._bytes -= self._groups.popleft().bytes
