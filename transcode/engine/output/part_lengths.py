"""How long the parts of live renditions last (RFC 8216bis, 4.4.4.9).

Pure. No part may last longer than the part target, and all parts of a segment but its last must
last 85 % of it or more. So the target of an epoch is a whole number of its source's frames
(`choose_target`). `PartLengths` decides where the parts of one rendition end: with the sample after
which the next one, if it came as expected, would not fit. A part therefore leaves with its last
sample and does not wait for the next.

Where samples come irregularly, a part may be up to a frame longer or shorter than is allowed. Its
announced length is then within the limits; the difference counts for the part after it.
"""

from collections import deque
from fractions import Fraction
from math import ceil, floor
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE, rescale

__all__ = ["FrameInterval", "PartLengths", "choose_target"]

_LEAST_SHARE: Final = Fraction(85, 100)
# The targets that settings allow, in ticks of 90 000 a second.
_SHORTEST: Final = VIDEO_SCALE // 5
_LONGEST: Final = VIDEO_SCALE
_MILLISECOND: Final = VIDEO_SCALE // 1000
# The median of this many newest intervals between samples is expected next, so that a single hole
# never counts.
_REMEMBERED: Final = 9
# FLV's times are whole milliseconds: those of a part's ends, and the interval to the next sample.
_MOST_SLACK: Final = Fraction(3, 1000)  # seconds


class FrameInterval(msgspec.Struct, frozen=True, gc=False):
    """The time between frames and how far it may be off, in ticks of 90 000 a second."""

    ticks: Fraction
    error: Fraction = Fraction(0)


def choose_target(wanted: int, interval: FrameInterval) -> int:
    """Return the part target: the multiple of a frame interval that is nearest to `wanted`.

    It is between 0.2 and 1 s, and rounded up to whole milliseconds; 1 s for slower sources. Of two
    equally near, the shorter is chosen. Ticks of 90 000 a second.
    """
    shortest, longest = min(_SHORTEST, wanted), max(_LONGEST, wanted)
    if interval.ticks > longest:
        return longest
    frames = wanted / interval.ticks
    count = floor(frames) if frames - floor(frames) <= Fraction(1, 2) else ceil(frames)
    count = max(ceil(shortest / interval.ticks), min(count, int(longest / interval.ticks)))
    exact = count * (interval.ticks + interval.error)
    return min(longest, ceil(exact / _MILLISECOND) * _MILLISECOND)


class PartLengths:
    """Divides the segments of a rendition into parts; times are decode times in its own `scale`.

    `target` is the part target in ticks of 90 000 a second. A part begins where the one before it
    was announced to end.
    """

    def __init__(self, scale: int, target: int) -> None:
        self._scale = scale
        self._target = target
        self._most = target * scale // VIDEO_SCALE
        self._least = min(self._most, ceil(_LEAST_SHARE * target * scale / VIDEO_SCALE))
        self._most_slack = int(_MOST_SLACK * scale)
        self._millisecond = scale // 1000
        self._intervals: deque[int] = deque(maxlen=_REMEMBERED)
        self._newest: int | None = None
        self._position = 0
        self.shortest = self.expected = scale // 30
        self._slack = 0

    def measure(self, dts: int, *, opens: bool = False) -> None:
        """Record the time of the next sample according to the source.

        `expected` is the interval to the one after it, `shortest` the least to be expected. A
        sample that `opens` a segment may be a picture that is repeated there out of its turn: its
        distance is no measure of those that follow.
        """
        before, self._newest = self._newest, dts
        if before is None or dts <= before:
            return
        if opens and self._intervals:
            return
        self._intervals.append(dts - before)
        self._forget_other_rate()
        ordered = sorted(self._intervals)
        self.shortest, self.expected = ordered[0], ordered[len(ordered) // 2]
        self._slack = max(self._slack, min(3 * (ordered[-1] - ordered[0]), self._most_slack))

    def _forget_other_rate(self) -> None:
        """Forget all but the newest two intervals if these are those of a new, lower rate.

        They are if they are equal and longer than all others, and those are equal too: an irregular
        source keeps its shortest interval, else its parts would overlap.
        """
        if len(self._intervals) < _REMEMBERED:
            return
        old, new = sorted(self._intervals)[:-2], list(self._intervals)[-2:]
        are_equal = max(old[-1] - old[0], abs(new[1] - new[0])) <= self._millisecond
        if are_equal and min(new) - old[-1] > self._millisecond:
            self._intervals = deque(new, maxlen=_REMEMBERED)

    def interrupt(self) -> None:
        """Record that the next sample comes after a gap, so that its distance does not count."""
        self._newest = None

    def begin_segment(self, dts: int) -> None:
        """Begin a segment's first part."""
        self._position = dts

    def begin_part(self, dts: int) -> None:
        """Begin a part with the sample at `dts`, which may come after a hole.

        A hole that leaves no room for the sample in the part belongs to no part.
        """
        if not self._has_room(self._position, dts):
            self._position = dts

    def is_full(self, end: int) -> bool:
        """Return whether the part that lasts until `end` has no room for another sample.

        If it is too short without and too long with that, the smaller deviation counts.
        """
        length = end - self._position
        excess = length + self.expected - self._most
        return excess > self._slack and self._least - length <= excess

    def end_before(self, dts: int) -> int:
        """Return where a part ends if the sample at `dts` comes too late for it.

        That is at the target if the next part has room for the rest of the time up to `dts`.
        """
        target_end = self._position + self._most
        return target_end if target_end < dts and self._has_room(target_end, dts) else dts

    def _has_room(self, begin: int, dts: int) -> bool:
        """Return whether a part from `begin` on can hold a sample at `dts`.

        A sample that is late by less than a whole interval is not taken for one after a hole.
        """
        return dts - begin <= max(self.expected, self._most - self.expected)

    def end_part(self, first: int, end: int, *, last: bool) -> int:
        """End the part of the samples from `first` to `end`; return its announced length.

        That is in ticks of 90 000 a second. `last` allows a shorter one.
        """
        length = max(end - self._position, end - first if last else self._least)
        length = min(length, self._most)
        self._position += length
        return min(self._target, rescale(length, self._scale, VIDEO_SCALE))
