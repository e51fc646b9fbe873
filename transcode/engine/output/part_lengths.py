"""How long the parts of live renditions last (RFC 8216bis, 4.4.4.9).

Pure. No part may last longer than the part target, and all parts of a segment but its last must
last 85 % of it or more. So the target of an epoch is a whole number of its source's frames
(`choose_target`). `PartLengths` decides where the parts of one rendition end: with the sample after
which the next one, if it came as expected, would not fit. A part therefore leaves with its last
sample and does not wait for the next.

A last part of one or two samples costs a request for nothing, and hls.js does not load it: it takes
a position within 50 ms of a segment's end for the next segment, and waits. So a segment whose end
can be foreseen is divided evenly; where its parts would be too short then, all but the last are as
short as allowed, which leaves the most for the last one. That is half a part or more, except where
a part has so few frames, or a segment so few parts, that these cannot be spread otherwise.

Where samples come irregularly, a part may be up to a frame longer or shorter than is allowed. Its
announced length is then within the limits; the difference counts for the part after it.
"""

from collections import deque
from fractions import Fraction
from math import ceil, floor
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE, rescale

_LEAST_SHARE: Final = Fraction(85, 100)
# The targets that settings allow, in ticks of 90 000 a second.
_SHORTEST: Final = VIDEO_SCALE // 5
_LONGEST: Final = VIDEO_SCALE
_MILLISECOND: Final = VIDEO_SCALE // 1000
# The median of this many newest intervals between samples is expected next, so that a single hole
# never counts.
_REMEMBERED: Final = 9
# How far the part target may be from the one that was wanted, if that divides segments better.
_NEAR: Final = Fraction(1, 5)
# FLV's times are whole milliseconds: those of a part's ends, and the interval to the next sample.
_MOST_SLACK: Final = Fraction(3, 1000)  # seconds


class FrameInterval(msgspec.Struct, frozen=True, gc=False):
    """The time between frames and how far it may be off, in ticks of 90 000 a second."""

    ticks: Fraction
    error: Fraction = Fraction(0)


def choose_target(wanted: int, interval: FrameInterval, segment: int = 0) -> int:
    """Return the part target: the multiple of a frame interval that is nearest to `wanted`.

    It is between 0.2 and 1 s, and rounded up to whole milliseconds; 1 s for slower sources. Of two
    equally near, the shorter is chosen. A multiple that is near is passed over for another one if
    it would leave less than half a part for the last one of a segment; `segment` is how long these
    will be, 0 if that is unknown. Ticks of 90 000 a second.
    """
    shortest, longest = min(_SHORTEST, wanted), max(_LONGEST, wanted)
    if interval.ticks > longest:
        return longest
    frames = wanted / interval.ticks
    fewest, most = ceil(shortest / interval.ticks), int(longest / interval.ticks)
    nearest = floor(frames) if frames - floor(frames) <= Fraction(1, 2) else ceil(frames)
    nearest = max(fewest, min(nearest, most))
    near = [
        count
        for count in range(fewest, most + 1)
        if abs(count - frames) <= _NEAR * frames and _is_divisible(segment, interval.ticks, count)
    ]
    is_bad = segment > 0 and not _is_divisible(segment, interval.ticks, nearest)
    count = min(near, key=lambda each: abs(each - frames), default=nearest) if is_bad else nearest
    exact = count * (interval.ticks + interval.error)
    return min(longest, ceil(exact / _MILLISECOND) * _MILLISECOND)


def _is_divisible(segment: int, ticks: Fraction, count: int) -> bool:
    """Return whether parts of at most `count` frames leave half of one for a segment's last."""
    frames = segment / ticks
    least = ceil(_LEAST_SHARE * count)
    return all(
        2 * _last_part(number, most=count, least=least) >= count
        for number in {floor(frames), ceil(frames)}
    )


def _last_part(frames: int, *, most: int, least: int) -> int:
    """Return how many frames are left for the last part of a segment of that many."""
    while frames > most:
        frames -= _next_part(frames, most=most, least=least)
    return frames


def _next_part(frames: int, *, most: int, least: int) -> int:
    """Return how many frames the next part has, if that many are left, more than fit into one.

    `most` and `least` are how many frames a part may have.
    """
    parts = -(-frames // most)
    return max(least, -(-frames // parts))


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
        self._segment_times: tuple[int, int] = (0, 0)  # of its first sample, and how many follow
        self._position = 0
        self._segment_end = 0  # as expected; before `_position` if that is unknown
        self.shortest = self.expected = scale // 30
        self._slack = 0

    def measure(self, dts: int, *, opens: bool = False) -> None:
        """Record the time of the next sample according to the source.

        `expected` is the interval to the one after it, `shortest` the least to be expected. A
        sample that `opens` a segment may be a picture that is repeated there out of its turn: its
        distance is no measure of those that follow.
        """
        before, self._newest = self._newest, dts
        first, following = self._segment_times
        self._segment_times = (dts, 0) if opens else (first, following + 1)
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

    def begin_segment(self, dts: int, end: int = 0) -> None:
        """Begin a segment's first part; the segment is expected to last until `end`, if known."""
        self._position = dts
        self._segment_end = end

    def begin_part(self, dts: int) -> None:
        """Begin a part with the sample at `dts`, which may come after a hole.

        A hole that leaves no room for the sample in the part belongs to no part.
        """
        if not self._has_room(self._position, dts):
            self._position = dts

    def is_full(self, end: int) -> bool:
        """Return whether the part that lasts until `end` has no room for another sample.

        If it is too short without and too long with that, the smaller deviation counts. It is full
        earlier if that leaves more for the last part of the segment.
        """
        length = end - self._position
        excess = length + self.expected - self._most
        if excess > self._slack and self._least - length <= excess:
            return True
        return length >= max(self._least, self._planned())

    def _planned(self) -> int:
        """Return the length from which on the present part is full, although it has room."""
        rest = self._segment_end - self._position
        if rest <= self._most or not self._intervals:
            return self._most
        step = Fraction(self.expected)
        first, following = self._segment_times
        if self._slack and following and self._newest is not None:
            # Rounded to milliseconds, or irregular: the average so far is nearest to the truth.
            step = max(step / 2, Fraction(self._newest - first, following))
            frames, most = round(rest / step), round(self._most / step)
        else:
            frames, most = ceil(rest / step), int(self._most / step)
        least = ceil(self._least / step)
        if frames <= most or not least <= most:
            return self._most
        planned = _next_part(frames, most=most, least=least)
        return int((planned - Fraction(1, 2)) * step)

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
