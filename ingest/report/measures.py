"""Measurements of a window of packets: bit rates, frame rate, keyframes, B-frames, the network.

Pure. Timestamps are integer milliseconds, the resolution of RTMP.
"""

import math
from itertools import pairwise
from statistics import median
from typing import Final

import msgspec

from ingest.report.packet_window import PacketWindow
from media.encoder_report import KeyframeReport, SecondsReport

# A shorter window cannot give rates per second.
_LEAST_MS: Final = 1000
_PERCENTILE: Final = 0.95
# Both ends of a distance are rounded to a millisecond; capture cards add another.
_UNEVEN_MS: Final = 3
_UNEVEN_SHARE: Final = 0.25  # of a frame: at 60 frames a second that is 4 ms
# One frame in twenty at an irregular time: rounding and single lost frames are fewer.
_VARIES: Final = 0.05
# Keyframes forced at a time land on the next frame: 40 ms at 25 frames a second.
_FIXED_SECONDS: Final = 0.05


class BitRates(msgspec.Struct, frozen=True):
    """Bit/s by the timestamps: the average, and that of the peak second; None: not known yet."""

    mean: int | None
    peak: int | None


class FrameTiming(msgspec.Struct, frozen=True):
    """What the distances between frames show; None: not known yet.

    `missing` is the number of frames that would fill the gaps between timestamps.
    """

    rate: float | None
    varies: bool | None
    missing: int


class PictureOrder(msgspec.Struct, frozen=True):
    """The reordering of pictures; fields as in `media.encoder_report.PictureReport`."""

    b_frames: int | None
    open_gop: bool | None


def bit_rates(window: PacketWindow) -> BitRates:
    """Return the bit rates of a track."""
    span = _span(window)
    if span < _LEAST_MS:
        return BitRates(None, None)
    seconds: dict[int, int] = {}
    for stamp, size in zip(window.stamps, window.sizes, strict=True):
        second = stamp // 1000
        seconds[second] = seconds.get(second, 0) + (size >> 1)
    # The span does not include the last packet's duration.
    mean = 8000 * (sum(seconds.values()) - (window.sizes[-1] >> 1)) / span
    return BitRates(round(mean), 8 * max(seconds.values()))


def frame_timing(window: PacketWindow) -> FrameTiming:
    """Return how the frames of a picture follow one another."""
    span = _span(window)
    if span < _LEAST_MS:
        return FrameTiming(None, None, 0)
    steps = [after - before for before, after in pairwise(window.stamps)]
    usual = max(1.0, _usual_step(steps))
    odd = max(_UNEVEN_MS, _UNEVEN_SHARE * usual)
    missing = uneven = 0
    for step in steps:
        if abs(step - usual) < odd:
            continue
        whole = max(1, round(step / usual))
        missing += whole - 1
        # The true distance is not an integer, so each step may be off by one.
        uneven += abs(step - whole * usual) >= odd + whole / 2
    return FrameTiming(round(1000 * len(steps) / span, 2), uneven > _VARIES * len(steps), missing)


def _usual_step(steps: list[int]) -> float:
    """Return the usual frame distance in ms, finer than the timestamps: 33.3 of 33, 33, 34."""
    middle = median(steps)
    near = [step for step in steps if abs(step - middle) <= 1]
    return sum(near) / len(near) if near else middle


def keyframes(window: PacketWindow) -> KeyframeReport:
    """Return the distances between keyframes."""
    at = [stamp for stamp, size in zip(window.stamps, window.sizes, strict=True) if size & 1]
    intervals = [(after - before) / 1000 for before, after in pairwise(at)]
    first = at[-1] if at else window.stamps[0]
    return KeyframeReport(
        intervals=len(intervals),
        min_seconds=min(intervals, default=None),
        median_seconds=round(median(intervals), 3) if intervals else None,
        max_seconds=max(intervals, default=None),
        since_seconds=(window.stamps[-1] - first) / 1000,
        # A single interval does not show whether they are all equal.
        fixed=max(intervals) - min(intervals) <= _FIXED_SECONDS if len(intervals) > 1 else None,
    )


def picture_order(window: PacketWindow) -> PictureOrder:
    """Return how pictures are reordered between decoding and display.

    A group is open if a picture that follows its keyframe is displayed before it.
    """
    if _span(window) < _LEAST_MS:
        return PictureOrder(None, None)
    latest = before = window.stamps[0]
    key: int | None = None  # presentation time of the newest keyframe
    deepest = run = 0
    leading = False
    for stamp, offset, size in zip(window.stamps, window.offsets, window.sizes, strict=True):
        shown = stamp + offset
        if size & 1:
            key = shown
        elif key is not None and shown < key:
            leading = True
        if stamp < before:  # the timestamps restarted
            latest, key, run = shown, None, 0
        elif shown >= latest:
            latest, run = shown, 0
        else:
            run += 1
            deepest = max(deepest, run)
        before = stamp
    return PictureOrder(deepest, leading)


def jitter(window: PacketWindow) -> int | None:
    """Return the 95th percentile of the packets' deviation from their median delay, in ms."""
    if _span(window) < _LEAST_MS:
        return None
    late = [1000 * at - stamp for at, stamp in zip(window.arrivals, window.stamps, strict=True)]
    usual = median(late)
    return round(_percentile([abs(each - usual) for each in late]))


def interleave(picture: PacketWindow) -> int | None:
    """Return the 95th percentile of the distance between audio and video times, in ms."""
    distances = [abs(distance) for distance in picture.distances]
    return round(_percentile(distances)) if _span(picture) >= _LEAST_MS else None


def longest_silence(windows: list[PacketWindow], since: float, now: float) -> float:
    """Return the longest time without a packet from `since` to `now`, in seconds."""
    arrivals = sorted(at for window in windows for at in window.arrivals)
    return max(after - before for before, after in pairwise([since, *arrivals, now]))


def seconds(picture: PacketWindow, sound: PacketWindow, since: float, now: float) -> SecondsReport:
    """Return what arrived in each whole second from `since` to `now`, by the time of arrival."""
    first, end = math.ceil(since), math.floor(now)
    count = max(0, end - first)
    # One more for what arrives before the first second or after the last.
    sizes, frames = [0] * (count + 1), [0] * (count + 1)
    intervals: list[float | None] = [None] * (count + 1)
    newest: int | None = None  # timestamp of the newest keyframe
    for at, stamp, size in zip(picture.arrivals, picture.stamps, picture.sizes, strict=True):
        place = math.floor(at) - first
        place = place if 0 <= place < count else count
        sizes[place] += size >> 1
        frames[place] += 1
        if size & 1:
            if newest is not None:
                intervals[place] = (stamp - newest) / 1000
            newest = stamp
    for at, size in zip(sound.arrivals, sound.sizes, strict=True):
        place = math.floor(at) - first
        sizes[place if 0 <= place < count else count] += size >> 1
    return SecondsReport(
        newest=end - 1,
        bit_rates=[8 * each for each in sizes[:count]],
        frames=frames[:count],
        keyframe_seconds=_carry_forward(intervals[:count]),
    )


def _carry_forward(intervals: list[float | None]) -> list[float | None]:
    """Return the intervals; a second that has none repeats that of the second before."""
    latest: float | None = None
    carried: list[float | None] = []
    for interval in intervals:
        latest = latest if interval is None else interval
        carried.append(latest)
    return carried


def steps_back(window: PacketWindow) -> int:
    """Return how often the timestamps went back."""
    return sum(after < before for before, after in pairwise(window.stamps))


def _span(window: PacketWindow) -> int:
    return window.stamps[-1] - window.stamps[0] if len(window) else 0


def _percentile(values: list[int] | list[float]) -> float:
    return sorted(values)[int(_PERCENTILE * (len(values) - 1))]
