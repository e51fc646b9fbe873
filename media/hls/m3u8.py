"""Renders and parses HLS playlists as text (M3U8); the values are in `media.hls.playlist`.

Source: draft-pantos-hls-rfc8216bis, sections 4.1 (lines), 4.2 (attribute lists), 4.4 (tags).
Any text gives a playlist or `M3u8Error`. Byte ranges, keys and low-latency tags are not supported:
ranges are an error, because ignoring them would change a segment's meaning; other unknown tags are
ignored, as the standard requires of clients.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from media.hls.playlist import (
    AudioRendition,
    MediaPlaylist,
    MultivariantPlaylist,
    PlaylistSegment,
    SubtitleRendition,
    Variant,
)
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale

__all__ = ["MAX_TEXT", "M3u8Error", "SegmentLines", "parse", "render", "render_with", "utc_text"]

MAX_TEXT: Final = 4 << 20  # characters; a day of 2 s segments is 43 200 entries, below 4 MiB
# EXT-X-MAP in media playlists needs 6; fMP4 renditions are usual from 7 on. EXT-X-GAP would be
# 8, but clients ignore tags that they do not know.
_VERSION: Final = 7
_VOD: Final = "#EXT-X-PLAYLIST-TYPE:VOD"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_INTEGER: Final = re.compile(r"[0-9]{1,15}")
_DECIMAL: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,15}))?")
_SIZE: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})")
_ATTRIBUTE: Final = re.compile(r'([A-Z0-9-]+)=(?:"([^"\r\n]*)"|([^",\r\n]*))(?:,|$)')
# A URI line or attribute: no space, quote or control character, and no "#" at the start.
_URI: Final = re.compile(r"[!$-~][!#-~]*")
_QUOTABLE: Final = re.compile(r'[^"\x00-\x1f\x7f]*')


class M3u8Error(ValueError):
    """A text is not a playlist, or a value cannot be rendered as one."""


def render(playlist: MediaPlaylist | MultivariantPlaylist) -> str:
    """Render a playlist, with a line feed at the end.

    Raises:
        M3u8Error: a URI or name contains characters that a playlist cannot.
    """
    if isinstance(playlist, MediaPlaylist):
        lines = _media_lines(playlist)
    else:
        lines = _multivariant_lines(playlist)
    return "\n".join(["#EXTM3U", f"#EXT-X-VERSION:{_VERSION}", *lines, ""])


def render_with(playlist: MediaPlaylist, segments: Iterable[str]) -> str:
    """Render a playlist that has no segments with the rendered segments of `segment_texts`.

    For a playlist that is too long for one value: `SegmentLines` renders its segments in portions.
    """
    opening = "\n".join(["#EXTM3U", f"#EXT-X-VERSION:{_VERSION}", *_header_lines(playlist), ""])
    return "".join([opening, *segments, "#EXT-X-ENDLIST\n" if playlist.ended else ""])


def _media_lines(playlist: MediaPlaylist) -> Iterator[str]:
    yield from _header_lines(playlist)
    lines = SegmentLines()
    for segment in playlist.segments:
        yield lines.render_one(segment)
    if playlist.ended:
        yield "#EXT-X-ENDLIST"


def _header_lines(playlist: MediaPlaylist) -> Iterator[str]:
    yield f"#EXT-X-TARGETDURATION:{playlist.target}"
    yield f"#EXT-X-MEDIA-SEQUENCE:{playlist.sequence}"
    if playlist.whole:
        yield _VOD
    if playlist.discontinuities:
        yield f"#EXT-X-DISCONTINUITY-SEQUENCE:{playlist.discontinuities}"
    yield "#EXT-X-INDEPENDENT-SEGMENTS"


class SegmentLines:
    """Renders the segments of one playlist, in order."""

    def __init__(self) -> None:
        self._map_uri: str | None = None

    def render(self, segments: Iterable[PlaylistSegment]) -> str:
        """Render the next segments, each with a line feed at the end."""
        return "".join([f"{self.render_one(segment)}\n" for segment in segments])

    def render_one(self, segment: PlaylistSegment) -> str:
        """Render the next segment, without a line feed at the end.

        Raises:
            M3u8Error: a URI contains characters that a playlist cannot.
        """
        micros = rescale(segment.duration, VIDEO_SCALE, MICROSECONDS)
        # Six decimals distinguish all ticks of 90 000.
        lines = f"#EXTINF:{micros // MICROSECONDS}.{micros % MICROSECONDS:06d},\n"
        if segment.gap:
            lines = f"#EXT-X-GAP\n{lines}"
        if segment.wall_us is not None:
            lines = f"#EXT-X-PROGRAM-DATE-TIME:{utc_text(segment.wall_us)}\n{lines}"
        # A gap is never decoded: the next segment has its own init section.
        needed = None if segment.gap else segment.map_uri
        if needed is not None and needed != self._map_uri:
            self._map_uri = needed
            lines = f'#EXT-X-MAP:URI="{_uri(needed)}"\n{lines}'
        if segment.discontinuity:
            lines = f"#EXT-X-DISCONTINUITY\n{lines}"
        return lines + _uri(segment.uri)


def _multivariant_lines(playlist: MultivariantPlaylist) -> Iterator[str]:
    yield "#EXT-X-INDEPENDENT-SEGMENTS"
    for sound in playlist.sounds:
        default = "YES" if sound.default else "NO"
        yield (
            f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{_quoted(sound.group)}",'
            f'NAME="{_quoted(sound.name)}",AUTOSELECT=YES,DEFAULT={default},'
            f'CHANNELS="{sound.channels}",URI="{_uri(sound.uri)}"'
        )
    for each in playlist.subtitles:
        language = f'LANGUAGE="{_quoted(each.language)}",' if each.language else ""
        forced = "YES" if each.forced else "NO"
        yield (
            f'#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="{_quoted(each.group)}",'
            f'NAME="{_quoted(each.name)}",{language}AUTOSELECT=YES,DEFAULT=NO,'
            f'FORCED={forced},URI="{_uri(each.uri)}"'
        )
    for variant in playlist.variants:
        yield f"#EXT-X-STREAM-INF:{','.join(_variant_attributes(variant))}"
        yield _uri(variant.uri)


def _variant_attributes(variant: Variant) -> Iterator[str]:
    yield f"BANDWIDTH={variant.bandwidth}"
    if variant.average is not None:
        yield f"AVERAGE-BANDWIDTH={variant.average}"
    if variant.codecs:
        yield f'CODECS="{_quoted(",".join(variant.codecs))}"'
    if variant.width and variant.height:
        yield f"RESOLUTION={variant.width}x{variant.height}"
    if variant.frame_rate:
        yield f"FRAME-RATE={variant.frame_rate // 1000}.{variant.frame_rate % 1000:03d}"
    if variant.audio is not None:
        yield f'AUDIO="{_quoted(variant.audio)}"'
    if variant.subtitles is not None:
        yield f'SUBTITLES="{_quoted(variant.subtitles)}"'


def _uri(text: str) -> str:
    if not _URI.fullmatch(text):
        raise M3u8Error(f"no URI of a playlist: {text!r}")
    return text


def _quoted(text: str) -> str:
    if not _QUOTABLE.fullmatch(text):
        raise M3u8Error(f"cannot stand in quotes: {text!r}")
    return text


def utc_text(wall_us: int) -> str:
    """Return a wall-clock time as ISO 8601 with milliseconds, for EXT-X-PROGRAM-DATE-TIME.

    Raises:
        M3u8Error: the time is outside of the years 1 to 9999.
    """
    milliseconds = rescale(wall_us, MICROSECONDS, 1000)
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise M3u8Error(f"no time of a calendar: {wall_us} µs") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%S.").zfill(20) + f"{milliseconds % 1000:03d}Z"


def parse(text: str) -> MediaPlaylist | MultivariantPlaylist:
    """Parse a playlist.

    Raises:
        M3u8Error: the text is not a playlist, or one with byte ranges.
    """
    if len(text) > MAX_TEXT:
        raise M3u8Error(f"a playlist of {len(text)} characters")
    # Lines end with LF or CRLF only (4.1), so `str.splitlines` is wrong.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[0] != "#EXTM3U":
        raise M3u8Error("no #EXTM3U in front")
    if any(line.startswith(("#EXT-X-STREAM-INF:", "#EXT-X-MEDIA:")) for line in lines):
        return _parse_multivariant(lines[1:])
    return _MediaParser().parse(lines[1:])


class _MediaParser:
    """Collects the tags of a segment until its URI line."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._segments: list[PlaylistSegment] = []
        self._map_uri: str | None = None
        self._ended = self._whole = False
        self._duration: int | None = None
        self._discontinuity = False
        self._wall_us: int | None = None
        self._gap = False

    def parse(self, lines: list[str]) -> MediaPlaylist:
        for line in lines:
            if line.startswith("#"):
                self._whole = self._whole or line == _VOD
                name, _, value = line.partition(":")
                self._tag(name, value)
            elif line:
                self._segment(_uri(line))
        if "#EXT-X-TARGETDURATION" not in self._numbers:
            raise M3u8Error("no target duration")
        return MediaPlaylist(
            target=self._numbers["#EXT-X-TARGETDURATION"],
            sequence=self._numbers.get("#EXT-X-MEDIA-SEQUENCE", 0),
            discontinuities=self._numbers.get("#EXT-X-DISCONTINUITY-SEQUENCE", 0),
            segments=tuple(self._segments),
            ended=self._ended,
            whole=self._whole,
        )

    def _tag(self, name: str, value: str) -> None:
        match name:
            case (
                "#EXT-X-TARGETDURATION" | "#EXT-X-MEDIA-SEQUENCE" | "#EXT-X-DISCONTINUITY-SEQUENCE"
            ):
                self._numbers[name] = _integer(value)
            case "#EXTINF":
                self._duration = _decimal(value.partition(",")[0], VIDEO_SCALE)
            case "#EXT-X-DISCONTINUITY":
                self._discontinuity = True
            case "#EXT-X-GAP":
                self._gap = True
            case "#EXT-X-PROGRAM-DATE-TIME":
                self._wall_us = _wall_us(value)
            case "#EXT-X-MAP":
                attributes = _attributes(value)
                if "URI" not in attributes or "BYTERANGE" in attributes:
                    raise M3u8Error("an init section without a URI, or a range of one")
                self._map_uri = _uri(attributes["URI"])
            case "#EXT-X-BYTERANGE":
                raise M3u8Error("byte ranges are not known")
            case "#EXT-X-ENDLIST":
                self._ended = True
            case _:
                pass

    def _segment(self, uri: str) -> None:
        if self._duration is None:
            raise M3u8Error("a segment without a duration")
        self._segments.append(
            PlaylistSegment(
                uri=uri,
                duration=self._duration,
                map_uri=None if self._gap else self._map_uri,
                discontinuity=self._discontinuity,
                wall_us=self._wall_us,
                gap=self._gap,
            )
        )
        self._duration, self._wall_us = None, None
        self._discontinuity, self._gap = False, False


def _parse_multivariant(lines: list[str]) -> MultivariantPlaylist:
    variants: list[Variant] = []
    audio: list[AudioRendition] = []
    subtitles: list[SubtitleRendition] = []
    pending: dict[str, str] | None = None
    for line in lines:
        if line.startswith("#EXT-X-STREAM-INF:"):
            pending = _attributes(line.partition(":")[2])
        elif line.startswith("#EXT-X-MEDIA:"):
            attributes = _attributes(line.partition(":")[2])
            if attributes.get("TYPE") == "AUDIO" and "URI" in attributes:
                audio.append(_audio(attributes))
            elif attributes.get("TYPE") == "SUBTITLES":
                subtitles.append(_subtitles(attributes))
        elif line and not line.startswith("#"):
            if pending is None:
                raise M3u8Error("a URI without a variant")
            variants.append(_variant(_uri(line), pending))
            pending = None
    if pending is not None:
        raise M3u8Error("a variant without a URI")
    return MultivariantPlaylist(
        variants=tuple(variants), sounds=tuple(audio), subtitles=tuple(subtitles)
    )


def _audio(attributes: dict[str, str]) -> AudioRendition:
    return AudioRendition(
        uri=_uri(attributes["URI"]),
        group=_quoted(_required(attributes, "GROUP-ID")),
        name=_quoted(_required(attributes, "NAME")),
        channels=_integer(attributes.get("CHANNELS", "2").partition("/")[0]),
        default=attributes.get("DEFAULT") == "YES",
    )


def _subtitles(attributes: dict[str, str]) -> SubtitleRendition:
    return SubtitleRendition(
        uri=_uri(_required(attributes, "URI")),
        group=_required(attributes, "GROUP-ID"),
        name=_required(attributes, "NAME"),
        language=attributes.get("LANGUAGE", ""),
        forced=attributes.get("FORCED") == "YES",
    )


def _variant(uri: str, attributes: dict[str, str]) -> Variant:
    average = attributes.get("AVERAGE-BANDWIDTH")
    codecs = attributes.get("CODECS", "")
    size = _SIZE.fullmatch(attributes.get("RESOLUTION", "0x0"))
    if size is None:
        raise M3u8Error("no resolution")
    return Variant(
        uri=uri,
        bandwidth=_integer(_required(attributes, "BANDWIDTH")),
        average=None if average is None else _integer(average),
        codecs=tuple(_quoted(codecs).split(",")) if codecs else (),
        width=int(size[1]),
        height=int(size[2]),
        frame_rate=_decimal(attributes.get("FRAME-RATE", "0"), 1000),
        audio=attributes.get("AUDIO"),
        subtitles=attributes.get("SUBTITLES"),
    )


def _required(attributes: dict[str, str], name: str) -> str:
    if name not in attributes:
        raise M3u8Error(f"no {name}")
    return attributes[name]


def _attributes(text: str) -> dict[str, str]:
    """Parse an attribute list (4.2); quotes are removed."""
    attributes: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _ATTRIBUTE.match(text, place)
        if match is None or match[1] in attributes:
            raise M3u8Error("no attribute list")
        attributes[match[1]] = _quoted(match[3] if match[2] is None else match[2])
        place = match.end()
    return attributes


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise M3u8Error("no number")
    return int(text)


def _decimal(text: str, scale: int) -> int:
    """Parse a decimal number as ticks of `scale`, rounded to the nearest."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise M3u8Error("no decimal number")
    fraction = match[2] or ""
    unit = 10 ** len(fraction)
    return rescale(int(match[1]) * unit + int(fraction or 0), unit, scale)


def _wall_us(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:  # a zone is only recommended; servers mean UTC
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise M3u8Error("no date and time") from error
