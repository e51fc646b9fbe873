"""All versions of a rendition's playlist, checked for changes of what was listed before.

The standard forbids any change of listed media (6.2.1), and has no rule for a server that lost its
memory. After a restart, a server may replace the newest segments, up to the last listed one, with
EXT-X-GAP, which marks missing media (4.4.4.7); their numbers and addresses stay (6.2.2). Their
parts and lengths may be lost, and the parts of older segments, too. The next segment begins with
EXT-X-DISCONTINUITY (4.4.4.3), since it may not continue the media that players have.
"""

from fractions import Fraction
from typing import Final

import msgspec

from tests.support.hls.fetches import joined
from tests.support.hls.findings import Report
from tests.support.hls.playlist_rules import ends_before_end
from tests.support.hls.strict_m3u8 import ListedSegment, MediaText, StrictPart

_GRACE: Final = 1.0  # seconds between an event at the server and its observation


class Resource(msgspec.Struct, frozen=True):
    """A listed URL: its kind (`init`, `part`, `segment`), segment number, and part index."""

    kind: str
    msn: int
    index: int = -1


class KnownSegment(msgspec.Struct):
    """A segment: its lines, its discontinuity sequence number, and when it was listed.

    `parts` are all listed ones; `longest` is the length of the longest playlist with it.
    """

    lines: ListedSegment
    discontinuity: int
    since: float
    longest: Fraction = Fraction(0)
    removed: float | None = None
    parts_removed: float | None = None


def merge_delta(text: MediaText, before: MediaText | None) -> MediaText | None:
    """Complete a delta update from the client's last playlist (6.3.7).

    Return None if that does not have all skipped segments.
    """
    if before is None:
        return None
    first = text.sequence - before.sequence
    skipped = before.segments[first : first + text.skipped]
    if first < 0 or len(skipped) != text.skipped:
        return None
    last = next((segment.map_uri for segment in reversed(skipped) if segment.map_uri), None)
    segments = [_inherit(segment, last) for segment in text.segments]
    full = msgspec.structs.replace(text, skipped=0, segments=(*skipped, *segments))
    full.open = None if text.open is None else _inherit(text.open, last)
    return full


def _inherit(segment: ListedSegment, map_uri: str | None) -> ListedSegment:
    """Apply the EXT-X-MAP of the skipped segments to a following one."""
    if segment.map_uri is not None or segment.gap:
        return segment
    return msgspec.structs.replace(segment, map_uri=map_uri)


class RenditionHistory:
    """All versions of one media playlist; `url` is its address without directives."""

    def __init__(self, url: str, report: Report) -> None:
        self.url = url
        self.known: dict[int, KnownSegment] = {}
        self.resources: dict[str, Resource] = {}
        self.last: MediaText | None = None
        self.at = 0.0  # when the newest playlist was received
        self.hints: dict[str, float] = {}  # hinted resources, and when they were hinted
        self.withdrawn: set[str] = set()
        self.wrong_hints = 0  # after which another part was listed
        self.longest_pause = 0.0  # seconds without a new part or segment
        self.lost: set[int] = set()  # segments lost by a restart of the server
        self._was_gone = False  # since the newest playlist
        self._follows_loss = False
        self._grown = 0.0
        self._report = report

    def interrupt(self) -> None:
        """Record a restart of the server: the next playlist may lack media from its memory."""
        self._was_gone = True

    def update(self, text: MediaText, at: float) -> None:
        """Add the next version, complete, and the time at which it was received."""
        before = self.last
        if before is not None and self._was_gone:
            self._forget_lost(before, text, at)
        self._was_gone = False
        if before is not None:
            self._check_constants(before, text)
            self._check_numbers(before, text, at)
            if before.ended:
                self._check_ended(before, text)
        for number in self.listed:
            if number < text.sequence:
                self.known[number].removed = at
        self._take_lines(text, at)
        self._follow_hints(text, at)
        if before is None or text.last > before.last:
            self.longest_pause = max(self.longest_pause, at - (self._grown or at))
            self._grown = at
        self.last, self.at = text, at

    @property
    def listed(self) -> range:
        """The numbers in the newest playlist."""
        text = self.last
        return range(0) if text is None else range(text.sequence, text.sequence + len(text.all))

    @property
    def newest(self) -> tuple[int, int]:
        """Number and part index of the newest listed media."""
        return (-1, -1) if self.last is None else self.last.last

    def has_come(self, msn: int, part: int | None) -> bool:
        """Return whether a segment or a part has been listed (6.2.5.2)."""
        text = self.last
        if text is None:
            return False
        closed = text.sequence + len(text.segments) - 1
        if part is None or closed > msn:
            return closed >= msn
        if closed == msn:
            # A request beyond the last part is one for the first part of the next segment.
            count = len(text.segments[-1].parts)
            return part < max(count, 1) or (text.open is not None and bool(text.open.parts))
        return text.last[0] == msn and text.last[1] >= part

    def is_due(self, resource: Resource, at: float, *, began: float) -> bool:
        """Return whether a resource must exist for a request at a time (6.2.1, 6.2.2)."""
        segment = self.known.get(resource.msn)
        if segment is None or self.last is None or segment.since > began:
            return False
        if segment.lines.gap or (
            resource.kind == "part" and segment.lines.parts[resource.index].gap
        ):
            return False
        if resource.kind == "part":
            removed = segment.parts_removed if segment.removed is None else segment.removed
            removed = (
                min(removed or at, segment.parts_removed or at) if removed is not None else None
            )
            return removed is None or at < removed + 3 * self.last.target - _GRACE
        if segment.removed is None:
            return True
        return at < segment.since + float(segment.lines.duration + segment.longest) - _GRACE

    def _forget_lost(self, before: MediaText, text: MediaText, at: float) -> None:
        """Remove the media that a restart lost: the newest segments, and parts of others."""
        listed = dict(enumerate(text.all, text.sequence))
        for number in range(before.last[0], before.sequence - 1, -1):
            if number not in listed or not listed[number].gap or self.known[number].lines.gap:
                break
            self.lost.add(number)
            del self.known[number]
        self._follows_loss |= before.last[0] in self.lost
        self.resources = {
            url: each
            for url, each in self.resources.items()
            if each.kind == "init" or each.msn in self.known
        }
        self.hints = {url: since for url, since in self.hints.items() if url in self.resources}
        self.withdrawn.clear()
        for number, segment in self.known.items():
            if (
                number in listed
                and segment.lines.parts
                and not listed[number].parts
                and listed[number].uri
            ):
                segment.parts_removed = segment.parts_removed or at

    def _check_constants(self, before: MediaText, text: MediaText) -> None:
        if text.target != before.target:
            self._report(
                f"the target duration was {before.target} s and is {text.target} s", "6.2.1"
            )

    def _check_numbers(self, before: MediaText, text: MediaText, at: float) -> None:
        if text.sequence < before.sequence:
            self._report(
                f"the media sequence number fell from {before.sequence} to {text.sequence}",
                "6.2.2",
            )
        if (text.discontinuities or 0) < (before.discontinuities or 0):
            self._report(
                f"the discontinuity sequence number fell from {before.discontinuities} "
                f"to {text.discontinuities}",
                "6.2.2",
            )
        if text.last[0] < before.last[0]:
            self._report(f"{_name(before.last)} was the newest, now {_name(text.last)} is", "6.2.1")
        hole = text.sequence - before.last[0] - 1
        if hole > 0 and at - self.at < float(before.length):
            self._report(f"{before.last[0] + 1} and {hole - 1} more were never listed", "6.2.2")
        removes = text.sequence > before.sequence
        if removes and not text.ended and text.length < 3 * text.target:
            self._report(f"segments were removed from {float(text.length):.1f} s of media", "6.2.2")
        if removes and text.discontinuities is None and _discontinuities(before):
            self._report("segments are removed without EXT-X-DISCONTINUITY-SEQUENCE", "6.2.2")

    def _check_ended(self, before: MediaText, text: MediaText) -> None:
        if not text.ended or text.all != before.all or text.sequence != before.sequence:
            self._report("the playlist changed after EXT-X-ENDLIST", "4.4.3.4")

    def _take_lines(self, text: MediaText, at: float) -> None:
        discontinuity = text.discontinuities or 0
        ends = ends_before_end(text)
        far = {
            index
            for index, end in enumerate(ends)
            if text.ended or end + text.all[index].length >= 3 * text.target
        }
        length = text.length
        for position, lines in enumerate(text.all):
            number = text.sequence + position
            discontinuity += lines.discontinuity
            segment = self.known.get(number)
            if segment is None:
                segment = self.known[number] = KnownSegment(lines, discontinuity, at)
                self._check_after_loss(number, lines)
            else:
                self._compare(number, segment, lines, at, far=position in far)
                if segment.discontinuity != discontinuity:
                    self._report(
                        f"the discontinuity sequence number of {number} was "
                        f"{segment.discontinuity} and is {discontinuity}",
                        "6.2.2",
                    )
            segment.longest = max(segment.longest, length)
            self._register(number, segment.lines)

    def _check_after_loss(self, number: int, lines: ListedSegment) -> None:
        if self._follows_loss and not lines.gap:
            self._follows_loss = False
            if not lines.discontinuity:
                self._report(f"{number} follows lost media without a discontinuity", "4.4.4.3")

    def _compare(
        self, number: int, segment: KnownSegment, lines: ListedSegment, at: float, *, far: bool
    ) -> None:
        """Compare the lines of a segment with earlier ones, and record new ones."""
        old = segment.lines
        names = ["discontinuity", "map_uri", "wall"]
        if old.uri:
            names += ["uri", "duration", "gap"]
        for name in names:
            was, now = getattr(old, name), getattr(lines, name)
            if was != now and not (name == "map_uri" and (old.gap or lines.gap)):
                self._report(f"the {name} of {number} was {_text(was)}, is {_text(now)}", "6.2.1")
        parts = self._compare_parts(number, segment, lines, at, far=far)
        segment.lines = msgspec.structs.replace(lines, parts=parts)

    def _compare_parts(
        self, number: int, segment: KnownSegment, lines: ListedSegment, at: float, *, far: bool
    ) -> tuple[StrictPart, ...]:
        """Return all parts of a segment that have been listed."""
        old, new = segment.lines.parts, lines.parts
        if segment.parts_removed is not None or (old and not new and lines.uri):
            if new:
                self._report(f"the parts of {number} came back", "6.2.2")
            elif not far and segment.parts_removed is None:
                self._report(f"the parts of {number} were removed near the end", "6.2.2")
            segment.parts_removed = segment.parts_removed or at
            return old
        for index, (was, now) in enumerate(zip(old, new, strict=False)):
            if was != now:
                self._report(f"part {number}.{index} changed: {_part(was)}, {_part(now)}", "6.2.1")
        if len(new) < len(old):
            self._report(f"part {number}.{len(new)} vanished", "6.2.1")
            return old
        if len(new) > len(old) and segment.lines.uri:
            self._report(f"{number} was closed and got another part", "6.2.1")
        return new

    def _register(self, number: int, lines: ListedSegment) -> None:
        named = [(lines.uri, Resource("segment", number))] if lines.uri and not lines.gap else []
        named += [
            (part.uri, Resource("part", number, index)) for index, part in enumerate(lines.parts)
        ]
        if lines.map_uri is not None:
            self.resources.setdefault(joined(self.url, lines.map_uri), Resource("init", number))
        for uri, resource in named:
            registered = self.resources.setdefault(joined(self.url, uri), resource)
            if registered != resource:
                self._report(f"{uri} is named for {registered.msn} and for {number}", "6.2.1")

    def _follow_hints(self, text: MediaText, at: float) -> None:
        hinted = {joined(self.url, hint.uri) for hint in text.hints}
        for url in hinted:
            if self.resources.get(url, Resource("", 0)).kind in {"part", "segment"}:
                self._report(f"the hint names {_end(url)}, which is listed already", "4.4.5.3")
            self.hints.setdefault(url, at)
            self.withdrawn.discard(url)
        for url in list(self.hints):
            if url not in hinted and url not in self.resources:
                self.withdrawn.add(url)
            elif url in self.resources:
                self.withdrawn.discard(url)
        self._count_wrong_hints(text)

    def _count_wrong_hints(self, text: MediaText) -> None:
        """Count the hints that were followed by another part, which is allowed (6.2.6)."""
        before = self.last
        if before is None or text.last <= before.last:
            return
        new = [
            joined(self.url, part.uri)
            for number, segment in enumerate(text.all, text.sequence)
            for index, part in enumerate(segment.parts)
            if (number, index) > before.last
        ]
        hinted = [joined(self.url, hint.uri) for hint in before.hints if hint.kind == "PART"]
        self.wrong_hints += bool(new) and bool(hinted) and hinted[0] != new[0]
        following = dict(enumerate(text.all, text.sequence)).get(before.last[0] + 1)
        newest = before.all[-1] if before.all else None
        if (
            new
            and not hinted
            and following is not None
            and newest is not None
            and following.parts
            and not (following.discontinuity or following.gap or newest.gap)
            and following.map_uri == newest.map_uri
        ):
            self._report(f"the first part of {before.last[0] + 1} was not hinted", "B.1")


def _discontinuities(text: MediaText) -> int:
    return sum(segment.discontinuity for segment in text.all)


def _name(last: tuple[int, int]) -> str:
    return f"{last[0]}" if last[1] < 0 else f"{last[0]}.{last[1]}"


def _part(part: StrictPart) -> str:
    flags = f"{' INDEPENDENT' * part.independent}{' GAP' * part.gap}"
    return f"{part.uri} {float(part.duration):.6f}{flags}"


def _text(value: object) -> str:
    return f"{float(value):.6f}" if isinstance(value, Fraction) else repr(value)


def _end(url: str) -> str:
    return url.rsplit("/", 1)[-1]
