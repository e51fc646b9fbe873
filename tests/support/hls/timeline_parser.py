"""Parses the playlist of a live timeline, with low-latency tags or without, into the timeline.

The service only renders these playlists (`delivery.playlists.hls`).
"""

from collections.abc import Iterable
from itertools import islice

import msgspec

from media.hls.m3u8 import (
    M3u8Error,
    MediaParser,
    attributes_of,
    decimal_of,
    integer_of,
    playlist_lines,
    uri_text,
)
from media.hls.playlist import MediaPlaylist, PartialSegment, PlaylistSegment, RenditionReport
from media.hls.timeline import HOLD_BACK_PARTS, Timeline
from media.ticks import VIDEO_SCALE


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
