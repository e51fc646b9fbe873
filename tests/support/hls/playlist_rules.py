"""The rules for a single live media playlist, independent of earlier versions."""

import itertools
from fractions import Fraction
from typing import Final

from tests.support.hls.findings import Report
from tests.support.hls.strict_m3u8 import ListedSegment, MediaText

LOW_LATENCY_TAGS: Final = frozenset(
    {
        "EXT-X-PART-INF",
        "EXT-X-PART",
        "EXT-X-PRELOAD-HINT",
        "EXT-X-RENDITION-REPORT",
    }
)
_LEAST_OF_PART: Final = Fraction(85, 100)
# Decimals are rounded: a microsecond per summand.
_ROUNDING: Final = Fraction(1, 1_000_000)
# A part is sent with its last sample, whose duration is estimated: the jitter of encoders.
_JITTER: Final = Fraction(10, 1000)
# At the begin and end of an epoch, decode intervals are shorter than presentation intervals.
_REORDERING: Final = Fraction(100, 1000)
_MILLISECOND: Final = Fraction(1, 1000)  # the precision of EXT-X-PROGRAM-DATE-TIME


def check_playlist(text: MediaText, *, low: bool | None, report: Report) -> None:
    """Report the faults of a playlist; a delta update must be completed before.

    Low-latency tags are required (`low=True`), forbidden (False) or optional (None).
    """
    for number, segment in enumerate(text.all, text.sequence):
        _check_duration(number, segment, text, report)
        _check_parts(number, segment, text, report)
        _check_sum(number, segment, text, report)
    _check_dates(text, report)
    _check_control(text, report)
    if low:
        _check_profile(text, report)
    if low is False and (forbidden := sorted(LOW_LATENCY_TAGS & text.tags)):
        report(
            f"{', '.join(forbidden)} in a playlist of normal latency", "decided for latency=normal"
        )


def ends_before_end(text: MediaText) -> list[Fraction]:
    """Return the seconds between each segment's end and the end of the playlist."""
    ends: list[Fraction] = []
    remaining = Fraction(0)
    for segment in reversed(text.all):
        ends.append(remaining)
        remaining += segment.length
    return ends[::-1]


def _check_duration(number: int, segment: ListedSegment, text: MediaText, report: Report) -> None:
    rounded = int(segment.length + Fraction(1, 2))
    if rounded > text.target:
        report(
            f"{number} lasts {float(segment.length):.3f} s, the target is {text.target} s",
            "4.4.3.1",
        )
    if segment.uri and segment.duration <= 0 and not segment.gap:
        report(f"{number} lasts {float(segment.duration):.3f} s", "4.4.4.1")
    if segment.uri and not segment.gap and segment.map_uri is None:
        report(f"{number} has no EXT-X-MAP", "3.1.2")


def _check_parts(number: int, segment: ListedSegment, text: MediaText, report: Report) -> None:
    parts, target = segment.parts, text.part_target
    if not parts or target is None:
        return
    most, least = target + _ROUNDING, _LEAST_OF_PART * target - _ROUNDING
    for index, part in enumerate(parts):
        if part.duration > most:
            report(
                f"part {number}.{index} lasts {float(part.duration):.6f} s of a target "
                f"of {float(target):.6f} s",
                "4.4.4.9",
            )
        is_last = index == len(parts) - 1
        excused = is_last or part.gap or parts[index + 1].gap
        if not excused and part.duration < least:
            report(
                f"part {number}.{index} lasts {float(part.duration):.6f} s, less than 85 % "
                f"of {float(target):.6f} s",
                "4.4.4.9",
            )
    if not parts[0].independent and not parts[0].gap:
        report(f"part {number}.0 is not INDEPENDENT", "4.4.2.1")


def _check_sum(number: int, segment: ListedSegment, text: MediaText, report: Report) -> None:
    """Check that the parts of a closed segment have its duration."""
    if not segment.uri or segment.gap or not segment.parts:
        return
    place = number - text.sequence
    before, following = text.all[:place][-1:], text.all[place + 1 :][:1]
    if not following and not text.ended:
        return  # an epoch may end with it
    ends = following[0].discontinuity if following else True
    others = {each.map_uri for each in (*before, *following)} - {segment.map_uri}
    edge = number == 0 or segment.discontinuity or ends or bool(others)
    together = sum((part.duration for part in segment.parts), Fraction(0))
    if abs(together - segment.duration) > (_REORDERING if edge else _JITTER):
        report(
            f"the parts of {number} last {float(together):.6f} s, it lasts "
            f"{float(segment.duration):.6f} s",
            "3.2",
        )


def _check_dates(text: MediaText, report: Report) -> None:
    """Check that the dates within one epoch advance with the media."""
    for number, (before, after) in enumerate(itertools.pairwise(text.all), text.sequence + 1):
        if before.wall is None or after.wall is None:
            continue
        step = after.wall - before.wall - before.duration
        if not after.discontinuity and abs(step) > 2 * _MILLISECOND:
            report(
                f"the date of {number} is {float(step):+.3f} s off its predecessor's end",
                "4.4.4.6",
            )
        # Clock drift may cause overlaps of less than a second.
        nothing = before.gap and not before.duration
        if step < -1 or after.wall < before.wall or (after.wall == before.wall and not nothing):
            report(f"the date of {number} is ambiguous by {float(step):+.3f} s", "6.2.1")


def _check_control(text: MediaText, report: Report) -> None:
    control = text.control
    if text.part_target is not None and (control is None or control.part_hold_back is None):
        report("there is EXT-X-PART-INF without PART-HOLD-BACK", "4.4.3.8")
    if control is None:
        return
    least = {
        "CAN-SKIP-UNTIL": (control.can_skip_until, 6 * text.target),
        "HOLD-BACK": (control.hold_back, 3 * text.target),
        "PART-HOLD-BACK": (control.part_hold_back, 3 * (text.part_target or 0)),
    }
    for name, (value, limit) in least.items():
        if value is not None and value < limit:
            report(f"{name} is {float(value):.3f} s, less than {float(limit):.3f} s", "4.4.3.8")
    if text.skipped and control.can_skip_until is None:
        report("there is EXT-X-SKIP without CAN-SKIP-UNTIL", "4.4.3.8")


def _check_profile(text: MediaText, report: Report) -> None:
    """Check the Low-Latency Server Configuration Profile (appendix B.1)."""
    control = text.control
    if text.ended:
        return
    if text.part_target is None:
        report("there is no EXT-X-PART-INF", "4.4.3.7")
    if control is None or not control.can_block_reload:
        report("there is no CAN-BLOCK-RELOAD", "B.1")
    if control is None or control.can_skip_until is None:
        report("there is no CAN-SKIP-UNTIL", "B.1")
    if not any(segment.wall is not None for segment in text.all) and text.all:
        report("there is no EXT-X-PROGRAM-DATE-TIME", "B.1")
    # None of a segment that begins with another init section: see `rendition_history`.
    is_open = bool(text.all) and not text.all[-1].uri
    if is_open and not any(hint.kind == "PART" for hint in text.hints):
        report("there is no hint of the next part", "B.1")
    newest = [number for number, segment in enumerate(text.all) if segment.parts]
    far = [
        text.sequence + number
        for number, remaining in enumerate(ends_before_end(text))
        if number in newest and remaining > 4 * text.target
    ]
    if far:
        report(f"the parts of {far[0]} are still listed, far from the end", "6.2.2")
