"""Checks the media of one rendition against its playlist."""

import hashlib
import itertools
from fractions import Fraction
from typing import Final

import msgspec

from tests.support.hls.fetches import joined
from tests.support.hls.findings import Report
from tests.support.hls.mp4_boxes import BoxError, Fragment, Init, read_fragments, read_init
from tests.support.hls.rendition_history import RenditionHistory, Resource

_EPSILON: Final = Fraction(1, 1000)  # seconds: rounding errors between two time bases
_SLACK: Final = Fraction(1, 20)  # seconds of tolerance, or one frame if that is longer


class Span(msgspec.Struct, frozen=True):
    """The decode times (seconds) of some media; `frame` is the length of its last sample.

    `shown` is the presentation time of its first picture.
    """

    start: Fraction
    end: Fraction
    frame: Fraction
    shown: Fraction


class MediaBytes:
    """The fetched init sections, parts and segments of a rendition."""

    def __init__(self, history: RenditionHistory, report: Report) -> None:
        self.inits: dict[str, Init] = {}
        self.sizes: dict[int, int] = {}  # bytes of each segment
        self.early: dict[str, bytes] = {}  # fetched before it was listed
        self._history = history
        self._report = report
        self._digests: dict[str, bytes] = {}
        self._waiting: dict[str, tuple[Resource, bytes]] = {}  # for an init section
        self._parts: dict[tuple[int, int], bytes] = {}
        self._segments: dict[int, bytes] = {}
        self._spans: dict[tuple[int, int], Span] = {}
        self._joined: set[tuple[int, int]] = set()

    def take(self, url: str, body: bytes) -> None:
        """Add the body of a URL."""
        digest = hashlib.sha256(body).digest()
        if self._digests.setdefault(url, digest) != digest:
            self._report(f"{_end(url)} has other bytes than before", "6.2.1")
            return
        resource = self._history.resources.get(url)
        if resource is None:
            self.early.setdefault(url, body)
        elif resource.kind == "init":
            self._take_init(url, body)
        else:
            self._take_media(url, resource, body)

    def listed(self) -> None:
        """Check the media that were fetched early and have been listed since."""
        for url in [url for url in self.early if url in self._history.resources]:
            body = self.early.pop(url)
            resource = self._history.resources[url]
            if resource.kind == "init":
                self._take_init(url, body)
            else:
                self._take_media(url, resource, body)
        for number in [*self._segments]:
            self._check_whole(number)

    def span(self, msn: int) -> Span | None:
        """Return the span of a segment's media; None if they are not known completely."""
        whole = self._spans.get((msn, -1))
        segment = self._history.known.get(msn)
        if whole is not None or segment is None or not segment.lines.uri or not segment.lines.parts:
            return whole
        first = self._spans.get((msn, 0))
        last = self._spans.get((msn, len(segment.lines.parts) - 1))
        return Span(first.start, last.end, last.frame, first.shown) if first and last else None

    def begin(self, msn: int) -> Span | None:
        """Return a span with the same begin as the segment, if known."""
        return self._spans.get((msn, -1)) or self._spans.get((msn, 0))

    def _take_init(self, url: str, body: bytes) -> None:
        if url in self.inits:
            return
        try:
            self.inits[url] = read_init(body)
        except BoxError as error:
            self._report(f"{_end(url)} is no init section: {error}", "3.1.2")
            return
        for name in [*self._waiting]:
            self._take_media(name, *self._waiting.pop(name))

    def _take_media(self, url: str, resource: Resource, body: bytes) -> None:
        key = (resource.msn, resource.index)
        lines = self._history.known[resource.msn].lines
        init_url = joined(self._history.url, lines.map_uri or "")
        if key in self._spans:
            return
        if init_url not in self.inits:
            self._waiting[url] = (resource, body)
            return
        if resource.kind == "segment":
            self.sizes[resource.msn] = len(body)
            self._segments[resource.msn] = body
        else:
            self._parts[key] = body
        try:
            fragments = read_fragments(body, self.inits[init_url])
        except BoxError as error:
            self._report(f"{_end(url)} is no media: {error}", "3.1.2")
            return
        self._spans[key] = self._measure(resource, fragments, self.inits[init_url])
        self._check_sync(resource, fragments)
        self._check_joins(resource)
        self._check_whole(resource.msn)

    def _measure(self, resource: Resource, fragments: list[Fragment], init: Init) -> Span:
        """Return the span of fragments, and check their continuity and duration."""
        name, scale = _name(resource), init.scale
        for before, after in itertools.pairwise(fragments):
            step = Fraction(after.start - before.end, scale)
            self._check_step(step, Fraction(before.last, scale), f"a fragment within {name}")
        first, last = fragments[0], fragments[-1]
        span = Span(
            Fraction(first.start, scale),
            Fraction(last.end, scale),
            Fraction(last.last, scale),
            Fraction(min(each.shown for each in fragments), scale),
        )
        lines = self._history.known[resource.msn].lines
        declared = lines.duration if resource.index < 0 else lines.parts[resource.index].duration
        # The first pictures of a run have shorter decode than presentation intervals.
        media = (
            Fraction(sum(each.duration for each in fragments), scale),
            Fraction(max(each.shown_end for each in fragments), scale) - span.shown,
        )
        if min(abs(each - declared) for each in media) > min(span.frame, _SLACK) + _EPSILON:
            self._report(
                f"{name} holds {float(media[0]):.3f} s of media, its playlist says "
                f"{float(declared):.3f} s",
                "4.4.4.1" if resource.index < 0 else "4.4.4.9",
            )
        return span

    def _check_sync(self, resource: Resource, fragments: list[Fragment]) -> None:
        sync = fragments[0].begins_with_sync
        if resource.index >= 0:
            declared = self._history.known[resource.msn].lines.parts[resource.index].independent
            if declared and not sync:
                self._report(
                    f"{_name(resource)} is INDEPENDENT and begins without a sync sample", "4.4.4.9"
                )
        if resource.index <= 0 and not sync:
            self._report(f"{_name(resource)} begins without a sync sample", "4.4.2.1")

    def _check_joins(self, resource: Resource) -> None:
        """Check that media are contiguous with their neighbours."""
        msn, index = resource.msn, resource.index
        if index >= 0:
            self._check_pair((msn, index - 1), (msn, index))
            self._check_pair((msn, index), (msn, index + 1))
        for number in (msn, msn + 1):
            self._check_segments(number)

    def _check_pair(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        before, after = self._spans.get(first), self._spans.get(second)
        if first[1] >= 0 and before is not None and after is not None:
            name = f"part {second[0]}.{second[1]}"
            self._check_step(after.start - before.end, before.frame, name)

    def _check_segments(self, msn: int) -> None:
        """Check that a segment follows its predecessor, except after a discontinuity or gap."""
        segment, earlier = self._history.known.get(msn), self._history.known.get(msn - 1)
        previous, begin = self.span(msn - 1), self.begin(msn)
        if segment is None or earlier is None or previous is None or begin is None:
            return
        # Parts of a gap may have been listed before it was one.
        if (msn, 0) in self._joined or earlier.lines.gap:
            return
        self._joined.add((msn, 0))
        if not segment.lines.discontinuity:
            self._check_step(begin.start - previous.end, previous.frame, f"{msn}")
            self._check_encoding(msn)

    def _check_encoding(self, msn: int) -> None:
        """Check that a change of the encoding is a discontinuity (6.2.1).

        The standard recommends one also where the codec's profile changes. Here parameter sets are
        in band, and every player goes on without (docs/playback.md).
        """
        inits = [
            self.inits.get(joined(self._history.url, self._history.known[n].lines.map_uri or ""))
            for n in (msn - 1, msn)
        ]
        kinds = [None if each is None else _kind(each) for each in inits]
        if None not in kinds and kinds[0] != kinds[1]:
            self._report(f"{msn} has another encoding without EXT-X-DISCONTINUITY", "6.2.1")

    def _check_step(self, step: Fraction, frame: Fraction, name: str) -> None:
        if step < -_EPSILON or step > frame + _EPSILON:
            what = "after a hole of" if step > 0 else "with an overlap of"
            self._report(f"{name} begins {what} {abs(float(step)):.3f} s", "6.2.1")

    def _check_whole(self, msn: int) -> None:
        """Check that a segment consists of its parts, and drop their bytes."""
        segment = self._history.known.get(msn)
        if msn not in self._segments or segment is None:
            return
        count = len(segment.lines.parts)
        if not count:
            del self._segments[msn]
            return
        parts = [self._parts.get((msn, index)) for index in range(count)]
        if None in parts:
            return
        if b"".join(part for part in parts if part is not None) != self._segments[msn]:
            self._report(f"the parts of {msn} are not its bytes", "3.2")
        del self._segments[msn]
        for index in range(count):
            del self._parts[msn, index]


def _name(resource: Resource) -> str:
    index = f".{resource.index}" if resource.index >= 0 else ""
    return f"{resource.kind} {resource.msn}{index}"


def _end(url: str) -> str:
    return url.rsplit("/", 1)[-1]


def _kind(init: Init) -> Init:
    """Return an init section without the profile and level of its codec."""
    return msgspec.structs.replace(init, codec=init.codec.split(".")[0])
