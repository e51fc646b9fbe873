"""How many parts the open segments of a run will probably have, so that hints name the next part.

Pure. Most segments have as many as those before them. Where two encoders share a segment it is
longer or shorter than the others, and the engine says how long it will be. A hint may be wrong
where the segmentation changes (draft-pantos-hls-rfc8216bis, 6.2.6).
"""

from collections import deque
from collections.abc import Sequence
from math import ceil
from statistics import median_low
from typing import Final

from media.hls.playlist import PartialSegment
from media.ticks import VIDEO_SCALE

__all__ = ["PartCounts"]

# A segment is expected to have as many parts as the median of so many: a longer or shorter one at a
# switch of encoders does not count, and a new frame rate soon does.
_COUNTED: Final = 3
# An announced length is off by less than a frame of audio; so short a remainder is no part.
_NO_PART: Final = VIDEO_SCALE // 100


class PartCounts:
    """The numbers of parts of a run's newest segments, by rendition."""

    def __init__(self) -> None:
        self._counts: dict[str, deque[int]] = {}
        self._announced = (-1, 0)  # a segment of another length than the others, and that length

    def add(self, name: str, parts: int) -> None:
        """Add the number of parts of a rendition's next segment."""
        self._counts.setdefault(name, deque(maxlen=_COUNTED)).append(parts)

    def announce_length(self, sequence: int, length: int) -> None:
        """Expect a segment to last `length` ticks of 90 000 a second.

        0, the default, means as long as the others.
        """
        self._announced = (sequence, length)

    def expected(self, name: str, sequence: int, parts: Sequence[PartialSegment]) -> int:
        """Return how many parts a rendition's open segment will probably have; 0: not known.

        `parts` are those so far, at least one; those that follow are as long, except for the last.
        """
        number, length = self._announced
        if number == sequence and length:
            return ceil((length - _NO_PART) / max(1, *(part.duration for part in parts)))
        counts = self._counts.get(name)
        return median_low(counts) if counts else 0
