"""Renders and parses the playlist of a live timeline as text, with low-latency tags or without.

Source: draft-pantos-hls-rfc8216bis, sections 4.4.3.7 (EXT-X-PART-INF), 4.4.3.8
(EXT-X-SERVER-CONTROL), 4.4.4.9 (EXT-X-PART), 4.4.5.2 (EXT-X-SKIP), 4.4.5.3 (EXT-X-PRELOAD-HINT),
4.4.5.4 (EXT-X-RENDITION-REPORT) and 6.2.5.1 (delta updates).
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec

from media.hls.m3u8 import (
    ENDLIST,
    VERSION,
    M3u8Error,
    MediaParser,
    SegmentLines,
    attributes_of,
    decimal_of,
    header,
    integer_of,
    playlist_lines,
    seconds_text,
    uri_text,
)
from media.hls.playlist import MediaPlaylist, PartialSegment, PlaylistSegment, RenditionReport
from media.hls.timeline import HOLD_BACK_PARTS, Timeline
from media.ticks import VIDEO_SCALE

__all__ = ["parse_timeline", "render_timeline"]

# The version that EXT-X-SKIP needs (section 8). No other low-latency tag needs a higher version
# than any media playlist, and players without low latency ignore those tags.
_DELTA_VERSION: Final = 9


def render_timeline(
    timeline: Timeline,
    *,
    low_latency: bool,
    skip: bool = False,
    reports: Iterable[RenditionReport] = (),
) -> str:
    """Render the playlist of a timeline, with a line feed at the end.

    Without `low_latency` it lists closed segments only. `skip` requests a delta update
    (`_HLS_skip`), which omits segments that are older than the skip boundary. Every rendition's
    playlist should have the `reports` of all others.
    """
    if not low_latency:
        texts = [_header(timeline), _segments(timeline, parts=False)]
    else:
        skipped = timeline.count_skippable() if skip and not timeline.ended else 0
        texts = [
            _header(timeline, version=_DELTA_VERSION if skipped else VERSION),
            _control(timeline),
            f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n" if skipped else "",
            _segments(timeline, parts=True, skipped=skipped),
            _hint(timeline.hint) if timeline.hint is not None else "",
            *map(_report, reports),
        ]
    return "".join([*texts, ENDLIST if timeline.ended else ""])


def _header(timeline: Timeline, *, version: int = VERSION) -> str:
    opening = MediaPlaylist(
        target=timeline.target,
        sequence=timeline.sequence,
        discontinuities=timeline.discontinuities,
    )
    return header(opening, version=version, live=True)


def _control(timeline: Timeline) -> str:
    return _control_text(
        timeline.part_target, timeline.part_hold_back, timeline.hold_back, timeline.skip_boundary
    )


@lru_cache
def _control_text(part_target: int, part_hold_back: int, hold_back: int, skip_boundary: int) -> str:
    attributes = ["CAN-BLOCK-RELOAD=YES"]
    if part_target:
        attributes.append(f"PART-HOLD-BACK={seconds_text(part_hold_back)}")
    attributes.append(f"HOLD-BACK={seconds_text(hold_back)}")
    attributes.append(f"CAN-SKIP-UNTIL={seconds_text(skip_boundary)}")
    control = f"#EXT-X-SERVER-CONTROL:{','.join(attributes)}\n"
    if not part_target:
        return control
    return f"{control}#EXT-X-PART-INF:PART-TARGET={seconds_text(part_target)}\n"


def _segments(timeline: Timeline, *, parts: bool, skipped: int = 0) -> str:
    return SegmentLines().join(timeline.portions(parts=parts, skipped=skipped))


def _hint(uri: str) -> str:
    return f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{uri}"\n'


@lru_cache(1024)  # each is in the playlists of all other renditions
def _report(report: RenditionReport) -> str:
    last_part = "" if report.last_part is None else f",LAST-PART={report.last_part}"
    attributes = f'URI="{uri_text(report.uri)}",LAST-MSN={report.last_msn}{last_part}'
    return f"#EXT-X-RENDITION-REPORT:{attributes}\n"


def parse_timeline(
    text: str, previous: Timeline | None = None
) -> tuple[Timeline, tuple[RenditionReport, ...]]:
    """Parse the playlist of a timeline, and its reports on other renditions.

    A delta update continues the `previous` timeline.

    Raises:
        M3u8Error: the text is not the playlist of a timeline, or is a delta update that omits
            segments which `previous` does not have.
    """
    parser = _TimelineParser()
    playlist = parser.parse(playlist_lines(text))
    timeline = _begin(parser, playlist, previous)
    for segment, parts in zip(playlist.segments, parser.parts, strict=True):
        timeline = _extend(timeline, segment, parts)
    if playlist.ended:
        if parser.open_parts:
            raise M3u8Error("parts of a segment that never ends")
        timeline = timeline.end()
    elif parser.open_parts:
        timeline = parser.open_last(timeline)
    hint = None if playlist.ended else parser.hint
    return msgspec.structs.replace(timeline, hint=hint), tuple(parser.reports)


def _begin(
    parser: "_TimelineParser", playlist: MediaPlaylist, previous: Timeline | None
) -> Timeline:
    """Return the timeline up to the first segment in the text."""
    longest = parser.part_hold_back // HOLD_BACK_PARTS
    timeline = Timeline(
        target=playlist.target,
        part_target=parser.part_target,
        longest_part_target=longest if longest > parser.part_target else 0,
        sequence=playlist.sequence,
        discontinuities=playlist.discontinuities,
    )
    if not parser.skipped:
        return timeline
    first = playlist.sequence - (previous.sequence if previous is not None else 0)
    if previous is None or first < 0 or first + parser.skipped > previous.count:
        raise M3u8Error("a delta update without the segments that it skips")
    for segment in islice(previous.segments, first, first + parser.skipped):
        timeline = timeline.with_segment(segment)
    return timeline


def _extend(timeline: Timeline, segment: PlaylistSegment, parts: list[PartialSegment]) -> Timeline:
    if not parts:
        return timeline.with_segment(segment)
    opened = _open(
        timeline,
        segment.map_uri,
        parts,
        discontinuity=segment.discontinuity,
        wall_us=segment.wall_us,
    )
    return opened.close(segment.uri, segment.duration, gap=segment.gap)


def _open(
    timeline: Timeline,
    map_uri: str | None,
    parts: Iterable[PartialSegment],
    *,
    discontinuity: bool,
    wall_us: int | None,
) -> Timeline:
    timeline = timeline.open(map_uri, discontinuity=discontinuity, wall_us=wall_us)
    for part in parts:
        timeline = timeline.with_part(part)
    return timeline


class _TimelineParser(MediaParser):
    """Collects the low-latency tags too."""

    def __init__(self) -> None:
        super().__init__()
        self.part_target = self.part_hold_back = self.skipped = 0
        self.parts: list[list[PartialSegment]] = []  # of each segment
        self.open_parts: list[PartialSegment] = []
        self.hint: str | None = None
        self.reports: list[RenditionReport] = []

    def handle_tag(self, name: str, value: str) -> None:
        """Handle a tag line.

        Raises:
            M3u8Error: its value is invalid, or segments are skipped after the first.
        """
        match name:
            case "#EXT-X-PART":
                self.open_parts.append(_part(attributes_of(value)))
            case "#EXT-X-SKIP":
                if self.skipped or self.parts:
                    raise M3u8Error("segments are skipped at the beginning, and once")
                self.skipped = integer_of(attributes_of(value).get("SKIPPED-SEGMENTS", ""))
            case "#EXT-X-PART-INF":
                self.part_target = _ticks(attributes_of(value), "PART-TARGET")
            case "#EXT-X-SERVER-CONTROL":
                attributes = {"PART-HOLD-BACK": "0"} | attributes_of(value)
                self.part_hold_back = _ticks(attributes, "PART-HOLD-BACK")
            case "#EXT-X-PRELOAD-HINT":
                attributes = attributes_of(value)
                if attributes.get("TYPE") == "PART":
                    self.hint = uri_text(attributes.get("URI", ""))
            case "#EXT-X-RENDITION-REPORT":
                self.reports.append(_rendition_report(attributes_of(value)))
            case _:
                super().handle_tag(name, value)

    def handle_uri(self, uri: str) -> None:
        """Handle a URI line, which completes a segment.

        Raises:
            M3u8Error: as in `MediaParser`.
        """
        super().handle_uri(uri)
        segment = self._segments[-1]
        if segment.gap and self.open_parts:
            self._segments[-1] = msgspec.structs.replace(segment, map_uri=self._map_uri)
        self.parts.append(self.open_parts)
        self.open_parts = []

    def open_last(self, timeline: Timeline) -> Timeline:
        """Return the timeline with the segment that is still open at the end of the text."""
        return _open(
            timeline,
            self._map_uri,
            self.open_parts,
            discontinuity=self._discontinuity,
            wall_us=self._wall_us,
        )


def _part(attributes: dict[str, str]) -> PartialSegment:
    if "BYTERANGE" in attributes:
        raise M3u8Error("byte ranges are not known")
    return PartialSegment(
        uri_text(attributes.get("URI", "")),
        _ticks(attributes, "DURATION"),
        attributes.get("INDEPENDENT") == "YES",
        attributes.get("GAP") == "YES",
    )


def _rendition_report(attributes: dict[str, str]) -> RenditionReport:
    last_part = attributes.get("LAST-PART")
    return RenditionReport(
        uri=uri_text(attributes.get("URI", "")),
        last_msn=integer_of(attributes.get("LAST-MSN", "")),
        last_part=None if last_part is None else integer_of(last_part),
    )


def _ticks(attributes: dict[str, str], name: str) -> int:
    return decimal_of(attributes.get(name, ""), VIDEO_SCALE)
