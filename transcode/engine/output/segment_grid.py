"""The segment grid: where the segments of an epoch begin, from the packets' times in decode order.

Pure. A cut is a time, not a picture: in every rendition the first frame at or after it opens the
segment, so a frame that the decoder loses or delays cannot put the renditions out of step. While
the source's own packets are reused, the cuts are at its IDR pictures; otherwise they form a fixed
grid. A hole in the picture is cut as well, whether the picture returns or only the sound continues:
no segment is longer than `longest` and one frame. Times are ticks of 90 000 a second on the output
clock.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

# Timestamps are whole milliseconds (FLV) and live capture jitters: half a frame at 60 a second is
# within every frame's own time and never another frame.
SLACK: Final = 750
# If pictures are further apart than this, the last one is repeated at a cut between them, instead
# of a segment that begins late.
HOLE: Final = 45_000
# A segment must hold a frame of sound, which lasts 1 920 ticks.
_LEAST: Final = 3_000
# Some players would wait for an epoch's first segment if it were shorter.
_LEAST_FIRST: Final = 90_000


class Cut(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The beginning of the segment `sequence`: its first frame is the first at or after `at`.

    `expected` is how long it will be if the source goes on as before, 0 if that is unknown. With
    `takeover`, the encoder makes the top rung from here on, instead of the source. With `still`,
    all encoders begin anew for a picture that stands. `off` names
    the rungs that have a gap instead of this segment; `decoded` is False if none of the others
    needs the decoder.
    """

    sequence: int
    at: int
    expected: int = 0
    discontinuity: bool = False
    takeover: bool = False
    still: bool = False
    off: frozenset[str] = frozenset()
    decoded: bool = True


class SegmentGrid:
    """Decides the cuts of one epoch; the first picture opens the first segment.

    `cut` is the minimum length of a segment, `longest` its maximum while `reuse` waits for an IDR
    picture.
    """

    def __init__(
        self, *, sequence: int, discontinuity: bool, cut: int, longest: int, reuse: bool
    ) -> None:
        self._sequence = sequence
        self._discontinuity = discontinuity
        self._cut = max(1, cut)
        self._longest = longest
        self._reuse = reuse
        self._last: int = 0
        self._next: int = 0
        self._newest: int | None = None
        self._picture = 0  # the latest picture's time
        self._holds_picture = False
        self._idr: int | None = None  # the source's latest IDR picture
        self._group = 0  # the time between its IDR pictures
        self._spliced = False
        self._opened = 0  # where the first segment begins
        self._bridges = False  # the encoder makes the top rung, up to the source's next IDR picture

    @property
    def newest(self) -> int:
        """The latest time so far; every later cut comes after it."""
        return self._newest if self._newest is not None else 0

    def settled(self, step: int) -> int:
        """Return the time up to which no cut will come; a picture is shown for about `step`.

        Sound up to there need not wait for the next picture.
        """
        shown = self.newest + max(0, step - SLACK)
        return shown if self._reuse else max(self.newest, min(shown, self._next - 1))

    @property
    def sequence(self) -> int:
        """The number of the segment that the next cut opens."""
        return self._sequence

    @property
    def reuses(self) -> bool:
        """True while the source's own packets make the top rung."""
        return self._reuse

    @property
    def holds_picture(self) -> bool:
        """True while the picture is held because only the sound continues, from a cut in it on."""
        return self._holds_picture

    def add_picture(self, pts: int, *, idr: bool, own: bool = True) -> Sequence[Cut]:
        """Add the next picture's time, in decode order; return the cuts that it causes.

        `own` is False if the source's packets cannot make the top rung from this picture on.
        """
        if idr:
            self._group = self._group if self._idr is None else pts - self._idr
            self._idr = pts
        if self._newest is None:
            return (self._first_cut(pts, own=own),)
        if pts - self._picture <= HOLE:
            self._holds_picture = False
        before, self._newest = self._newest, max(self._newest, pts)
        self._picture = max(self._picture, pts)
        least = _LEAST_FIRST if self._last == self._opened else _LEAST
        if self._bridges and idr and own and pts - self._last >= least:
            self._reuse, self._bridges, self._spliced = True, False, False
            self._last = pts
            return (self._cut_at(pts),)
        if self._reuse and not own:
            at = pts if pts - before <= HOLE else min(pts, self._last + self._longest)
            return self._take_over(max(at, self._last + _LEAST), before, pts)
        if pts <= before:
            return ()
        return self._by_source(pts, before, idr=idr) if self._reuse else self._by_clock(pts)

    def bridge(self, at: int) -> Cut:
        """Let the encoder make the top rung from `at` on, up to the source's next IDR picture.

        If that does not come in time, it takes over at the next cut.
        """
        first = self._newest is None
        at = at if first else max(at, self._last + _LEAST)
        if first:
            self._newest = self._picture = self._opened = at
        self._reuse, self._bridges = False, True
        self._last = at
        self._next = at + self._longest + SLACK
        return self._cut_at(at, discontinuity=first and self._discontinuity, takeover=True)

    def await_entry(self) -> None:
        """Let the source make the top rung again from its next IDR picture on, if it is in time."""
        self._bridges = True
        self._next = max(self._next, self._last + self._longest + SLACK)

    def splice(self) -> None:
        """Continue with another source, whose first picture comes after the newest."""
        self._spliced, self._idr, self._holds_picture = True, None, False

    def _expected(self) -> int:
        """Return how long a segment gets that begins with an IDR picture of the source."""
        group = self._group or self._cut
        if group > self._longest + SLACK:
            return self._longest
        return group * max(1, -(-(self._cut - SLACK) // group))

    def leave_source(self, at: int) -> Sequence[Cut]:
        """Continue by the clock without a source; its pictures are shown up to `at`.

        The first cut that this causes begins an epoch or comes with a discontinuity.
        """
        if self._newest is None:
            cuts: Sequence[Cut] = (self._first_cut(at, own=False),)
        elif self._reuse:
            at = max(at, self._last + _LEAST)
            cuts = self._take_over(at, self._newest, self._newest, discontinuity=True)
        else:
            self._bridges = False
            return ()
        first, *others = cuts
        if not others:  # without a source, pictures are repeated at the cuts exactly
            self._next = first.at + self._cut
        return (msgspec.structs.replace(first, still=True), *others)

    def cut_until(self, until: int) -> Sequence[Cut]:
        """Give up waiting for pictures before `until`; return the cuts that this causes.

        While an IDR picture may come in time, it does nothing.
        """
        if self._newest is None or until <= self._newest:
            return ()
        if not self._reuse:
            cuts = self._by_clock(until)
        elif until - self._last > self._longest + SLACK:
            cuts = self._take_over(self._last + self._longest, self._newest, until)
        else:
            return ()
        self._newest = until
        self._holds_picture = self._holds_picture or bool(cuts)
        return cuts

    def _first_cut(self, pts: int, *, own: bool) -> Cut:
        self._newest = self._last = self._picture = self._opened = pts
        self._next = pts - SLACK + self._cut
        takeover = self._reuse and not own
        self._reuse = self._reuse and own
        return self._cut_at(pts, discontinuity=self._discontinuity, takeover=takeover)

    def _by_clock(self, until: int) -> Sequence[Cut]:
        if until < self._next:
            return ()
        cuts: list[Cut] = []
        self._bridges = False
        while self._next <= until:
            at, self._next = self._next, self._next + self._cut
            self._last = at
            cuts.append(self._cut_at(at))
        return cuts

    def _by_source(self, pts: int, before: int, *, idr: bool) -> Sequence[Cut]:
        length = pts - self._last
        hole = pts - before > HOLE
        late = length > self._longest + SLACK
        if idr and length >= self._least_length(length) and not (hole and late):
            self._last = pts
            return (self._cut_at(pts),)
        if not late:
            return ()
        # No IDR picture in time. All pictures that are shown before this one have been sent, since
        # it is the newest; those coded after it but shown before it belong to the new segment.
        at = self._last + self._longest if hole else before + 1
        return self._take_over(at, before, pts)

    def _least_length(self, length: int) -> int:
        """Return how long the segment must be for an IDR picture to end it.

        The source after a splice starts anywhere in a segment. If its next IDR picture would be too
        late for that segment, a short segment is better than a takeover by the encoder.
        """
        spliced, self._spliced = self._spliced, False
        if spliced and length + self._group > self._longest + SLACK:
            return _LEAST
        return self._cut - SLACK

    def _take_over(
        self, at: int, before: int, until: int, *, discontinuity: bool = False
    ) -> Sequence[Cut]:
        """Cut at `at`, or right after the newest picture `before`; continue by the clock."""
        self._reuse = False
        slack = -SLACK if at > before + 1 else SLACK
        at = max(at, before + 1)
        self._next = at + slack + self._cut
        cut = self._cut_at(at, discontinuity=discontinuity, takeover=True)
        return (cut, *self._by_clock(until))

    def _cut_at(self, at: int, *, discontinuity: bool = False, takeover: bool = False) -> Cut:
        self._sequence += 1
        return Cut(
            sequence=self._sequence - 1,
            at=at,
            expected=self._expected() if self._reuse else self._next - at,
            discontinuity=discontinuity,
            takeover=takeover,
        )
