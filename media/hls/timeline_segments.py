"""The segments of a timeline, closed or open, and pages of them.

Pure, and values alone. `media.hls.timeline` puts them together; a format makes text of each once
(`delivery.playlists`), since timelines share the values that did not change.

Durations and media times are ticks of 90 000 a second, wall-clock times microseconds since the Unix
epoch.
Source: draft-pantos-hls-rfc8216bis, section 4.4.4.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from media.hls.m3u8 import M3u8Error, uri_text
from media.hls.playlist import PartialSegment, PlaylistSegment
from media.ticks import MICROSECONDS

# The years 1 to 9999, which a calendar has; in seconds since the Unix epoch.
_CALENDAR: Final = range(-62_135_596_800 * MICROSECONDS, 253_402_300_799 * MICROSECONDS)


class OpenSegment(msgspec.Struct, frozen=True, kw_only=True):
    """The segment that is being made, and its parts so far; `start` is its media time, if known."""

    map_uri: str | None
    discontinuity: bool
    wall_us: int | None
    start: int | None = None
    parts: tuple[PartialSegment, ...] = ()

    @classmethod
    def of(
        cls,
        map_uri: str | None,
        parts: Iterable[PartialSegment] = (),
        *,
        discontinuity: bool,
        wall_us: int | None,
        start: int | None = None,
    ) -> "OpenSegment":
        """Return an open segment.

        Raises:
            M3u8Error: a playlist cannot contain a URI or the time.
        """
        _check(map_uri, wall_us)
        return cls(
            map_uri=map_uri,
            discontinuity=discontinuity,
            wall_us=wall_us,
            start=start,
            parts=_checked_parts(parts),
        )

    def with_part(self, part: PartialSegment) -> "OpenSegment":
        """Return the segment with one more part.

        Raises:
            M3u8Error: a playlist cannot contain the URI.
        """
        uri_text(part.uri)
        return msgspec.structs.replace(self, parts=(*self.parts, part))


class ClosedSegment(msgspec.Struct, frozen=True):
    """A finished segment; near the end of the playlist it has its parts."""

    segment: PlaylistSegment
    parts: tuple[PartialSegment, ...] = ()

    @classmethod
    def of(cls, segment: PlaylistSegment, parts: Iterable[PartialSegment] = ()) -> "ClosedSegment":
        """Return a finished segment; one that is a gap needs EXT-X-MAP if parts needed it.

        Raises:
            M3u8Error: a playlist cannot contain a URI or the time.
        """
        uri_text(segment.uri)
        _check(segment.map_uri, segment.wall_us)
        return cls(segment, _checked_parts(parts))

    def without_parts(self) -> "ClosedSegment":
        """Return the segment without its parts."""
        return ClosedSegment(self.segment)


class SegmentPage(msgspec.Struct, frozen=True):
    """Consecutive closed segments without parts."""

    segments: tuple[PlaylistSegment, ...]
    duration: int
    discontinuities: int

    @classmethod
    def of(cls, segments: Sequence[PlaylistSegment]) -> "SegmentPage":
        """Gather segments into a page."""
        return cls(
            tuple(segments),
            sum(segment.duration for segment in segments),
            sum(segment.discontinuity for segment in segments),
        )

    def without(self, count: int) -> "SegmentPage":
        """Return the page without its `count` oldest segments."""
        removed = self.segments[:count]
        return SegmentPage(
            self.segments[count:],
            self.duration - sum(segment.duration for segment in removed),
            self.discontinuities - sum(segment.discontinuity for segment in removed),
        )


def _check(map_uri: str | None, wall_us: int | None) -> None:
    if map_uri is not None:
        uri_text(map_uri)
    if wall_us is not None and wall_us not in _CALENDAR:
        raise M3u8Error(f"no time of a calendar: {wall_us} µs")


def _checked_parts(parts: Iterable[PartialSegment]) -> tuple[PartialSegment, ...]:
    checked = tuple(parts)  # the same one if it is a tuple
    for part in checked:
        uri_text(part.uri)
    return checked
