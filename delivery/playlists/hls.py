"""Renders the playlists of a live timeline as text (M3U8), with low-latency tags or without.

A rendition has one `TimelineTexts` for as long as it lasts: what is listed already is not rendered
again, so the cost of a new part or segment, and of a delta update, does not depend on the length of
the window, which may be 12 h. The text of a page of segments is one string.

Source: draft-pantos-hls-rfc8216bis, sections 4.4.3.7 (EXT-X-PART-INF), 4.4.3.8
(EXT-X-SERVER-CONTROL), 4.4.4.9 (EXT-X-PART), 4.4.5.2 (EXT-X-SKIP), 4.4.5.3 (EXT-X-PRELOAD-HINT),
4.4.5.4 (EXT-X-RENDITION-REPORT) and 6.2.5.1 (delta updates).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from delivery.playlists.memo import Memo
from media.hls.m3u8 import (
    ENDLIST,
    VERSION,
    Lines,
    SegmentLines,
    closing_text,
    header,
    merge_lines,
    opening_lines,
    seconds_text,
    uri_text,
)
from media.hls.playlist import MediaPlaylist, PartialSegment, PlaylistSegment, RenditionReport
from media.hls.timeline import PAGE_SEGMENTS, Timeline
from media.hls.timeline_segments import ClosedSegment, OpenSegment, SegmentPage

# The version that EXT-X-SKIP needs (section 8). No other low-latency tag needs a higher version
# than any media playlist, and players without low latency ignore those tags.
_DELTA_VERSION: Final = 9


class _SegmentText(NamedTuple):
    """The lines of a closed segment, without its parts and with them."""

    segment: PlaylistSegment
    plain: Lines
    parted: Lines


class TimelineTexts:
    """The texts of one rendition's timeline, version by version; any other is rendered as well."""

    def __init__(self) -> None:
        self._recent: Memo[ClosedSegment, _SegmentText] = Memo(self._segment_text)
        self._parts: tuple[tuple[PartialSegment, ...], str] = (), ""  # of the newest segment
        self._pages: Memo[SegmentPage, Lines] = Memo(_page_lines)
        self._oldest: Memo[PlaylistSegment, Lines] = Memo(_segment_lines)  # of the oldest page
        self._opening: tuple[tuple[object, ...], Lines] = (), Lines("")  # of the newest segment
        # The header and the closed segments, by whether these have parts, and what is skipped.
        self._listed: dict[tuple[bool, bool], tuple[Timeline, int, str, list[Lines]]] = {}

    def render(
        self,
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
        ending = ENDLIST if timeline.ended else ""
        if not low_latency:
            head, closed = self._closed(timeline, parts=False)
            return "".join([head, SegmentLines().join(closed), ending])
        skipped = timeline.count_skippable() if skip and not timeline.ended else 0
        head, closed = self._closed(timeline, parts=True, skipped=skipped)
        opened = timeline.opened
        return "".join(
            [
                head,
                _control(timeline),
                f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n" if skipped else "",
                SegmentLines().join(
                    [*closed, self._opened(opened)] if opened and opened.parts else closed
                ),
                _hint(timeline.hint) if timeline.hint is not None else "",
                *map(_report, reports),
                ending,
            ]
        )

    def _closed(
        self, timeline: Timeline, *, parts: bool, skipped: int = 0
    ) -> tuple[str, list[Lines]]:
        """Return the header, and the lines of closed segments without the `skipped` oldest ones."""
        kind = parts, skipped > 0
        known = self._listed.get(kind)
        if known is None or known[1] != skipped or not timeline.continues(known[0]):
            head = _header(timeline, version=_DELTA_VERSION if skipped else VERSION)
            recent, paged = self._recent.of(timeline.recent), timeline.count - len(timeline.recent)
            if skipped > paged:
                recent = recent[skipped - paged :]
            lines = [each.parted for each in recent] if parts else [each.plain for each in recent]
            if skipped < paged:
                lines = self._paged(timeline.pages, skipped) + lines
            known = self._listed[kind] = timeline, skipped, head, lines
        return known[2:]

    def _paged(self, pages: tuple[SegmentPage, ...], skipped: int) -> list[Lines]:
        """Return the lines of pages; one is skipped if the first of its segments is."""
        oldest: list[Lines] = []
        if len(pages[0].segments) < PAGE_SEGMENTS:
            # It loses its oldest segments, and is another page with each of them.
            oldest, pages = self._oldest.of(pages[0].segments), pages[1:]
        lines = self._pages.of(pages)
        if not skipped:
            return oldest + lines
        return lines[-(-(skipped - len(oldest)) // PAGE_SEGMENTS) :]

    def _opened(self, opened: OpenSegment) -> Lines:
        return _appended(self._tags(opened), self._parts_text(opened.parts))

    def _parts_text(self, parts: tuple[PartialSegment, ...]) -> str:
        """Return the lines of a segment's parts, which grow one by one until it is closed."""
        known, text = self._parts
        if not known or parts[: len(known)] != known:
            known, text = (), ""
        text += "".join(map(_part_text, parts[len(known) :]))
        self._parts = parts, text
        return text

    def _tags(self, segment: OpenSegment | PlaylistSegment) -> Lines:
        """Return the tags at the beginning of a segment; they stay when it is closed."""
        tags = segment.map_uri, segment.discontinuity, segment.wall_us
        if self._opening[0] != tags:
            self._opening = tags, _opening_lines(segment)
        return self._opening[1]

    def _segment_text(self, closed: ClosedSegment, before: _SegmentText | None) -> _SegmentText:
        segment = closed.segment
        if before is not None and before.segment is segment:  # its parts are not listed any more
            return _SegmentText(segment, before.plain, before.plain)
        tags = self._tags(segment)
        closing = closing_text(segment.uri, segment.duration, gap=segment.gap)
        plain = parted = _appended(tags, closing)
        if closed.parts:
            parted = _appended(tags, self._parts_text(closed.parts) + closing)
        return _SegmentText(segment, plain, parted)


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


def _page_lines(page: SegmentPage, _before: Lines | None) -> Lines:
    return merge_lines(map(_segment_lines, page.segments))


def _segment_lines(segment: PlaylistSegment, _before: Lines | None = None) -> Lines:
    """Render a closed segment; one that is a gap has EXT-X-MAP if its parts were listed."""
    closing = closing_text(segment.uri, segment.duration, gap=segment.gap)
    return _opening_lines(segment, closing)


def _opening_lines(segment: PlaylistSegment | OpenSegment, after: str = "") -> Lines:
    return opening_lines(
        segment.map_uri,
        discontinuity=segment.discontinuity,
        wall_us=segment.wall_us,
        after=after,
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


def _hint(uri: str) -> str:
    return f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{uri}"\n'


@lru_cache(1024)  # each is in the playlists of all other renditions
def _report(report: RenditionReport) -> str:
    last_part = "" if report.last_part is None else f",LAST-PART={report.last_part}"
    attributes = f'URI="{uri_text(report.uri)}",LAST-MSN={report.last_msn}{last_part}'
    return f"#EXT-X-RENDITION-REPORT:{attributes}\n"
