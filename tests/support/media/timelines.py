"""Timelines of a live rendition, built by given or by random operations."""

from collections.abc import Iterable
from typing import Final

from hypothesis import strategies as st

from delivery.playlists.hls import TimelineTexts
from media.hls.playlist import PartialSegment, PlaylistSegment, RenditionReport
from media.hls.timeline import Timeline
from media.ticks import VIDEO_SCALE

NOON_US: Final = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z
PART: Final = VIDEO_SCALE // 2
SEGMENT: Final = 4 * PART


def render_timeline(
    timeline: Timeline,
    *,
    low_latency: bool,
    skip: bool = False,
    reports: Iterable[RenditionReport] = (),
) -> str:
    """Render the playlist of a timeline at once, whatever was rendered before."""
    return TimelineTexts().render(timeline, low_latency=low_latency, skip=skip, reports=reports)


def part(msn: int, index: int, *, duration: int = PART, gap: bool = False) -> PartialSegment:
    """Return a part, whose URI has its numbers; the first of a segment is independent."""
    return PartialSegment(f"{msn}.{index}.m4s", duration, independent=index == 0, gap=gap)


def extended(timeline: Timeline, segments: int, *, map_uri: str = "init-0.mp4") -> Timeline:
    """Return the timeline with more segments of four parts, and a hint."""
    for msn in range(timeline.next_msn, timeline.next_msn + segments):
        timeline = timeline.open(map_uri, wall_us=NOON_US + 2_000_000 * msn)
        for index in range(4):
            timeline = timeline.with_part(part(msn, index), hint=f"{msn}.{index + 1}.m4s")
        timeline = timeline.close(f"{msn}.m4s", SEGMENT, hint=f"{msn + 1}.0.m4s")
    return timeline


def with_closed(count: int, *, first: int = 0) -> Timeline:
    """Return a timeline of closed segments with some gaps, discontinuities and init sections."""
    timeline = Timeline(part_target=PART, sequence=first)
    for msn in range(first, first + count):
        timeline = timeline.with_segment(
            PlaylistSegment(
                uri=f"{msn}.m4s",
                duration=SEGMENT,
                map_uri=f"init-{msn // 40}.mp4",
                discontinuity=msn % 50 == 49,
                wall_us=NOON_US + 2_000_000 * msn,
                gap=msn % 30 in {0, 1, 20},
            )
        )
    return timeline


Operation = tuple[str, bool, bool, int]


class TimelineRun:
    """The timeline after each operation, oldest first; its repr shows the operations."""

    def __init__(self, first: int, closed: int, operations: list[Operation], *, ends: bool) -> None:
        timeline = with_closed(closed, first=first)
        self.timelines = [timeline]
        for name, gap, change, ticks in operations:
            timeline = _operate(timeline, name, gap=gap, change=change, ticks=ticks)
            self.timelines.append(timeline)
        if ends and not timeline.parts:
            self.timelines.append(timeline.end())
        self._text = f"TimelineRun({first}, {closed}, {operations}, {ends=})"

    def __repr__(self) -> str:
        return self._text


def timeline_runs() -> st.SearchStrategy[TimelineRun]:
    """Return a strategy of runs with any allowed sequence of operations."""
    names = ["open", "part", "part", "part", "close", "close", "gap", "whole", "trim"]
    operations = st.tuples(
        st.sampled_from(names), st.booleans(), st.booleans(), st.integers(1, SEGMENT)
    )
    return st.builds(
        TimelineRun,
        first=st.integers(0, 70),
        closed=st.sampled_from([0, 2, 127, 200]),
        operations=st.lists(operations, max_size=40),
        ends=st.booleans(),
    )


def _operate(timeline: Timeline, name: str, *, gap: bool, change: bool, ticks: int) -> Timeline:
    """Apply an operation if the timeline allows it."""
    msn, index = timeline.next_msn, len(timeline.parts)
    map_uri, wall_us = f"init-{int(change)}.mp4", NOON_US + 1000 * ticks
    if name == "trim":
        return timeline.trimmed(min(ticks % 90, max(timeline.count - 1, 0)))
    if timeline.opened is None:
        if name == "open":
            return timeline.open(map_uri, discontinuity=gap, wall_us=wall_us, hint=f"{msn}.0.m4s")
        if name in {"gap", "whole"}:
            segment = PlaylistSegment(
                uri=f"{msn}.m4s",
                duration=ticks,
                map_uri=map_uri,
                discontinuity=change,
                wall_us=None if gap else wall_us,
                gap=name == "gap",
            )
            return timeline.with_segment(segment)
    elif name == "part":
        new = part(msn, index, duration=min(ticks, PART), gap=gap and change)
        return timeline.with_part(new, hint=f"{msn}.{index + 1}.m4s" if change else None)
    elif name == "close":
        return timeline.close(f"{msn}.m4s", ticks, gap=gap and change, hint=f"{msn + 1}.0.m4s")
    return timeline
