"""Decides where a source's sound belongs if its time stamps are far from those of its picture.

Pure; times are ticks of 90 000 a second on the output clock. Encoders send sound and picture that
belong together at about the same moment, so sound is compared with the picture that arrives with
it. Up to `MOST_OFFSET` the time stamps count: the sound was only sent early or late. A larger
offset that stays constant comes from an encoder with two clocks, and the sound is moved to the
picture that arrives with it. An offset that changes is not moved: the encoder catches up, or its
picture has stalled while the sound continues.
"""

from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

# Further apart, media would have to be held for longer than a player's buffer lasts.
MOST_OFFSET: Final = 4 * VIDEO_SCALE
# For how long an offset must be constant, and within which spread. Sound and picture are sent in
# turns, of half a second at most; an encoder that catches up does so at twice its speed or more.
_CONFIRM: Final = VIDEO_SCALE
_SPREAD: Final = VIDEO_SCALE // 2
# The longest hole in a sound that continues: the ingest begins a source anew after 5 s.
_MOST_HOLE: Final = 5 * VIDEO_SCALE


class _Candidate(msgspec.Struct):
    """An offset that may be constant: its bounds so far, since the picture of that time."""

    since: int
    low: int
    high: int


class SoundAnchor:
    """Places the sound of one source beside its picture.

    `shift` is what is added to the sound's times.
    """

    def __init__(self) -> None:
        self.shift = 0
        self._picture: int | None = None  # the newest picture
        self._placed: int | None = None  # the newest sound that was placed
        self._arrived: int | None = None  # the newest sound since that picture, not shifted
        self._candidate: _Candidate | None = None

    def add_picture(self, dts: int) -> int | None:
        """Add the next picture by its decode time.

        If that moves the sound from here on, return how far its time stamps are ahead of those of
        the picture (below 0: behind).
        """
        self._picture = dts
        arrived, self._arrived = self._arrived, None
        if arrived is None:
            return None
        offset = arrived + self.shift - dts
        if abs(offset) <= MOST_OFFSET:
            self._candidate = None
            return None
        candidate = self._candidate
        if candidate is not None:
            candidate.low = min(candidate.low, offset)
            candidate.high = max(candidate.high, offset)
        if candidate is None or candidate.high - candidate.low > _SPREAD:
            self._candidate = _Candidate(since=dts, low=offset, high=offset)
            return None
        if dts - candidate.since < _CONFIRM:
            return None
        self.shift -= (candidate.low + candidate.high) // 2
        self._candidate = self._placed = None
        return -self.shift

    def place(self, pts: int) -> int | None:
        """Return where sound belongs that has just arrived; None if that is not known yet."""
        self._arrived = pts
        at = pts + self.shift
        near = self._picture is not None and abs(at - self._picture) <= MOST_OFFSET
        follows = self._placed is not None and abs(at - self._placed) <= _MOST_HOLE
        if not near and not follows:
            return None
        self._placed = at
        return at
