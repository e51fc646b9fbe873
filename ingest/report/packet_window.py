"""The newest packets of one track: a few numbers for each, and the clock drift they show.

Adding a packet costs a few stores into arrays of fixed size; everything else is computed on demand.
Times of arrival are seconds of a monotonic clock, timestamps integer milliseconds.
"""

from array import array
from bisect import bisect_left
from collections import deque
from typing import Final, TypeVar

import msgspec

# Six keyframes at the longest sensible interval.
WINDOW_SECONDS: Final = 60.0
# 68 s at 60 frames a second, 87 s of AAC at 48 kHz; 144 KiB a track. Denser tracks are kept for a
# shorter time.
_PACKETS: Final = 4096
_MASK: Final = _PACKETS - 1
# Two clocks that differ by 50 ppm drift 30 ms apart in ten minutes, well above the remaining noise
# of the network.
_DRIFT_POINTS: Final = 600  # one a second
DRIFT_SECONDS: Final = 30.0  # the least that shows a drift

Number = TypeVar("Number", int, float)


class PacketWindow(msgspec.Struct, frozen=True):
    """Packets of a track in order of arrival, column by column.

    `offsets` are presentation minus decode times, `sizes` twice the bytes plus one for a keyframe,
    `distances` a packet's timestamp minus the other track's newest.
    """

    arrivals: list[float]
    stamps: list[int]
    offsets: list[int]
    sizes: list[int]
    distances: list[int]

    def __len__(self) -> int:
        return len(self.stamps)


class PacketHistory:
    """One track's packets. `newest` is the last timestamp, meaningless while `count` is 0."""

    __slots__ = (
        "_arrivals", "_distances", "_drift_points", "_least_at", "_least_delay", "_offsets",
        "_second_ends", "_sizes", "_stamps", "count", "newest",
    )  # fmt: skip

    def __init__(self) -> None:
        self._arrivals = array("d", bytes(8 * _PACKETS))
        self._stamps = array("q", bytes(8 * _PACKETS))
        self._offsets = array("q", bytes(8 * _PACKETS))
        self._sizes = array("i", bytes(4 * _PACKETS))
        self._distances = array("q", bytes(8 * _PACKETS))
        self._drift_points: deque[tuple[float, float]] = deque(maxlen=_DRIFT_POINTS)
        self.clear()

    def clear(self) -> None:
        """Drop all packets: those that follow have another timeline or another format."""
        self.count = 0
        self.newest = 0
        self._drift_points.clear()
        # The least delay of this second's packets, and when that packet arrived.
        self._least_delay = self._least_at = 0.0
        self._second_ends = 0.0

    def append(
        self, now: float, stamp: int, offset: int, size: int, other_track: "PacketHistory"
    ) -> None:
        """Append a packet; `size` as in `PacketWindow`."""
        place = self.count & _MASK
        self._arrivals[place] = now
        self._stamps[place] = stamp
        self._offsets[place] = offset
        self._sizes[place] = size
        self._distances[place] = stamp - other_track.newest if other_track.count else 0
        delay = now - stamp / 1000
        if now >= self._second_ends:
            if self.count:
                self._drift_points.append((self._least_at, self._least_delay))
            self._least_delay, self._least_at, self._second_ends = delay, now, now + 1
        elif delay < self._least_delay:
            self._least_delay, self._least_at = delay, now
        self.newest = stamp
        self.count += 1

    @property
    def complete_since(self) -> float:
        """The time since which all packets are kept; 0.0: since the beginning."""
        return 0.0 if self.count < _PACKETS else self._arrivals[self.count & _MASK]

    def window_since(self, moment: float) -> PacketWindow:
        """Return the packets from a moment on, as far as they are kept."""
        place = self.count & _MASK
        full = self.count >= _PACKETS
        arrivals = _ordered(self._arrivals, place, full=full)
        first = bisect_left(arrivals, moment)
        stamps, offsets, sizes, distances = (
            _ordered(column, place, full=full)[first:]
            for column in (self._stamps, self._offsets, self._sizes, self._distances)
        )
        return PacketWindow(arrivals[first:], stamps, offsets, sizes, distances)

    def drift(self) -> tuple[int | None, float]:
        """Return how much faster the encoder's clock is, in ppm, and the seconds measured.

        A network only delays. So the least delays in the first and in the last third of the time
        compare the clocks; congestion that lasts less than a third does not change the result.
        """
        points = self._drift_points
        seconds = points[-1][0] - points[0][0] if points else 0.0
        if seconds < DRIFT_SECONDS:
            return None, seconds
        began, ended = points[0][0] + seconds / 3, points[-1][0] - seconds / 3
        first = min((delay, at) for at, delay in points if at <= began)
        last = min((delay, at) for at, delay in points if at >= ended)
        return round(1e6 * (first[0] - last[0]) / (last[1] - first[1])), seconds


# In quotes: `array` is not generic at run time.
def _ordered(column: "array[Number]", place: int, *, full: bool) -> list[Number]:
    return (column[place:] + column[:place] if full else column[:place]).tolist()
