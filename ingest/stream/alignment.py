"""What is believed of the distance between two encoders of one programme.

Pure. An offset relates the times of their packets, not when these arrive: what one shows at t, the
other shows at t plus the offset. One comparison proves nothing, since a jingle is played again and
again: an offset holds once two in a row have found the same. From then on the median of the newest
few counts, because clocks drift. Silence says nothing about it, so it lasts; a comparison that
finds another offset ends it at once, and so does one that says that it is outdated.
"""

from collections import deque
from statistics import median
from typing import Final, Literal

from media.source_comparison import OUTDATED, PICTURES_AWAITED, SourceComparison

# A comparison is exact to 10 ms, and to 1 ms as a rule; half a picture at 30 a second.
_SAME_SECONDS: Final = 0.02
# A clock may be wrong by 360 ppm: 4 ms from one to the next, and half of these in the median.
_KEPT: Final = 5
# Comparisons near the offset that find nothing: then the whole reach is searched again.
_MISSES: Final = 3
# In the first 20 s more of what the encoders sent comes into reach each time: a right place for
# what was taken for its repetition.
_SETTLED: Final = 8
# Pictures are placed less exactly than sound: by a picture, at 25 a second.
_LEAST_LIP_SYNC: Final = 0.04
_NOT_YET: Final = "not compared yet"
_TOO_LITTLE: Final = (_NOT_YET, "too short")
# What more of the same sound does not change. One that is ahead is "different" until it has sent
# more than it is ahead by.
_HOPELESS: Final = ("silent", "steady")


class Alignment:
    """The offset of one source from another, as far as comparisons agree.

    It ends with the clocks of both: a source that begins anew has another one.
    """

    def __init__(self) -> None:
        self._agreed: deque[float] = deque(maxlen=_KEPT)
        self._first: float | None = None  # found once, and not yet again
        self._found = 0
        self._misses = 0
        self._lip_sync = 0.0  # by how much pictures are later than the sound says
        self._newest = SourceComparison(offset=None, reason=_NOT_YET)

    @property
    def offset(self) -> float | None:
        """The offset in seconds; None if none holds."""
        return median(self._agreed) if self._agreed else None

    @property
    def confidence(self) -> float:
        """How well the two agreed in the newest comparison: 1 is equal, 0 is not at all."""
        return self._newest.correlation if self._agreed else 0.0

    @property
    def reason(self) -> str | None:
        """Why no offset was found the last time, None if one was."""
        return self._newest.reason

    @property
    def is_awaited(self) -> bool:
        """Whether the next comparisons may find an offset: the first one needs 5 s of sound."""
        return self.offset is None and self.reason not in _HOPELESS

    @property
    def has_too_little(self) -> bool:
        """Whether there was too little to compare until now."""
        return self.offset is None and self.reason in _TOO_LITTLE

    @property
    def method(self) -> Literal["sound", "picture"]:
        """By what the newest comparison was made."""
        return self._newest.method

    @property
    def picture_offset(self) -> float | None:
        """The offset of the pictures in seconds, which is another one where lip sync differs."""
        return None if self.offset is None else self.offset + self._lip_sync

    @property
    def is_settled(self) -> bool:
        """Whether the offset has been found often enough to look for it less often."""
        return self._found >= _SETTLED

    @property
    def near(self) -> float | None:
        """Where the next comparison is to search; None is everywhere."""
        return self.offset if self.is_settled and self._misses < _MISSES else None

    def record(self, comparison: SourceComparison) -> None:
        """Take a comparison into account."""
        if comparison.reason == PICTURES_AWAITED:
            return  # what is known still holds
        self._newest, found = comparison, comparison.offset
        if found is None:
            self._misses += 1
            self._first = None
            if comparison.reason == OUTDATED:
                self._agreed.clear()
                self._found = 0
            return
        self._misses = 0
        if comparison.picture_offset is not None:
            differs = comparison.picture_offset - found
            self._lip_sync = differs if abs(differs) >= _LEAST_LIP_SYNC else 0.0
        offset = self.offset
        if offset is not None and abs(found - offset) <= _SAME_SECONDS:
            self._agreed.append(found)
            self._found += 1
        elif self._first is not None and abs(found - self._first) <= _SAME_SECONDS:
            self._agreed.extend((self._first, found))
            self._found, self._first = 2, None
        else:
            self._agreed.clear()
            self._found, self._first = 0, found
