"""What a window of packets says: bit rates, frame rate, keyframes, B-frames, the network.

Pure. Timestamps are whole milliseconds, of which no encoder on RTMP has finer ones.
"""

from itertools import pairwise
from statistics import median
from typing import Final

import msgspec

from ingest.report.packet_window import Window
from media.encoder_report import KeyframeReport

__all__ = [
    "Frames",
    "Order",
    "Rates",
    "frames",
    "interleave",
    "jitter",
    "keyframes",
    "longest_silence",
    "order",
    "rates",
    "steps_back",
]

# Less than this says nothing of what happens in a second.
_LEAST_MS: Final = 1000
_PERCENTILE: Final = 0.95
# Times are rounded to a millisecond at both ends of a distance; capture cards add another.
_UNEVEN_MS: Final = 3
_UNEVEN_SHARE: Final = 0.25  # of a frame: at 60 frames a second that is 4 ms
# One frame in twenty at an odd time: rounding and a lost frame here and there are fewer.
_VARIES: Final = 0.05
# Keyframes that are asked for by time land on the next frame: 40 ms at 25 frames a second.
_FIXED_SECONDS: Final = 0.05


class Rates(msgspec.Struct, frozen=True):
    """Bit/s by the timestamps: on average, and of the second with most; None: not known yet."""

    mean: int | None
    peak: int | None


class Frames(msgspec.Struct, frozen=True):
    """What the distances of frames say; None: not known yet.

    `missing`: how many frames the holes between timestamps would hold.
    """

    rate: float | None
    varies: bool | None
    missing: int


class Order(msgspec.Struct, frozen=True):
    """In which order pictures are shown; as in `media.encoder_report.PictureReport`."""

    b_frames: int | None
    open_gop: bool | None


def rates(window: Window) -> Rates:
    """Return the bit rates of a track."""
    span = _span(window)
    if span < _LEAST_MS:
        return Rates(None, None)
    seconds: dict[int, int] = {}
    for stamp, size in zip(window.stamps, window.sizes, strict=True):
        second = stamp // 1000
        seconds[second] = seconds.get(second, 0) + (size >> 1)
    # What the last packet lasts is not within the span.
    mean = 8000 * (sum(seconds.values()) - (window.sizes[-1] >> 1)) / span
    return Rates(round(mean), 8 * max(seconds.values()))


def frames(window: Window) -> Frames:
    """Return how the frames of a picture follow one another."""
    span = _span(window)
    if span < _LEAST_MS:
        return Frames(None, None, 0)
    steps = [after - before for before, after in pairwise(window.stamps)]
    usual = max(1.0, _usual(steps))
    odd = max(_UNEVEN_MS, _UNEVEN_SHARE * usual)
    missing = uneven = 0
    for step in steps:
        if abs(step - usual) < odd:
            continue
        whole = max(1, round(step / usual))
        missing += whole - 1
        # The true distance is no whole number, so what adds up may be off by one each.
        uneven += abs(step - whole * usual) >= odd + whole / 2
    return Frames(round(1000 * len(steps) / span, 2), uneven > _VARIES * len(steps), missing)


def _usual(steps: list[int]) -> float:
    """Return the usual distance of frames in ms, finer than the clock: 33.3 of 33, 33, 34."""
    middle = median(steps)
    near = [step for step in steps if abs(step - middle) <= 1]
    return sum(near) / len(near) if near else middle


def keyframes(window: Window) -> KeyframeReport:
    """Return how far keyframes lie apart."""
    at = [stamp for stamp, size in zip(window.stamps, window.sizes, strict=True) if size & 1]
    intervals = [(after - before) / 1000 for before, after in pairwise(at)]
    first = at[-1] if at else window.stamps[0]
    return KeyframeReport(
        intervals=len(intervals),
        min_seconds=min(intervals, default=None),
        median_seconds=round(median(intervals), 3) if intervals else None,
        max_seconds=max(intervals, default=None),
        since_seconds=(window.stamps[-1] - first) / 1000,
        # Of one interval nobody knows what the next will be.
        fixed=max(intervals) - min(intervals) <= _FIXED_SECONDS if len(intervals) > 1 else None,
    )


def order(window: Window) -> Order:
    """Return how pictures are reordered between coding and showing.

    A group is open where a picture that came after its keyframe is shown before it.
    """
    if _span(window) < _LEAST_MS:
        return Order(None, None)
    latest = before = window.stamps[0]
    key: int | None = None  # when the newest keyframe is shown
    deepest = run = 0
    leading = False
    for stamp, offset, size in zip(window.stamps, window.offsets, window.sizes, strict=True):
        shown = stamp + offset
        if size & 1:
            key = shown
        elif key is not None and shown < key:
            leading = True
        if stamp < before:  # another line of time
            latest, key, run = shown, None, 0
        elif shown >= latest:
            latest, run = shown, 0
        else:
            run += 1
            deepest = max(deepest, run)
        before = stamp
    return Order(deepest, leading)


def jitter(window: Window) -> int | None:
    """Return within how many ms of their usual delay 95 of 100 packets come; None: too few yet."""
    if _span(window) < _LEAST_MS:
        return None
    late = [1000 * at - stamp for at, stamp in zip(window.arrivals, window.stamps, strict=True)]
    usual = median(late)
    return round(_percentile([abs(each - usual) for each in late]))


def interleave(picture: Window) -> int | None:
    """Return how far in ms sound's and picture's times lie apart as they come, by 95 of 100."""
    far = [abs(distance) for distance in picture.distances]
    return round(_percentile(far)) if _span(picture) >= _LEAST_MS else None


def longest_silence(windows: list[Window], since: float, now: float) -> float:
    """Return the longest time in seconds, from `since` to `now`, in which nothing came."""
    arrivals = sorted(at for window in windows for at in window.arrivals)
    return max(after - before for before, after in pairwise([since, *arrivals, now]))


def steps_back(window: Window) -> int:
    """Return how often the timestamps went back."""
    return sum(after < before for before, after in pairwise(window.stamps))


def _span(window: Window) -> int:
    return window.stamps[-1] - window.stamps[0] if len(window) else 0


def _percentile(values: list[int] | list[float]) -> float:
    return sorted(values)[int(_PERCENTILE * (len(values) - 1))]
