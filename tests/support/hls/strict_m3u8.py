"""A strict parser of playlists, which returns values and reports faults as findings.

Source: draft-pantos-hls-rfc8216bis, sections 4.1 to 4.4, as far as live streams use them. Every
text gives a value; malformed parts are omitted and reported. It shares no code with `media.hls`.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import msgspec

from tests.support.hls.attributes import (
    decimal,
    read_attributes,
    read_date,
    read_decimal,
    read_integer,
    read_uri,
)
from tests.support.hls.findings import Report

_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class StrictPart(msgspec.Struct, frozen=True, kw_only=True):
    """An EXT-X-PART; `duration` in seconds."""

    uri: str
    duration: Fraction
    independent: bool = False
    gap: bool = False


class ListedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment and its parts; the open one, with parts only, has no URI.

    `duration` in seconds, `wall` in seconds since 1970. A gap needs no init section.
    """

    uri: str = ""
    duration: Fraction = Fraction(0)
    discontinuity: bool = False
    map_uri: str | None = None
    wall: Fraction | None = None
    gap: bool = False
    parts: tuple[StrictPart, ...] = ()

    @property
    def length(self) -> Fraction:
        """The seconds of its listed media."""
        return self.duration if self.uri else sum((p.duration for p in self.parts), Fraction(0))


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """An EXT-X-SERVER-CONTROL, in seconds."""

    can_skip_until: Fraction | None = None
    hold_back: Fraction | None = None
    part_hold_back: Fraction | None = None
    can_block_reload: bool = False


class Hint(msgspec.Struct, frozen=True):
    """An EXT-X-PRELOAD-HINT."""

    kind: str
    uri: str


class StrictReport(msgspec.Struct, frozen=True):
    """An EXT-X-RENDITION-REPORT."""

    uri: str
    last_msn: int
    last_part: int | None


class MediaText(msgspec.Struct, kw_only=True):
    """A media playlist. `segments` are the closed ones; `skipped` ones come before them."""

    version: int = 1
    target: int = 0
    sequence: int = 0
    discontinuities: int | None = None
    control: Control | None = None
    part_target: Fraction | None = None
    skipped: int = 0
    segments: tuple[ListedSegment, ...] = ()
    open: ListedSegment | None = None
    hints: tuple[Hint, ...] = ()
    reports: tuple[StrictReport, ...] = ()
    independent_segments: bool = False
    ended: bool = False
    tags: frozenset[str] = frozenset()

    @property
    def all(self) -> tuple[ListedSegment, ...]:
        """All segments, including the open one."""
        return self.segments if self.open is None else (*self.segments, self.open)

    @property
    def length(self) -> Fraction:
        """The seconds of all listed closed segments."""
        return sum((each.duration for each in self.segments), Fraction(0))

    @property
    def last(self) -> tuple[int, int]:
        """The media sequence number of the newest segment, and the index of its newest part.

        The index is -1 if the segment has no parts.
        """
        listed = [segment for segment in self.all if segment.uri or segment.parts]
        newest = listed[-1] if listed else ListedSegment()
        return self.sequence + self.skipped + len(listed) - 1, len(newest.parts) - 1

    @property
    def reported(self) -> tuple[int, int]:
        """The values for reports: its newest part, or segment if it has no parts (4.4.5.4)."""
        parted = [
            (number, len(segment.parts) - 1)
            for number, segment in enumerate(self.all, self.sequence + self.skipped)
            if segment.parts
        ]
        return parted[-1] if parted else self.last


class ListedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """An EXT-X-STREAM-INF with its URI."""

    uri: str
    bandwidth: int = 0
    codecs: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    audio: str | None = None


class ListedRendition(msgspec.Struct, frozen=True, kw_only=True):
    """An EXT-X-MEDIA."""

    kind: str
    group: str
    name: str
    uri: str | None = None


class MultivariantText(msgspec.Struct, kw_only=True):
    """A multivariant playlist."""

    version: int = 1
    variants: tuple[ListedVariant, ...] = ()
    renditions: tuple[ListedRendition, ...] = ()
    tags: frozenset[str] = frozenset()

    @property
    def uris(self) -> tuple[str, ...]:
        """The distinct URIs of the media playlists."""
        addresses = [variant.uri for variant in self.variants]
        addresses += [rendition.uri for rendition in self.renditions if rendition.uri is not None]
        return tuple(dict.fromkeys(addresses))


_ONCE: Final = frozenset(
    {
        "EXT-X-VERSION", "EXT-X-INDEPENDENT-SEGMENTS", "EXT-X-TARGETDURATION",
        "EXT-X-MEDIA-SEQUENCE", "EXT-X-DISCONTINUITY-SEQUENCE", "EXT-X-ENDLIST",
        "EXT-X-PLAYLIST-TYPE", "EXT-X-PART-INF", "EXT-X-SERVER-CONTROL", "EXT-X-SKIP",
    }
)  # fmt: skip
_OF_MULTIVARIANT: Final = frozenset({"EXT-X-STREAM-INF", "EXT-X-MEDIA"})
_OF_EITHER: Final = frozenset({"EXT-X-VERSION", "EXT-X-INDEPENDENT-SEGMENTS"})
_WITHOUT_VALUE: Final = frozenset(
    {"EXT-X-INDEPENDENT-SEGMENTS", "EXT-X-ENDLIST", "EXT-X-DISCONTINUITY", "EXT-X-GAP"}
)


def read_playlist(body: bytes, report: Report) -> MediaText | MultivariantText | None:
    """Parse a playlist; None if the bytes are not one."""
    lines = _lines(body, report)
    if not lines or lines[0] != "#EXTM3U":
        report("the first line is not #EXTM3U", "4.4.1.1")
        return None
    if "#EXTM3U" in lines[1:]:
        report("#EXTM3U is there twice", "4.4.1.1")
    names = {line[1:].partition(":")[0] for line in lines if line.startswith("#EXT")}
    reader = _MultivariantReader if names & _OF_MULTIVARIANT else _MediaReader
    return reader(report).read(lines[1:])


def _lines(body: bytes, report: Report) -> list[str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        report("the text is not UTF-8", "4.1")
        return []
    if text.startswith("\ufeff"):
        report("the text begins with a byte order mark", "4.1")
    if not text.endswith("\n"):
        report("the last line has no end", "4.1")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    for line in lines:
        if "\r" in line:
            report("a line ends with a carriage return alone", "4.1")
        if _CONTROLS.search(line):
            report(f"a control character is in {line[:40]!r}", "4.1")
        if line != line.strip(" "):
            report(f"white space surrounds {line[:40]!r}", "4.1")
    return lines


class _Reader:
    """The common parser of both kinds of playlist: dispatches tags, and reports repeated ones."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.version = 1
        self.independent = False
        self.seen: list[str] = []

    def dispatch(self, line: str, readers: Mapping[str, Callable[[str], None]]) -> None:
        """Parse the line of a tag, or skip a comment."""
        name, colon, value = line[1:].partition(":")
        if not name.startswith("EXT"):
            return
        if name in _ONCE and name in self.seen:
            self.report(f"{name} is there twice", "4.4")
        self.seen.append(name)
        if name in readers:
            if bool(colon) is (name in _WITHOUT_VALUE):
                self.report(f"{line[:60]!r} has {'a' if colon else 'no'} value", "4.4")
            readers[name](value)
        elif name != "EXTM3U":
            self.report(f"the tag {name} is unknown here", "4.4")

    def read_version(self, value: str) -> None:
        self.version = read_integer("EXT-X-VERSION", value, self.report) or 1

    def read_independent(self, _: str) -> None:
        self.independent = True

    def need_version(self, needed: int, feature: str) -> None:
        if self.version < needed:
            self.report(f"{feature} needs version {needed}, the text says {self.version}", "8")


class _MediaReader(_Reader):
    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.text = MediaText()
        self._segments: list[ListedSegment] = []
        self._hints: list[Hint] = []
        self._reports: list[StrictReport] = []
        self._map: str | None = None
        self._features: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Discard the tags of the previous segment."""
        self._parts: list[StrictPart] = []
        self._duration: Fraction | None = None
        self._discontinuity = self._gap = self._opened = False
        self._wall: Fraction | None = None

    def read(self, lines: list[str]) -> MediaText:
        readers = {
            "EXT-X-VERSION": self.read_version,
            "EXT-X-INDEPENDENT-SEGMENTS": self.read_independent,
            "EXT-X-TARGETDURATION": self._target,
            "EXT-X-MEDIA-SEQUENCE": self._sequence,
            "EXT-X-DISCONTINUITY-SEQUENCE": self._discontinuity_sequence,
            "EXT-X-ENDLIST": self._endlist,
            "EXT-X-PART-INF": self._part_inf,
            "EXT-X-SERVER-CONTROL": self._server_control,
            "EXT-X-SKIP": self._skip,
            "EXTINF": self._extinf,
            "EXT-X-DISCONTINUITY": self._discontinue,
            "EXT-X-GAP": self._make_gap,
            "EXT-X-MAP": self._init_section,
            "EXT-X-PROGRAM-DATE-TIME": self._date,
            "EXT-X-PART": self._part,
            "EXT-X-PRELOAD-HINT": self._hint,
            "EXT-X-RENDITION-REPORT": self._rendition_report,
        }
        for line in lines:
            if line.startswith("#"):
                self.dispatch(line, readers)
            elif line:
                self._uri(line)
        if "EXT-X-TARGETDURATION" not in self.seen:
            self.report("there is no EXT-X-TARGETDURATION", "4.4.3.1")
        if self._duration is not None or self._gap:
            self.report("the last EXTINF or EXT-X-GAP has no URI", "4.4.4.1")
        for feature, needed in self._features.items():
            self.need_version(needed, feature)
        self._finish()
        return self.text

    def _finish(self) -> None:
        text = self.text
        if self._opened:
            text.open = self._listed("")
        text.version, text.independent_segments = self.version, self.independent
        text.segments, text.tags = tuple(self._segments), frozenset(self.seen)
        text.hints, text.reports = tuple(self._hints), tuple(self._reports)
        if "EXT-X-PART" in text.tags and text.part_target is None:
            self.report("there are parts without EXT-X-PART-INF", "4.4.3.7")
        if text.ended and text.hints:
            self.report("EXT-X-ENDLIST and EXT-X-PRELOAD-HINT are both there", "4.4.5.3")
        if text.ended and text.open is not None:
            self.report("EXT-X-ENDLIST is there while a segment is open", "4.4.3.4")

    def _uri(self, line: str) -> None:
        uri = read_uri(line, self.report)
        if self._duration is None:
            self.report(f"{uri} has no EXTINF", "4.4.4.1")
        self._segments.append(self._listed(uri))
        self._begin()

    def _listed(self, uri: str) -> ListedSegment:
        return ListedSegment(
            uri=uri,
            duration=self._duration or Fraction(0),
            discontinuity=self._discontinuity,
            map_uri=None if self._gap else self._map,
            wall=self._wall,
            gap=self._gap,
            parts=tuple(self._parts),
        )

    def _before_segments(self, tag: str, section: str) -> None:
        if self._segments or self._opened or self.text.skipped:
            self.report(f"{tag} comes after a segment", section)

    def _before_parts(self, tag: str) -> None:
        self._opened = True
        if self._parts:
            self.report(f"{tag} comes after a part of its segment", "4.4.4.9")

    def _target(self, value: str) -> None:
        self.text.target = read_integer("EXT-X-TARGETDURATION", value, self.report) or 0

    def _sequence(self, value: str) -> None:
        self._before_segments("EXT-X-MEDIA-SEQUENCE", "4.4.3.2")
        self.text.sequence = read_integer("EXT-X-MEDIA-SEQUENCE", value, self.report) or 0

    def _discontinuity_sequence(self, value: str) -> None:
        self._before_segments("EXT-X-DISCONTINUITY-SEQUENCE", "4.4.3.3")
        number = read_integer("EXT-X-DISCONTINUITY-SEQUENCE", value, self.report)
        self.text.discontinuities = number

    def _endlist(self, _: str) -> None:
        self.text.ended = True

    def _part_inf(self, value: str) -> None:
        attributes = read_attributes("EXT-X-PART-INF", value, self.report)
        if "PART-TARGET" in attributes:
            self.text.part_target = decimal(attributes["PART-TARGET"])

    def _server_control(self, value: str) -> None:
        attributes = read_attributes("EXT-X-SERVER-CONTROL", value, self.report)
        seconds = {name: decimal(each) for name, each in attributes.items() if each[0].isdigit()}
        self.text.control = Control(
            can_skip_until=seconds.get("CAN-SKIP-UNTIL"),
            hold_back=seconds.get("HOLD-BACK"),
            part_hold_back=seconds.get("PART-HOLD-BACK"),
            can_block_reload=attributes.get("CAN-BLOCK-RELOAD") == "YES",
        )

    def _skip(self, value: str) -> None:
        self._before_segments("EXT-X-SKIP", "4.4.5.2")
        self._features["EXT-X-SKIP"] = 9
        attributes = read_attributes("EXT-X-SKIP", value, self.report)
        self.text.skipped = int(attributes.get("SKIPPED-SEGMENTS", "0"))

    def _extinf(self, value: str) -> None:
        duration, comma, _ = value.partition(",")
        if not comma:
            self.report(f"EXTINF:{value} has no comma", "4.4.4.1")
        if "." in duration:
            self._features["a decimal EXTINF"] = 3
        if self._duration is not None:
            self.report("a segment has two EXTINF", "4.4.4.1")
        self._opened = True
        self._duration = read_decimal("EXTINF", duration, self.report)

    def _discontinue(self, _: str) -> None:
        if self._discontinuity:
            self.report("a segment has two EXT-X-DISCONTINUITY", "4.4.4.3")
        self._before_parts("EXT-X-DISCONTINUITY")
        self._discontinuity = True

    def _make_gap(self, _: str) -> None:
        self._gap = self._opened = True

    def _init_section(self, value: str) -> None:
        self._before_parts("EXT-X-MAP")
        self._features["EXT-X-MAP"] = 6
        attributes = read_attributes("EXT-X-MAP", value, self.report)
        if "URI" in attributes:
            self._map = read_uri(attributes["URI"], self.report)

    def _date(self, value: str) -> None:
        self._before_parts("EXT-X-PROGRAM-DATE-TIME")
        self._wall = read_date(value, self.report)

    def _part(self, value: str) -> None:
        attributes = read_attributes("EXT-X-PART", value, self.report)
        self._opened = True
        if self._duration is not None:
            self.report("a part comes after the EXTINF of its segment", "4.4.4.9")
        if "URI" in attributes and "DURATION" in attributes:
            self._parts.append(
                StrictPart(
                    uri=read_uri(attributes["URI"], self.report),
                    duration=decimal(attributes["DURATION"]),
                    independent=attributes.get("INDEPENDENT") == "YES",
                    gap=attributes.get("GAP") == "YES",
                )
            )

    def _hint(self, value: str) -> None:
        attributes = read_attributes("EXT-X-PRELOAD-HINT", value, self.report)
        hint = Hint(attributes.get("TYPE", ""), read_uri(attributes.get("URI", ""), self.report))
        if any(hint.kind == other.kind for other in self._hints):
            self.report(f"there are two hints of the type {hint.kind}", "6.2.6")
        self._hints.append(hint)

    def _rendition_report(self, value: str) -> None:
        attributes = read_attributes("EXT-X-RENDITION-REPORT", value, self.report)
        if not {"URI", "LAST-MSN"} <= set(attributes):
            return
        uri = read_uri(attributes["URI"], self.report)
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|/", uri):
            self.report(f"the report of {uri} has no relative URI", "4.4.5.4")
        part = int(attributes["LAST-PART"]) if "LAST-PART" in attributes else None
        self._reports.append(StrictReport(uri, int(attributes["LAST-MSN"]), part))


class _MultivariantReader(_Reader):
    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._variants: list[ListedVariant] = []
        self._renditions: list[ListedRendition] = []
        self._pending: Mapping[str, str] | None = None

    def read(self, lines: list[str]) -> MultivariantText:
        readers = {
            "EXT-X-VERSION": self.read_version,
            "EXT-X-INDEPENDENT-SEGMENTS": self.read_independent,
            "EXT-X-STREAM-INF": self._stream_inf,
            "EXT-X-MEDIA": self._media,
        }
        for line in lines:
            if self._pending is not None and (not line or line.startswith("#")):
                self.report("EXT-X-STREAM-INF is not followed by a URI", "4.4.6.2")
                self._pending = None
            if line.startswith("#"):
                self.dispatch(line, readers)
            elif line:
                self._uri(line)
        if self._pending is not None:
            self.report("the last EXT-X-STREAM-INF has no URI", "4.4.6.2")
        self._groups()
        return MultivariantText(
            version=self.version,
            variants=tuple(self._variants),
            renditions=tuple(self._renditions),
            tags=frozenset(self.seen),
        )

    def _stream_inf(self, value: str) -> None:
        self._pending = read_attributes("EXT-X-STREAM-INF", value, self.report)
        if "CODECS" not in self._pending:
            self.report("a variant has no CODECS", "4.4.6.2")

    def _media(self, value: str) -> None:
        attributes = read_attributes("EXT-X-MEDIA", value, self.report)
        if {"TYPE", "GROUP-ID", "NAME"} <= set(attributes):
            uri = read_uri(attributes["URI"], self.report) if "URI" in attributes else None
            listed = ListedRendition(
                kind=attributes["TYPE"],
                group=attributes["GROUP-ID"],
                name=attributes["NAME"],
                uri=uri,
            )
            self._renditions.append(listed)

    def _uri(self, line: str) -> None:
        uri, attributes = read_uri(line, self.report), self._pending
        self._pending = None
        if attributes is None:
            self.report(f"{uri} has no EXT-X-STREAM-INF", "4.4.6.2")
            return
        width, _, height = attributes.get("RESOLUTION", "").partition("x")
        self._variants.append(
            ListedVariant(
                uri=uri,
                bandwidth=int(attributes.get("BANDWIDTH", "0")),
                codecs=tuple(attributes["CODECS"].split(",")) if "CODECS" in attributes else (),
                size=(int(width), int(height)) if height else None,
                audio=attributes.get("AUDIO"),
            )
        )

    def _groups(self) -> None:
        audio = {rendition.group for rendition in self._renditions if rendition.kind == "AUDIO"}
        for variant in self._variants:
            if variant.audio is not None and variant.audio not in audio:
                self.report(f"{variant.uri} names the missing group {variant.audio}", "4.4.6.2")
        names = [
            (rendition.kind, rendition.group, rendition.name) for rendition in self._renditions
        ]
        if len(set(names)) < len(names):
            self.report("two renditions of a group share a name", "4.4.6.1.1")
