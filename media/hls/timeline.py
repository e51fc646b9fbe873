"""The timeline of one rendition of a live run: what its playlists list, down to the newest part.

Pure. A timeline holds the closed segments, the parts of the segment that is being made (the open
segment) and the address of the part that comes next. What it lists is final: methods return a new
timeline with more at the end, less at the beginning, or without the parts of older segments; it
shares the values that did not change. `delivery.playlists` makes text of it.

Older segments are gathered into pages, so that the cost of a new part or segment does not depend on
the length of the window, which may be 12 h.

Durations are ticks of 90 000 a second, wall-clock times microseconds since the Unix epoch.
Source: draft-pantos-hls-rfc8216bis, sections 4.4.4.9 (parts), 6.2.2 (live playlists) and 6.2.5
(delivery directives).
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from media.hls.m3u8 import uri_text
from media.hls.playlist import TARGET_SECONDS, PartialSegment, PlaylistSegment, RenditionReport
from media.hls.timeline_segments import ClosedSegment, OpenSegment, SegmentPage
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale

# A page of 2 s segments spans two minutes. At least as many of the newest segments are not in
# pages: they span more than the skip boundary (24 s), so a delta update begins among them.
PAGE_SEGMENTS: Final = 64
# In target durations, each the minimum of the standard: the duration of a playlist and of the
# segments with parts (6.2.2), the distance of players from the end, and the distance from the end
# beyond which a delta update omits segments (4.4.3.8).
_HELD_TARGETS: Final = 3
_HOLD_BACK_TARGETS: Final = 3
_SKIP_TARGETS: Final = 6
# In part targets: the distance of low-latency players from the end that 4.4.3.8 recommends.
HOLD_BACK_PARTS: Final = 3
# How far ahead a blocking request may be (6.2.5.2): segments, and the Advance Part Limit, which is
# as many parts as three seconds have, and three if parts are longer than a second.
_SEGMENTS_AHEAD: Final = 2
_SECONDS_AHEAD: Final = 3


class Timeline(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One rendition of a live run.

    `target` is EXT-X-TARGETDURATION in seconds. `part_target` is the longest duration of a part; 0
    if the rendition has no parts. `longest_part_target` is that of all renditions of the run, whose
    playlists must agree on PART-HOLD-BACK (6.2.4); 0 if none is longer.

    `sequence` is the Media Sequence Number of the first segment; `discontinuities` is the number of
    discontinuities removed with their segments. `pages`, then `recent`, are the closed segments;
    `count` is their number and `duration` their duration. `opened` is the open segment; `hint` is
    the URI of the part that comes next, None if there is none to wait for.

    `parted` is the number of closed segments from the oldest one that may have parts to the newest,
    and `parted_duration` their duration.
    """

    target: int = TARGET_SECONDS
    part_target: int = 0
    longest_part_target: int = 0
    sequence: int = 0
    discontinuities: int = 0
    pages: tuple[SegmentPage, ...] = ()
    recent: tuple[ClosedSegment, ...] = ()
    count: int = 0
    duration: int = 0
    opened: OpenSegment | None = None
    hint: str | None = None
    ended: bool = False
    parted: int = 0
    parted_duration: int = 0

    @classmethod
    def of(
        cls,
        segments: Iterable[PlaylistSegment],
        *,
        part_target: int = 0,
        sequence: int = 0,
        discontinuities: int = 0,
        hint: str | None = None,
    ) -> "Timeline":
        """Return the timeline of closed segments without parts, in one go.

        `hint` names the part that comes next.

        Raises:
            M3u8Error: a playlist cannot contain a URI or a time.
        """
        closed = [ClosedSegment.of(_without_map(segment)) for segment in segments]
        pages: list[SegmentPage] = []
        following, begin = sequence + len(closed), 0
        while paged := _page_end(following, len(closed) - begin):
            pages.append(_page(closed[begin : begin + paged]))
            begin += paged
        return cls(
            part_target=part_target,
            sequence=sequence,
            discontinuities=discontinuities,
            pages=tuple(pages),
            recent=tuple(closed[begin:]),
            count=len(closed),
            duration=sum(one.segment.duration for one in closed),
            hint=_checked(hint),
        )

    # -- queries ----------------------------------------------------------------------------------

    @property
    def next_msn(self) -> int:
        """The Media Sequence Number of the open segment, or of the next one to be opened."""
        return self.sequence + self.count

    @property
    def held(self) -> int:
        """The least duration of a playlist, and how long parts are listed (6.2.2)."""
        return _HELD_TARGETS * self.target * VIDEO_SCALE

    @property
    def hold_back(self) -> int:
        """How far from the end players should stay (HOLD-BACK, 4.4.3.8)."""
        return _HOLD_BACK_TARGETS * self.target * VIDEO_SCALE

    @property
    def part_hold_back(self) -> int:
        """How far from the end players with low latency should stay (PART-HOLD-BACK, 4.4.3.8)."""
        return HOLD_BACK_PARTS * max(self.part_target, self.longest_part_target)

    @property
    def skip_boundary(self) -> int:
        """How far from the end a delta update begins (CAN-SKIP-UNTIL, 4.4.3.8)."""
        return _SKIP_TARGETS * self.target * VIDEO_SCALE

    @property
    def segments(self) -> Iterator[PlaylistSegment]:
        """The closed segments, oldest first."""
        paged = chain.from_iterable(page.segments for page in self.pages)
        return chain(paged, (one.segment for one in self.recent))

    @property
    def parts(self) -> tuple[PartialSegment, ...]:
        """The parts of the open segment."""
        return self.opened.parts if self.opened is not None else ()

    @property
    def listed_parts(self) -> Iterator[PartialSegment]:
        """The parts of closed segments and of the open one, oldest first."""
        closed = self.recent[len(self.recent) - self.parted :]
        return chain(chain.from_iterable(one.parts for one in closed), self.parts)

    @property
    def newest(self) -> tuple[int, int | None] | None:
        """The Media Sequence Number and the index of the newest part.

        The index is None if the newest segment has no parts. None if nothing is listed.
        """
        if self.parts:
            return self.next_msn, len(self.parts) - 1
        if not self.recent:
            return None
        parts = self.recent[-1].parts
        return self.next_msn - 1, len(parts) - 1 if parts else None

    @property
    def end_us(self) -> int | None:
        """The wall-clock time of the end of what is listed; None if nothing with a time is."""
        if self.opened is not None and self.parts:
            wall_us, duration = self.opened.wall_us, sum(part.duration for part in self.parts)
        elif self.recent:
            newest = self.recent[-1].segment
            wall_us, duration = newest.wall_us, newest.duration
        else:
            return None
        return None if wall_us is None else wall_us + rescale(duration, VIDEO_SCALE, MICROSECONDS)

    def has(self, msn: int, part: int | None) -> bool:
        """Return whether a blocking request for a segment or part can be answered (6.2.5.2).

        A request for a segment waits until it is closed. A part that a closed segment does not have
        is the first part of the next one; a closed segment without parts counts as one part. An
        ended timeline answers every request.
        """
        last = self.next_msn - 1
        if self.ended or msn < last:
            return True
        if msn == last:
            parts = self.recent[-1].parts if self.recent else ()
            if part is None or part < max(len(parts), 1):
                return True
            msn, part = msn + 1, 0
        return msn == self.next_msn and part is not None and part < len(self.parts)

    def is_too_far(self, msn: int, part: int | None) -> bool:
        """Return whether a blocking request is too far ahead to wait for it (6.2.5.2)."""
        if self.ended or msn < self.next_msn:
            return False
        if msn >= self.next_msn + _SEGMENTS_AHEAD:
            return True
        if part is None:
            return False
        ahead = part + 1 - (len(self.parts) if msn == self.next_msn else 0)
        return ahead * min(self.part_target or VIDEO_SCALE, VIDEO_SCALE) > (
            _SECONDS_AHEAD * VIDEO_SCALE
        )

    def fits(self, duration: int) -> bool:
        """Return whether the rounded duration of a segment is within the target duration."""
        return 2 * duration < (2 * self.target + 1) * VIDEO_SCALE

    def surplus(self, listed: int, *, lost: int = 0) -> int:
        """Return how many of the oldest segments can leave a window that lists `listed` ticks.

        The rest lasts at least `listed`, and at least three target durations (6.2.2). `lost` is the
        duration of the segments that gaps at the end replace. Viewers may have seen a playlist with
        those segments, in which as many older ones had left the window: these are not listed again,
        because Media Sequence Numbers never decrease.
        """
        least = max(listed, self.held) - lost
        remaining = self.duration
        for number, segment in enumerate(self.segments):
            remaining -= segment.duration
            if remaining < least:
                return number
        return 0

    def count_skippable(self) -> int:
        """Return how many of the oldest segments a delta update omits (6.2.5.1)."""
        boundary = self.skip_boundary
        after, older = 0, self.count
        for closed in reversed(self.recent):
            if after > boundary:
                return older
            after += closed.segment.duration
            older -= 1
        for page in reversed(self.pages):  # if very short segments fill the pages
            if after > boundary:
                return older
            after += page.duration
            older -= len(page.segments)
        return 0

    def continues(self, other: "Timeline") -> bool:
        """Return whether the closed segments are those of a timeline of which this one was made.

        A new part leaves the tuples of closed segments as they are.
        """
        return (
            self.recent is other.recent
            and self.pages is other.pages
            and self.sequence == other.sequence
            and self.discontinuities == other.discontinuities
        )

    def report(self, uri: str) -> RenditionReport:
        """Return the report on this rendition, with playlist `uri`, for the others' playlists.

        Raises:
            ValueError: nothing is listed.
        """
        if self.parts:
            return RenditionReport(uri=uri, last_msn=self.next_msn, last_part=len(self.parts) - 1)
        if not self.recent:
            raise ValueError("nothing is listed")
        for back in range(1, self.parted + 1):
            if parts := self.recent[-back].parts:
                return RenditionReport(
                    uri=uri, last_msn=self.next_msn - back, last_part=len(parts) - 1
                )
        return RenditionReport(uri=uri, last_msn=self.next_msn - 1)

    # -- growth -----------------------------------------------------------------------------------

    def open(
        self,
        map_uri: str | None,
        *,
        discontinuity: bool = False,
        wall_us: int | None = None,
        start: int | None = None,
        hint: str | None = None,
    ) -> "Timeline":
        """Return the timeline with an open segment, which is listed from its first part on.

        `map_uri` is its init section, `wall_us` the wall-clock time of its first sample, and
        `start` its media time.

        Raises:
            ValueError: a segment is open, or the timeline has ended.
            M3u8Error: a playlist cannot contain the URI or time.
        """
        self._check_growing()
        opened = OpenSegment.of(map_uri, discontinuity=discontinuity, wall_us=wall_us, start=start)
        return self._with(opened=opened, hint=_checked(hint))

    def with_part(self, part: PartialSegment, *, hint: str | None = None) -> "Timeline":
        """Return the timeline with one more part of the open segment.

        Raises:
            ValueError: no segment is open.
            M3u8Error: a playlist cannot contain the URI.
        """
        return self._with(opened=self._opened().with_part(part), hint=_checked(hint))

    def close(
        self, uri: str, duration: int, *, gap: bool = False, hint: str | None = None
    ) -> "Timeline":
        """Return the timeline with the open segment closed.

        `gap`: its media is missing, although parts of it may have been listed.

        Raises:
            ValueError: no segment is open.
            M3u8Error: a playlist cannot contain the URI.
        """
        opened = self._opened()
        segment = PlaylistSegment(
            uri=uri,
            duration=duration,
            # No line of a gap without parts needs it; otherwise EXT-X-MAP is listed already.
            map_uri=opened.map_uri if opened.parts or not gap else None,
            discontinuity=opened.discontinuity,
            wall_us=opened.wall_us,
            gap=gap,
            start=opened.start,
        )
        return self._append(ClosedSegment.of(segment, opened.parts), hint)

    def without_open(self) -> "Timeline":
        """Return the timeline without its open segment, whose parts no playlist has listed."""
        return self._with(opened=None, hint=None)

    def with_segment(
        self,
        segment: PlaylistSegment,
        *,
        parts: tuple[PartialSegment, ...] = (),
        hint: str | None = None,
    ) -> "Timeline":
        """Return the timeline with a whole segment, which may have parts, or a gap.

        Raises:
            ValueError: a segment is open, or the timeline has ended.
            M3u8Error: a playlist cannot contain its URIs or time.
        """
        self._check_growing()
        return self._append(ClosedSegment.of(_without_map(segment), parts), hint)

    def with_gap(self, msn: int) -> "Timeline":
        """Return the timeline with a listed segment as a gap, since its media was lost.

        This is the one exception to the rule that what is listed does not change.

        Raises:
            ValueError: no closed segment has this Media Sequence Number.
        """
        first = self.next_msn - len(self.recent)
        if not self.sequence <= msn < self.next_msn:
            raise ValueError(f"segment {msn} is not listed")
        if msn >= first:
            recent = list(self.recent)
            gap = msgspec.structs.replace(recent[msn - first].segment, gap=True, map_uri=None)
            recent[msn - first] = ClosedSegment.of(gap)
            return self._with(recent=tuple(recent))
        pages = list(self.pages)
        start = self.sequence
        for number, page in enumerate(pages):
            if msn < start + len(page.segments):
                segments = list(page.segments)
                segments[msn - start] = msgspec.structs.replace(
                    segments[msn - start], gap=True, map_uri=None
                )
                pages[number] = SegmentPage.of(segments)
                break
            start += len(page.segments)
        return self._with(pages=tuple(pages))

    def with_part_target(self, part_target: int) -> "Timeline":
        """Return the timeline for parts of at most `part_target` from now on.

        No listed part may be longer than the target, so it shrinks once longer ones have left.
        """
        if part_target == self.part_target:
            return self
        if any(part.duration > part_target for part in self.listed_parts):
            return self._with(part_target=max(part_target, self.part_target))
        return self._with(part_target=part_target)

    def end(self) -> "Timeline":
        """Return the timeline as ended (EXT-X-ENDLIST), without an open segment.

        Raises:
            ValueError: the open segment has parts, which are listed and must be closed first.
        """
        if self.parts:
            raise ValueError("the open segment has parts")
        return self._with(opened=None, hint=None, ended=True)

    def _append(self, closed: ClosedSegment, hint: str | None) -> "Timeline":
        """Append a closed segment, drop the parts of older ones, and gather old ones in a page."""
        count, duration = self.count + 1, closed.segment.duration
        recent = [*self.recent, closed]
        parted, parted_duration = self.parted + 1, self.parted_duration + duration
        pages = self.pages
        paged = _page_end(self.sequence + count, len(recent))
        while parted and (
            parted_duration - recent[-parted].segment.duration > self.held
            or len(recent) - parted < paged
        ):
            oldest = recent[-parted]
            if oldest.parts:
                recent[-parted] = oldest.without_parts()
            parted, parted_duration = parted - 1, parted_duration - oldest.segment.duration
        if paged:
            pages = (*pages, _page(recent[:paged]))
            del recent[:paged]
        return self._with(
            pages=pages,
            recent=tuple(recent),
            count=count,
            duration=self.duration + duration,
            opened=None,
            hint=_checked(hint),
            parted=parted,
            parted_duration=parted_duration,
        )

    # -- trimming ---------------------------------------------------------------------------------

    def trimmed(self, count: int) -> "Timeline":
        """Return the timeline without its `count` oldest closed segments.

        The caller decides on `count` with `surplus`, because all renditions of a run should list
        the same segments.

        Raises:
            ValueError: the timeline has fewer segments.
        """
        if not 0 <= count <= self.count:
            raise ValueError(f"{count} segments to remove out of {self.count}")
        if not count:
            return self
        duration, discontinuities, remaining = self.duration, self.discontinuities, count
        pages = list(self.pages)
        while remaining and pages:
            oldest = pages.pop(0)
            if remaining < len(oldest.segments):
                page = oldest.without(remaining)
                pages.insert(0, page)
                duration += page.duration
                discontinuities -= page.discontinuities
                remaining = 0
            else:
                remaining -= len(oldest.segments)
            duration -= oldest.duration
            discontinuities += oldest.discontinuities
        for closed in self.recent[:remaining]:
            duration -= closed.segment.duration
            discontinuities += closed.segment.discontinuity
        recent = self.recent[remaining:]
        return self._with(
            pages=tuple(pages),
            recent=recent,
            count=self.count - count,
            sequence=self.sequence + count,
            duration=duration,
            discontinuities=discontinuities,
            parted=min(self.parted, len(recent)),
            parted_duration=min(self.parted_duration, duration),
        )

    def _with(self, **changes: object) -> "Timeline":
        return msgspec.structs.replace(self, **changes)

    def _check_growing(self) -> None:
        if self.ended:
            raise ValueError("the timeline has ended")
        if self.opened is not None:
            raise ValueError("a segment is open")

    def _opened(self) -> OpenSegment:
        if self.opened is None:
            raise ValueError("no segment is open")
        return self.opened


def _without_map(segment: PlaylistSegment) -> PlaylistSegment:
    """Return a segment without the init section that a gap does not need: it is never decoded."""
    if segment.gap and segment.map_uri is not None:
        return msgspec.structs.replace(segment, map_uri=None)
    return segment


def common_part_target(timelines: Iterable[Timeline], part_target: int) -> int:
    """Return the target that all renditions of a run can announce for parts of `part_target`.

    Players that wait for one rendition stay as far behind as for the others (RFC 8216bis, 4.4.3.8:
    PART-HOLD-BACK counts by the greatest target), so it shrinks in all of them at once.
    """
    shrunk = (each.with_part_target(part_target).part_target for each in timelines)
    return max(shrunk, default=part_target)


def _page(closed: Iterable[ClosedSegment]) -> SegmentPage:
    return SegmentPage.of([one.segment for one in closed])


def _page_end(next_msn: int, recent: int) -> int:
    """Return how many of the `recent` segments make a page now, 0 if it is not yet time.

    Pages end at multiples of `PAGE_SEGMENTS`, so that all renditions of a run have the same ones.
    """
    first = next_msn - recent
    page = PAGE_SEGMENTS - first % PAGE_SEGMENTS
    return page if recent >= page + PAGE_SEGMENTS else 0


def _checked(hint: str | None) -> str | None:
    return None if hint is None else uri_text(hint)
