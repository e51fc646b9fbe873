"""Where a file's segments begin, and which of them make a stretch that one worker makes.

Pure. Times are ticks of 90 000 a second on one clock. All renditions of a file cut at the same
times, which are known before anything is made: so what is made apart fits together.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

__all__ = [
    "CUT",
    "HOLE",
    "LONGEST",
    "SLACK",
    "Bounds",
    "cuts_at_keys",
    "cuts_by_clock",
    "stretched",
]

CUT: Final = 2 * VIDEO_SCALE
LONGEST: Final = 4 * VIDEO_SCALE
# Stamps in whole milliseconds are off by less than half a frame at 60 a second.
SLACK: Final = 750
# A picture that comes so long after a cut does not open its segment: the one before is shown again.
HOLE: Final = VIDEO_SCALE // 2
# A stretch costs the start of a process, 0.3 s, and the decoding from the keyframe before it; what
# is lost when a worker dies, and what the last worker keeps the others waiting for, is half of it.
_SHORTEST: Final = 10 * VIDEO_SCALE
_TARGET: Final = 30 * VIDEO_SCALE
_TARGET_OF_LONG: Final = 60 * VIDEO_SCALE
_LONG: Final = 1800 * VIDEO_SCALE
# Towards the end of what is longer than four they grow shorter, so that all workers end at nearly
# the same time.
_OF_THE_REST: Final = 4
_STUB: Final = VIDEO_SCALE // 2
_STEADY: Final = 2  # pictures in the segment before a stretch


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch: the cuts from `first` to before `last`, decoded from the keyframe `key` on.

    `end` is the time of the first picture after it, `before` that of the last one before it, None
    where it is the first; `pictures` is how many it has.
    """

    first: int
    last: int
    key: int
    before: int | None
    end: int
    pictures: int


def cuts_at_keys(entries: Sequence[int], start: int, end: int) -> tuple[int, ...] | None:
    """Return cuts at a source's own keyframes; None where a segment would be too long.

    `entries` are the times of pictures at which its own packets can be cut, in order.
    """
    if not entries or entries[0] > start:
        return None
    cuts = [start]
    newest = start
    for time in (*entries[1:], end):
        if time - cuts[-1] > LONGEST:
            if newest == cuts[-1] or time - newest > LONGEST:
                return None
            cuts.append(newest)  # early, but the next comes too late
        newest = time
        if time < end and time - cuts[-1] >= CUT - SLACK:
            cuts.append(time)
    return _without_stub(cuts, end)


def cuts_by_clock(start: int, newest: int) -> tuple[int, ...]:
    """Return cuts every two seconds, as far as the pictures go."""
    return _without_stub([start, *range(start + CUT - SLACK, newest + 1, CUT)], newest)


def _without_stub(cuts: list[int], end: int) -> tuple[int, ...]:
    """Leave out a last cut that would open a segment of a few pictures."""
    stub = len(cuts) > 1 and end - cuts[-1] < _STUB and end - cuts[-2] <= LONGEST
    return tuple(cuts[:-1] if stub else cuts)


def stretched(
    cuts: Sequence[int], shown: Sequence[int], keys: Sequence[int], end: int
) -> tuple[Bounds, ...]:
    """Return the stretches of a film whose pictures are shown at `shown`, in order, up to `end`.

    They begin where the keyframe before is near; where there is no such place, they are longer.
    """
    places = [0]
    length = end - cuts[0]
    target = _TARGET_OF_LONG if length > _LONG else min(_TARGET, max(_SHORTEST, length // 2))

    def of_the_rest(last: int) -> int:
        if length <= _OF_THE_REST * target:
            return target
        return min(target, max(_SHORTEST, (end - cuts[last]) // _OF_THE_REST))

    while (
        place := _next(last := places[-1], cuts, shown, keys, end, of_the_rest(last))
    ) is not None:
        places.append(place)
    return tuple(
        _bounds(first, last, cuts, shown, keys, end)
        for first, last in zip(places, [*places[1:], len(cuts)], strict=True)
    )


def _next(
    last: int,
    cuts: Sequence[int],
    shown: Sequence[int],
    keys: Sequence[int],
    end: int,
    target: int,
) -> int | None:
    """Return the number of the cut that the next stretch begins with."""
    if 2 * (end - cuts[last]) <= 3 * target:
        return None
    found: tuple[int, int] | None = None
    for place in range(bisect_left(cuts, cuts[last] + target - SLACK), len(cuts)):
        if 2 * (end - cuts[place]) < target:
            break
        if found is not None and cuts[place] - cuts[last] > 2 * target:
            break
        if not _is_steady(place, cuts, shown):
            continue
        early = _early(shown[bisect_left(shown, cuts[place])], keys)
        if early <= target and (found is None or early < found[0]):
            found = early, place
        if not early:
            break
    return None if found is None else found[1]


def _is_steady(place: int, cuts: Sequence[int], shown: Sequence[int]) -> bool:
    """Say whether pictures lie close to a cut, on both sides."""
    at = bisect_left(shown, cuts[place])
    before = bisect_left(shown, cuts[place - 1])
    return at < len(shown) and shown[at] - cuts[place] <= HOLE and at - before >= _STEADY


def _early(time: int, keys: Sequence[int]) -> int:
    """Return how long before a picture its decoding begins."""
    place = bisect_right(keys, time)
    return time - keys[place - 1] if place else LONGEST * LONGEST


def _bounds(
    first: int,
    last: int,
    cuts: Sequence[int],
    shown: Sequence[int],
    keys: Sequence[int],
    end: int,
) -> Bounds:
    at = bisect_left(shown, cuts[first])
    stop = bisect_left(shown, cuts[last]) if last < len(cuts) else len(shown)
    place = bisect_right(keys, shown[at])
    return Bounds(
        first=first,
        last=last,
        key=keys[place - 1] if place else shown[0],
        before=shown[at - 1] if at else None,
        end=shown[stop] if stop < len(shown) else end,
        pictures=stop - at,
    )
