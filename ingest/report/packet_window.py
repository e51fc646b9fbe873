"""The newest packets of one track, a number each for what is measured of them, and what they say.

To take a packet costs a few stores into arrays that never grow; whatever else is reckoned is
reckoned when somebody asks. Times of arrival are seconds of a clock that never goes back,
timestamps whole milliseconds.
"""

from array import array
from bisect import bisect_left
from collections import deque
from typing import Final, TypeVar

import msgspec

__all__ = ["DRIFT_SECONDS", "WINDOW_SECONDS", "Flow", "Window"]

# Six keyframes of the longest interval that anybody should have.
WINDOW_SECONDS: Final = 60.0
# 68 s at 60 frames a second, 87 s of AAC at 48 kHz; 144 KiB a track. What comes denser is looked
# back on for a shorter time.
_PACKETS: Final = 4096
_MASK: Final = _PACKETS - 1
# Two clocks that differ by 50 ppm come 30 ms apart in ten minutes, well above what is left of the
# network's noise.
_DRIFT_POINTS: Final = 600  # one a second
DRIFT_SECONDS: Final = 30.0  # less than this says nothing

Number = TypeVar("Number", int, float)


class Window(msgspec.Struct, frozen=True):
    """Packets of a track in the order in which they came, column by column.

    `offsets` is how much later than decoded a picture is shown, `sizes` twice the bytes, and one
    more for a keyframe; `distances` how far its time was from the other track's newest.
    """

    arrivals: list[float]
    stamps: list[int]
    offsets: list[int]
    sizes: list[int]
    distances: list[int]

    def __len__(self) -> int:
        return len(self.stamps)


class Flow:
    """What comes of one track. `newest` is its last timestamp, meaningless while `count` is 0."""

    __slots__ = (
        "_arrivals", "_distances", "_least", "_least_at", "_offsets", "_points", "_sizes",
        "_stamps", "_until", "count", "newest",
    )  # fmt: skip

    def __init__(self) -> None:
        self._arrivals = array("d", bytes(8 * _PACKETS))
        self._stamps = array("q", bytes(8 * _PACKETS))
        self._offsets = array("q", bytes(8 * _PACKETS))
        self._sizes = array("i", bytes(4 * _PACKETS))
        self._distances = array("q", bytes(8 * _PACKETS))
        self._points: deque[tuple[float, float]] = deque(maxlen=_DRIFT_POINTS)
        self.clear()

    def clear(self) -> None:
        """Forget all: what follows has another line of time, or is of another kind."""
        self.count = 0
        self.newest = 0
        self._points.clear()
        # When the earliest packet of this second came, against its timestamp.
        self._least = self._least_at = 0.0
        self._until = 0.0

    def take(self, now: float, stamp: int, offset: int, size: int, other: "Flow") -> None:
        """Take a packet; `size` as in `Window`."""
        place = self.count & _MASK
        self._arrivals[place] = now
        self._stamps[place] = stamp
        self._offsets[place] = offset
        self._sizes[place] = size
        self._distances[place] = stamp - other.newest if other.count else 0
        late = now - stamp / 1000
        if now >= self._until:
            if self.count:
                self._points.append((self._least_at, self._least))
            self._least, self._least_at, self._until = late, now, now + 1
        elif late < self._least:
            self._least, self._least_at = late, now
        self.newest = stamp
        self.count += 1

    @property
    def kept_since(self) -> float:
        """From when on everything is kept; 0.0: from the beginning on."""
        return 0.0 if self.count < _PACKETS else self._arrivals[self.count & _MASK]

    def since(self, moment: float) -> Window:
        """Return what came from a moment on, as far as it is kept."""
        place = self.count & _MASK
        full = self.count >= _PACKETS
        arrivals = _ordered(self._arrivals, place, full=full)
        first = bisect_left(arrivals, moment)
        stamps, offsets, sizes, distances = (
            _ordered(column, place, full=full)[first:]
            for column in (self._stamps, self._offsets, self._sizes, self._distances)
        )
        return Window(arrivals[first:], stamps, offsets, sizes, distances)

    def drift(self) -> tuple[int | None, float]:
        """Return by how many millionths its clock is faster than ours, and over which seconds.

        The network only ever delays. So the packets that came earliest against their timestamps,
        in the first and in the last third of the time, tell of the clocks; a network that holds
        packets back for less than a third changes nothing.
        """
        points = self._points
        seconds = points[-1][0] - points[0][0] if points else 0.0
        if seconds < DRIFT_SECONDS:
            return None, seconds
        began, ended = points[0][0] + seconds / 3, points[-1][0] - seconds / 3
        first = min((late, at) for at, late in points if at <= began)
        last = min((late, at) for at, late in points if at >= ended)
        return round(1e6 * (first[0] - last[0]) / (last[1] - first[1])), seconds


# In quotes, as an array takes no type when it runs.
def _ordered(column: "array[Number]", place: int, *, full: bool) -> list[Number]:
    return (column[place:] + column[:place] if full else column[:place]).tolist()
