"""The segments of a timeline, each with its text, and pages of them.

Pure. A segment's text is rendered once, when it is closed; that of an open segment grows with its
parts. A page is the text of many. `media.hls.timeline` puts them together.

Durations are ticks of 90 000 a second, wall-clock times microseconds since the Unix epoch.
Source: draft-pantos-hls-rfc8216bis, section 4.4.4.
"""

from collections.abc import Iterable, Sequence

import msgspec

from media.hls.m3u8 import (
    Lines,
    closing_text,
    merge_lines,
    opening_lines,
    seconds_text,
    uri_text,
)
from media.hls.playlist import PartialSegment, PlaylistSegment


class OpenSegment(msgspec.Struct, frozen=True, kw_only=True):
    """The segment that is being made, and its parts so far; `lines` is its text."""

    map_uri: str | None
    discontinuity: bool
    wall_us: int | None
    parts: tuple[PartialSegment, ...] = ()
    lines: Lines

    @classmethod
    def of(
        cls,
        map_uri: str | None,
        parts: Iterable[PartialSegment] = (),
        *,
        discontinuity: bool,
        wall_us: int | None,
    ) -> "OpenSegment":
        """Render an open segment.

        Raises:
            M3u8Error: a playlist cannot contain a URI or the time.
        """
        lines = opening_lines(map_uri, discontinuity=discontinuity, wall_us=wall_us)
        opened = cls(map_uri=map_uri, discontinuity=discontinuity, wall_us=wall_us, lines=lines)
        for part in parts:
            opened = opened.with_part(part)
        return opened

    def with_part(self, part: PartialSegment) -> "OpenSegment":
        """Return the segment with one more part.

        Raises:
            M3u8Error: a playlist cannot contain the URI.
        """
        lines = _appended(self.lines, _part_text(part))
        return msgspec.structs.replace(self, parts=(*self.parts, part), lines=lines)

    def closed(self, segment: PlaylistSegment) -> "ClosedSegment":
        """Return the finished segment, with the values of `segment`.

        Raises:
            M3u8Error: a playlist cannot contain the URI.
        """
        closed = ClosedSegment.of(segment)
        if not self.parts:
            return closed
        closing = closing_text(segment.uri, segment.duration, gap=segment.gap)
        return ClosedSegment(segment, closed.lines, self.parts, _appended(self.lines, closing))


class ClosedSegment(msgspec.Struct, frozen=True):
    """A finished segment, with its text.

    Near the end of the playlist it has parts, and `parted` is the text with them.
    """

    segment: PlaylistSegment
    lines: Lines
    parts: tuple[PartialSegment, ...] = ()
    parted: Lines | None = None

    @classmethod
    def of(
        cls, segment: PlaylistSegment, parts: tuple[PartialSegment, ...] = ()
    ) -> "ClosedSegment":
        """Render a finished segment; one that is a gap needs EXT-X-MAP if parts needed it.

        Raises:
            M3u8Error: a playlist cannot contain a URI or the time.
        """
        if parts:
            opened = OpenSegment.of(
                segment.map_uri,
                parts,
                discontinuity=segment.discontinuity,
                wall_us=segment.wall_us,
            )
            return opened.closed(segment)
        lines = opening_lines(
            segment.map_uri,
            discontinuity=segment.discontinuity,
            wall_us=segment.wall_us,
            after=closing_text(segment.uri, segment.duration, gap=segment.gap),
        )
        return cls(segment, lines)

    def without_parts(self) -> "ClosedSegment":
        """Return the segment without its parts."""
        return ClosedSegment(self.segment, self.lines)


class SegmentPage(msgspec.Struct, frozen=True):
    """Consecutive closed segments without parts; their text is rendered once.

    `portions` is the text: one portion, or one for each segment while the oldest are being removed.
    """

    segments: tuple[PlaylistSegment, ...]
    portions: tuple[Lines, ...]
    duration: int
    discontinuities: int

    @classmethod
    def of(cls, segments: Sequence[ClosedSegment], *, split: bool = False) -> "SegmentPage":
        """Gather segments into a page; `split`: as one whose oldest segments are being removed."""
        lines = [one.lines for one in segments]
        return cls(
            tuple(one.segment for one in segments),
            tuple(lines) if split else (merge_lines(lines),),
            sum(one.segment.duration for one in segments),
            sum(one.segment.discontinuity for one in segments),
        )

    @property
    def is_split(self) -> bool:
        """True if each segment has a portion of its own."""
        return len(self.portions) == len(self.segments)

    def without(self, count: int) -> "SegmentPage":
        """Return the page without its `count` oldest segments."""
        removed, rest = self.segments[:count], self.segments[count:]
        if self.is_split:
            portions = self.portions[count:]
        else:
            portions = tuple(ClosedSegment.of(segment).lines for segment in rest)
        return SegmentPage(
            rest,
            portions,
            self.duration - sum(segment.duration for segment in removed),
            self.discontinuities - sum(segment.discontinuity for segment in removed),
        )


def _appended(lines: Lines, text: str) -> Lines:
    """Append a text to the lines of one segment."""
    if lines.map_uri is None:
        return Lines(lines.lead + text)
    return Lines(lines.lead, lines.map_uri, lines.body + text, lines.last_map_uri)


def _part_text(part: PartialSegment) -> str:
    independent = ",INDEPENDENT=YES" if part.independent else ""
    gap = ",GAP=YES" if part.gap else ""
    duration = seconds_text(part.duration)
    return f'#EXT-X-PART:DURATION={duration},URI="{uri_text(part.uri)}"{independent}{gap}\n'
