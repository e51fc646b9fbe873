"""How far two sources are apart between comparisons, and for how long that is known.

Pure. Clocks drift, so an offset that was found minutes ago is wrong by now; but they drift evenly,
and what was found at some times tells how fast. Times and offsets have 90 000 ticks a second.
"""

from collections import deque
from typing import Final

import msgspec
import numpy as np

from media.ticks import VIDEO_SCALE

_SECOND: Final = VIDEO_SCALE
# By how much a comparison may be wrong, and an offset: less than a picture at 30 a second.
_ERROR: Final = _SECOND // 200
_MOST_ERROR: Final = _SECOND // 40
# Clocks of encoders are within 200 ppm of the right time, if not broken.
_MOST_DRIFT: Final = 500e-6
# In less, errors would seem to be more drift than there can be.
_LEAST_LENGTH: Final = 2 * _ERROR / _MOST_DRIFT
# What is older says nothing of how fast clocks drift now.
_KEPT: Final = 1200 * _SECOND
_MOST_POINTS: Final = 120
# What is farther from where it was expected comes from clocks that are not as they were.
_CONTRADICTION: Final = 6 * _SECOND // 100


class _Point(msgspec.Struct, frozen=True):
    time: int
    offset: int


class OffsetTrack:
    """The offsets of one pair of sources, as they were found one after another."""

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=_MOST_POINTS)

    def add(self, time: int, offset: int) -> None:
        """Take into account what was found at a time."""
        if self._points:
            newest = self._points[-1]
            drifted = round(_MOST_DRIFT * (time - newest.time))
            if abs(offset - newest.offset) > _CONTRADICTION + drifted:
                self._points.clear()
        self._points.append(_Point(time, offset))
        while self._points[0].time < time - _KEPT:
            self._points.popleft()

    def at(self, time: int) -> int | None:
        """Return the offset at a time; None if it is not known to a picture, or was found once."""
        if len(self._points) < 2 or time > self.known_until:
            return None
        drift, middle, offset = self._line()
        return round(offset + drift * (time - middle))

    @property
    def known_until(self) -> int:
        """Until when the offset is known to a picture; 0 if none was found."""
        if not self._points:
            return 0
        length = self._points[-1].time - self._points[0].time
        uncertain = min(_MOST_DRIFT, 2 * _ERROR / max(1, length))
        return self._points[-1].time + round((_MOST_ERROR - _ERROR) / uncertain)

    def _line(self) -> tuple[float, float, float]:
        """Return how fast the offset changes, and what it is at a time."""
        times = np.array([each.time for each in self._points], np.float64)
        offsets = np.array([each.offset for each in self._points], np.float64)
        middle, offset = float(times.mean()), float(offsets.mean())
        spread = float(((times - middle) ** 2).sum())
        if times[-1] - times[0] < _LEAST_LENGTH:
            return 0.0, middle, offset
        drift = float(((times - middle) * (offsets - offset)).sum()) / spread
        return max(-_MOST_DRIFT, min(_MOST_DRIFT, drift)), middle, offset
