"""Renders and parses HLS playlists as text (M3U8); the values are in `media.hls.playlist`.

Source: draft-pantos-hls-rfc8216bis, sections 4.1 (lines), 4.2 (attribute lists), 4.4 (tags).
Any text gives a playlist or `M3u8Error`. Byte ranges, keys and low-latency tags are not supported
(`delivery.playlists.hls` renders the latter): ranges and skipped segments are an error, because
ignoring them would change the meaning of the playlist; other unknown tags are ignored, as the
standard requires of clients.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from media.hls.playlist import (
    AudioRendition,
    MediaPlaylist,
    MultivariantPlaylist,
    PlaylistSegment,
    SubtitleRendition,
    Variant,
)
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale, since_epoch_us, utc

MAX_TEXT: Final = 4 << 20  # characters; a day of 2 s segments is 43 200 entries, below 4 MiB
# EXT-X-MAP in media playlists needs 6; fMP4 renditions are usual from 7 on. EXT-X-GAP would be
# 8, but clients ignore tags that they do not know.
VERSION: Final = 7
ENDLIST: Final = "#EXT-X-ENDLIST\n"
_VOD: Final = "#EXT-X-PLAYLIST-TYPE:VOD"

_INTEGER: Final = re.compile(r"[0-9]{1,15}")
_DECIMAL: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,15}))?")
_SIZE: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})")
_ATTRIBUTE: Final = re.compile(r'([A-Z0-9-]+)=(?:"([^"\r\n]*)"|([^",\r\n]*))(?:,|$)')
# A URI line or attribute: no space, quote or control character, and no "#" at the start.
_URI: Final = re.compile(r"[!$-~][!#-~]*")
_QUOTABLE: Final = re.compile(r'[^"\x00-\x1f\x7f]*')


class M3u8Error(ValueError):
    """A text is not a playlist, or a value cannot be rendered as one."""


def render(playlist: MediaPlaylist | MultivariantPlaylist, *, live: bool = False) -> str:
    """Render a playlist, with a line feed at the end; `live` as in `header`.

    Raises:
        M3u8Error: a URI or name contains characters that are invalid in a playlist.
    """
    if isinstance(playlist, MediaPlaylist):
        return render_with(playlist, (SegmentLines().render(playlist.segments),), live=live)
    return "\n".join(["#EXTM3U", f"#EXT-X-VERSION:{VERSION}", *_multivariant_lines(playlist), ""])


def render_with(playlist: MediaPlaylist, segments: Iterable[str], *, live: bool = False) -> str:
    """Render a playlist with already rendered segments in place of its own.

    For a playlist that is too long for one value: `SegmentLines` renders its segments in portions.
    """
    ending = ENDLIST if playlist.ended else ""
    return "".join([header(playlist, live=live), *segments, ending])


def header(playlist: MediaPlaylist, *, version: int = VERSION, live: bool = False) -> str:
    """Render the tags that precede the segments of a media playlist.

    `live`: include EXT-X-DISCONTINUITY-SEQUENCE from the beginning, because segments may be removed
    from a playlist with discontinuities only if it has that tag (6.2.2).
    """
    lines = [
        "#EXTM3U",
        f"#EXT-X-VERSION:{version}",
        f"#EXT-X-TARGETDURATION:{playlist.target}",
        f"#EXT-X-MEDIA-SEQUENCE:{playlist.sequence}",
    ]
    if playlist.whole:
        lines.append(_VOD)
    if playlist.discontinuities or live:
        lines.append(f"#EXT-X-DISCONTINUITY-SEQUENCE:{playlist.discontinuities}")
    lines += ["#EXT-X-INDEPENDENT-SEGMENTS", ""]
    return "\n".join(lines)


class Lines(msgspec.Struct, frozen=True, gc=False):
    """The rendered lines of consecutive segments, except for the first EXT-X-MAP.

    Whether that tag is needed between `lead` and `body` depends on the segments before. `map_uri`
    is the init section that the lines need first and `last_map_uri` the last one; both are None if
    they need none, and then `body` is empty.
    """

    lead: str
    map_uri: str | None = None
    body: str = ""
    last_map_uri: str | None = None


def segment_lines(segment: PlaylistSegment) -> Lines:
    """Render a segment of a playlist without parts.

    Raises:
        M3u8Error: a URI contains characters that are invalid in a playlist.
    """
    # A gap is never decoded: the next segment has its own init section.
    return opening_lines(
        None if segment.gap else segment.map_uri,
        discontinuity=segment.discontinuity,
        wall_us=segment.wall_us,
        after=closing_text(segment.uri, segment.duration, gap=segment.gap),
    )


def opening_lines(
    map_uri: str | None, *, discontinuity: bool, wall_us: int | None, after: str = ""
) -> Lines:
    """Render the tags at the beginning of a segment, followed by the text `after`.

    Raises:
        M3u8Error: a playlist cannot contain the URI or the time.
    """
    lead = "#EXT-X-DISCONTINUITY\n" if discontinuity else ""
    if wall_us is not None:
        after = f"#EXT-X-PROGRAM-DATE-TIME:{utc_text(wall_us)}\n{after}"
    if map_uri is None:
        return Lines(lead + after)
    return Lines(lead, uri_text(map_uri), after, map_uri)


def closing_text(uri: str, duration: int, *, gap: bool) -> str:
    """Render the lines at the end of a segment; `duration` is in ticks of 90 000 a second.

    Raises:
        M3u8Error: the URI contains characters that are invalid in a playlist.
    """
    lines = f"#EXTINF:{seconds_text(duration)},\n{uri_text(uri)}\n"
    return f"#EXT-X-GAP\n{lines}" if gap else lines


class SegmentLines:
    """Renders the segments of one playlist, in order; `map_uri` is the init section in force."""

    def __init__(self, map_uri: str | None = None) -> None:
        self.map_uri = map_uri

    def render(self, segments: Iterable[PlaylistSegment]) -> str:
        """Render the next segments, each with a line feed at the end.

        Raises:
            M3u8Error: a URI contains characters that are invalid in a playlist.
        """
        return self.join(map(segment_lines, segments))

    def join(self, portions: Iterable[Lines]) -> str:
        """Return the text of the next portions, with each EXT-X-MAP that is needed."""
        texts: list[str] = []
        for lines in portions:
            if lines.lead:
                texts.append(lines.lead)
            if lines.map_uri is not None:
                if lines.map_uri != self.map_uri:
                    texts.append(f'#EXT-X-MAP:URI="{lines.map_uri}"\n')
                texts.append(lines.body)
                self.map_uri = lines.last_map_uri
        return "".join(texts)


def merge_lines(portions: Iterable[Lines]) -> Lines:
    """Return consecutive portions as one."""
    lead: list[str] = []
    following = iter(portions)
    for lines in following:
        lead.append(lines.lead)
        if lines.map_uri is not None:
            rest = SegmentLines(lines.last_map_uri)
            body = lines.body + rest.join(following)
            return Lines("".join(lead), lines.map_uri, body, rest.map_uri)
    return Lines("".join(lead))


def _multivariant_lines(playlist: MultivariantPlaylist) -> Iterator[str]:
    yield "#EXT-X-INDEPENDENT-SEGMENTS"
    for sound in playlist.sounds:
        default = "YES" if sound.default else "NO"
        yield (
            f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{_quoted(sound.group)}",'
            f'NAME="{_quoted(sound.name)}",AUTOSELECT=YES,DEFAULT={default},'
            f'CHANNELS="{sound.channels}",URI="{uri_text(sound.uri)}"'
        )
    for subtitles in playlist.subtitles:
        language = f'LANGUAGE="{_quoted(subtitles.language)}",' if subtitles.language else ""
        forced = "YES" if subtitles.forced else "NO"
        yield (
            f'#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="{_quoted(subtitles.group)}",'
            f'NAME="{_quoted(subtitles.name)}",{language}AUTOSELECT=YES,DEFAULT=NO,'
            f'FORCED={forced},URI="{uri_text(subtitles.uri)}"'
        )
    for variant in playlist.variants:
        yield f"#EXT-X-STREAM-INF:{','.join(_variant_attributes(variant))}"
        yield uri_text(variant.uri)


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


@lru_cache  # most of a run's parts last the same
def seconds_text(ticks: int) -> str:
    """Return a duration in seconds; six decimals distinguish all ticks of 90 000 a second."""
    micros = rescale(ticks, VIDEO_SCALE, MICROSECONDS)
    return f"{micros // MICROSECONDS}.{micros % MICROSECONDS:06d}"


def uri_text(text: str) -> str:
    """Return a URI that is valid in a playlist.

    Raises:
        M3u8Error: it contains characters that are invalid in a playlist.
    """
    if not _URI.fullmatch(text):
        raise M3u8Error(f"no URI of a playlist: {text!r}")
    return text


def _quoted(text: str) -> str:
    if not _QUOTABLE.fullmatch(text):
        raise M3u8Error(f"cannot be written as a quoted string: {text!r}")
    return text


def utc_text(wall_us: int) -> str:
    """Return a wall-clock time as ISO 8601 with milliseconds, for EXT-X-PROGRAM-DATE-TIME.

    Raises:
        M3u8Error: the time is outside of the years 1 to 9999.
    """
    try:
        moment = utc(rescale(wall_us, MICROSECONDS, 1000) * 1000)
    except OverflowError as error:
        raise M3u8Error(f"no time of a calendar: {wall_us} µs") from error
    # `strftime` takes four times as long, which was most of a segment's rendering.
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse(text: str) -> MediaPlaylist | MultivariantPlaylist:
    """Parse a playlist.

    Raises:
        M3u8Error: the text is not a playlist, or has byte ranges.
    """
    lines = playlist_lines(text)
    if any(line.startswith(("#EXT-X-STREAM-INF:", "#EXT-X-MEDIA:")) for line in lines):
        return _parse_multivariant(lines)
    return MediaParser().parse(lines)


def playlist_lines(text: str) -> list[str]:
    """Return the lines after `#EXTM3U`.

    Raises:
        M3u8Error: the text is too long, or does not begin with that line.
    """
    if len(text) > MAX_TEXT:
        raise M3u8Error(f"a playlist of {len(text)} characters")
    # Lines end with LF or CRLF only (4.1), so `str.splitlines` is wrong.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[0] != "#EXTM3U":
        raise M3u8Error("no #EXTM3U in front")
    return lines[1:]


class MediaParser:
    """Collects the tags of a segment until its URI line; low-latency tags are for subclasses."""

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
        """Parse the lines after `#EXTM3U`.

        Raises:
            M3u8Error: they are not a media playlist.
        """
        for line in lines:
            if line.startswith("#"):
                self._whole = self._whole or line == _VOD
                name, _, value = line.partition(":")
                self.handle_tag(name, value)
            elif line:
                self.handle_uri(uri_text(line))
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

    def handle_tag(self, name: str, value: str) -> None:
        """Handle a tag line.

        Raises:
            M3u8Error: its value is invalid, or byte ranges or skipped segments are used.
        """
        match name:
            case (
                "#EXT-X-TARGETDURATION" | "#EXT-X-MEDIA-SEQUENCE" | "#EXT-X-DISCONTINUITY-SEQUENCE"
            ):
                self._numbers[name] = integer_of(value)
            case "#EXTINF":
                self._duration = decimal_of(value.partition(",")[0], VIDEO_SCALE)
            case "#EXT-X-DISCONTINUITY":
                self._discontinuity = True
            case "#EXT-X-GAP":
                self._gap = True
            case "#EXT-X-PROGRAM-DATE-TIME":
                self._wall_us = _wall_us(value)
            case "#EXT-X-MAP":
                attributes = attributes_of(value)
                if "URI" not in attributes or "BYTERANGE" in attributes:
                    raise M3u8Error("an init section without a URI, or a range of one")
                self._map_uri = uri_text(attributes["URI"])
            case "#EXT-X-BYTERANGE" | "#EXT-X-SKIP":
                raise M3u8Error("byte ranges and skipped segments are not known")
            case "#EXT-X-ENDLIST":
                self._ended = True
            case _:
                pass

    def handle_uri(self, uri: str) -> None:
        """Handle a URI line, which completes a segment.

        Raises:
            M3u8Error: the segment has no duration.
        """
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
            pending = attributes_of(line.partition(":")[2])
        elif line.startswith("#EXT-X-MEDIA:"):
            attributes = attributes_of(line.partition(":")[2])
            if attributes.get("TYPE") == "AUDIO" and "URI" in attributes:
                audio.append(_audio(attributes))
            elif attributes.get("TYPE") == "SUBTITLES":
                subtitles.append(_subtitles(attributes))
        elif line and not line.startswith("#"):
            if pending is None:
                raise M3u8Error("a URI without a variant")
            variants.append(_variant(uri_text(line), pending))
            pending = None
    if pending is not None:
        raise M3u8Error("a variant without a URI")
    return MultivariantPlaylist(
        variants=tuple(variants), sounds=tuple(audio), subtitles=tuple(subtitles)
    )


def _audio(attributes: dict[str, str]) -> AudioRendition:
    return AudioRendition(
        uri=uri_text(attributes["URI"]),
        group=_quoted(_required(attributes, "GROUP-ID")),
        name=_quoted(_required(attributes, "NAME")),
        channels=integer_of(attributes.get("CHANNELS", "2").partition("/")[0]),
        default=attributes.get("DEFAULT") == "YES",
    )


def _subtitles(attributes: dict[str, str]) -> SubtitleRendition:
    return SubtitleRendition(
        uri=uri_text(_required(attributes, "URI")),
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
        bandwidth=integer_of(_required(attributes, "BANDWIDTH")),
        average=None if average is None else integer_of(average),
        codecs=tuple(_quoted(codecs).split(",")) if codecs else (),
        width=int(size[1]),
        height=int(size[2]),
        frame_rate=decimal_of(attributes.get("FRAME-RATE", "0"), 1000),
        audio=attributes.get("AUDIO"),
        subtitles=attributes.get("SUBTITLES"),
    )


def _required(attributes: dict[str, str], name: str) -> str:
    if name not in attributes:
        raise M3u8Error(f"no {name}")
    return attributes[name]


def attributes_of(text: str) -> dict[str, str]:
    """Parse an attribute list (4.2); quotes are removed.

    Raises:
        M3u8Error: it is malformed, or has an attribute twice.
    """
    attributes: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _ATTRIBUTE.match(text, place)
        if match is None or match[1] in attributes:
            raise M3u8Error("no attribute list")
        attributes[match[1]] = _quoted(match[3] if match[2] is None else match[2])
        place = match.end()
    return attributes


def integer_of(text: str) -> int:
    """Parse a decimal integer without a sign (4.2).

    Raises:
        M3u8Error: the text is no such number.
    """
    if not _INTEGER.fullmatch(text):
        raise M3u8Error("no number")
    return int(text)


def decimal_of(text: str, scale: int) -> int:
    """Parse a decimal number as ticks of `scale`, rounded to the nearest.

    Raises:
        M3u8Error: the text is no decimal number.
    """
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
        return since_epoch_us(moment)
    except (ValueError, OverflowError) as error:
        raise M3u8Error("no date and time") from error
