"""Where the segments of an epoch begin: decided once, from the packets' times in decode order.

Pure. A cut is a time, not a picture: in every rendition the first frame at or after it opens the
segment, so a frame that the decoder loses or delivers late cannot put the renditions out of step.
While the source's own packets are reused the cuts are its IDR pictures; otherwise they form a fixed
grid. Ticks of 90 000 a second on the output clock.
"""

from typing import Final

import msgspec

__all__ = ["SLACK", "Cut", "Grid"]

# Stamps are whole milliseconds (FLV) and live grabbers jitter: half a frame at 60 a second is
# within every frame's own time and never a frame of its own.
SLACK: Final = 750


class Cut(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The beginning of the segment `sequence`: its first frame is the first at or after `at`.

    `takeover` says that the encoder makes the top rung from here on, instead of the source.
    """

    sequence: int
    at: int
    discontinuity: bool = False
    takeover: bool = False


class Grid:
    """Decides the cuts of one epoch; the first thing offered opens its first segment.

    `cut` is the least length of a segment, `longest` what it may grow to while `reuse` waits for
    an IDR picture.
    """

    def __init__(
        self, *, sequence: int, discontinuity: bool, cut: int, longest: int, reuse: bool
    ) -> None:
        self._sequence = sequence
        self._discontinuity = discontinuity
        self._cut = max(1, cut)
        self._longest = longest
        self._reuse = reuse
        self._last = 0
        self._next = 0
        self._newest: int | None = None

    @property
    def newest(self) -> int:
        """The latest presentation time so far: every cut to come lies after it."""
        return self._newest if self._newest is not None else 0

    @property
    def sequence(self) -> int:
        """The number of the segment that the next cut opens."""
        return self._sequence

    @property
    def reuses(self) -> bool:
        """Whether the source's own packets still make the top rung."""
        return self._reuse

    def offer(self, pts: int, *, idr: bool) -> Cut | None:
        """Take the next picture's time, in decode order; return the cut that it brings about."""
        if self._newest is None:
            self._newest, self._last = pts, pts
            self._next = pts - SLACK + self._cut
            return self._cut_at(pts, discontinuity=self._discontinuity)
        before, self._newest = self._newest, max(self._newest, pts)
        if pts <= before:
            return None
        return self._by_source(pts, before, idr) if self._reuse else self._by_clock(pts)

    def _by_clock(self, pts: int) -> Cut | None:
        due = self._next
        if pts < due:
            return None
        self._pass_by(pts)
        return self._cut_at(due)

    def _pass_by(self, pts: int) -> None:
        """Move on to the first point after `pts`: one segment spans a hole, none is empty."""
        if pts >= self._next:
            self._next += ((pts - self._next) // self._cut + 1) * self._cut

    def _by_source(self, pts: int, before: int, idr: bool) -> Cut | None:
        length = pts - self._last
        if idr and length >= self._cut - SLACK:
            self._last = pts
            return self._cut_at(pts)
        if length <= self._longest + SLACK or idr:
            return None
        # No IDR in time. Pictures shown before this one have all been sent, for it is above them;
        # pictures that are coded after it but shown before it belong to the new segment.
        self._reuse = False
        at = before + 1
        self._next = at + SLACK + self._cut
        self._pass_by(pts)
        return self._cut_at(at, discontinuity=True, takeover=True)

    def _cut_at(self, at: int, *, discontinuity: bool = False, takeover: bool = False) -> Cut:
        self._sequence += 1
        return Cut(
            sequence=self._sequence - 1, at=at, discontinuity=discontinuity, takeover=takeover
        )
