"""Where a file's segments begin, and which segments form a span that one worker encodes.

Pure. Times are ticks of 90 000 a second on one clock. All renditions of a file are cut at the same
times, which are known before anything is encoded, so spans that are encoded separately fit
together.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE
from transcode.engine.output.segment_grid import HOLE, SLACK

SEGMENT_TICKS: Final = 2 * VIDEO_SCALE
LONGEST_SEGMENT_TICKS: Final = 4 * VIDEO_SCALE
# A span costs the start of a process, 0.3 s, and the decoding from the keyframe before it. When a
# worker dies, half a span is lost on average; the last worker keeps the others waiting as long.
_SHORTEST: Final = 10 * VIDEO_SCALE
_TARGET: Final = 30 * VIDEO_SCALE
_TARGET_OF_LONG: Final = 60 * VIDEO_SCALE
_LONG: Final = 1800 * VIDEO_SCALE
# In a video longer than four spans, spans get shorter towards the end, so that all workers finish
# at nearly the same time.
_PART_OF_REST: Final = 4
_STUB: Final = VIDEO_SCALE // 2
_STEADY: Final = 2  # frames in the segment before a span


class SpanBounds(msgspec.Struct, frozen=True, kw_only=True):
    """A span: the cuts from number `first` to before `last`, decoded from the keyframe `key` on.

    `end` is the time of the first frame after the span; `before` is that of the last frame before
    it, None for the first span; `pictures` is the number of frames.
    """

    first: int
    last: int
    key: int
    before: int | None
    end: int
    pictures: int


def cuts_at_keyframes(entries: Sequence[int], start: int, end: int) -> tuple[int, ...] | None:
    """Return cuts at the source's own keyframes, or None if a segment would be too long.

    `entries` are the times, in order, at which the source's own packets can be cut.
    """
    if not entries or entries[0] > start:
        return None
    cuts = [start]
    newest = start
    for time in (*entries[1:], end):
        if time - cuts[-1] > LONGEST_SEGMENT_TICKS:
            if newest == cuts[-1] or time - newest > LONGEST_SEGMENT_TICKS:
                return None
            cuts.append(newest)  # early, because the next keyframe comes too late
        newest = time
        if time < end and time - cuts[-1] >= SEGMENT_TICKS - SLACK:
            cuts.append(time)
    return _without_stub(cuts, end)


def cuts_by_clock(start: int, newest: int) -> tuple[int, ...]:
    """Return cuts every two seconds, up to the newest frame."""
    return _without_stub(
        [start, *range(start + SEGMENT_TICKS - SLACK, newest + 1, SEGMENT_TICKS)], newest
    )


def _without_stub(cuts: list[int], end: int) -> tuple[int, ...]:
    """Return the cuts without a last one that would open a segment of a few frames."""
    stub = len(cuts) > 1 and end - cuts[-1] < _STUB and end - cuts[-2] <= LONGEST_SEGMENT_TICKS
    return tuple(cuts[:-1] if stub else cuts)


def plan_spans(
    cuts: Sequence[int], shown: Sequence[int], keys: Sequence[int], end: int
) -> tuple[SpanBounds, ...]:
    """Return the spans of a video whose frames are shown at the times `shown`, in order.

    A span begins soon after a keyframe; where there is no such cut, the span before is longer.
    """
    starts = [0]
    length = end - cuts[0]
    target = _TARGET_OF_LONG if length > _LONG else min(_TARGET, max(_SHORTEST, length // 2))

    def target_after(last: int) -> int:
        if length <= _PART_OF_REST * target:
            return target
        return min(target, max(_SHORTEST, (end - cuts[last]) // _PART_OF_REST))

    while (
        start := _next_span(last := starts[-1], cuts, shown, keys, end, target_after(last))
    ) is not None:
        starts.append(start)
    return tuple(
        _bounds(first, last, cuts, shown, keys, end)
        for first, last in zip(starts, [*starts[1:], len(cuts)], strict=True)
    )


def _next_span(
    last: int,
    cuts: Sequence[int],
    shown: Sequence[int],
    keys: Sequence[int],
    end: int,
    target: int,
) -> int | None:
    """Return the number of the cut at which the next span begins, or None if none follows."""
    if 2 * (end - cuts[last]) <= 3 * target:
        return None
    best: tuple[int, int] | None = None
    for number in range(bisect_left(cuts, cuts[last] + target - SLACK), len(cuts)):
        if 2 * (end - cuts[number]) < target:
            break
        if best is not None and cuts[number] - cuts[last] > 2 * target:
            break
        if not _is_steady(number, cuts, shown):
            continue
        lead = _decode_lead(shown[bisect_left(shown, cuts[number])], keys)
        if lead <= target and (best is None or lead < best[0]):
            best = lead, number
        if not lead:
            break
    return None if best is None else best[1]


def _is_steady(number: int, cuts: Sequence[int], shown: Sequence[int]) -> bool:
    """Return whether there are frames close to a cut, on both sides."""
    at = bisect_left(shown, cuts[number])
    before = bisect_left(shown, cuts[number - 1])
    return at < len(shown) and shown[at] - cuts[number] <= HOLE and at - before >= _STEADY


def _decode_lead(time: int, keys: Sequence[int]) -> int:
    """Return how long before the frame at `time` its decoding begins."""
    index = bisect_right(keys, time)
    return time - keys[index - 1] if index else LONGEST_SEGMENT_TICKS * LONGEST_SEGMENT_TICKS


def _bounds(
    first: int,
    last: int,
    cuts: Sequence[int],
    shown: Sequence[int],
    keys: Sequence[int],
    end: int,
) -> SpanBounds:
    at = bisect_left(shown, cuts[first])
    stop = bisect_left(shown, cuts[last]) if last < len(cuts) else len(shown)
    index = bisect_right(keys, shown[at])
    return SpanBounds(
        first=first,
        last=last,
        key=keys[index - 1] if index else shown[0],
        before=shown[at - 1] if at else None,
        end=shown[stop] if stop < len(shown) else end,
        pictures=stop - at,
    )
