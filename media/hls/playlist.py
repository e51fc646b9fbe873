"""HLS playlists as values; `media.hls.m3u8` renders and parses their text.

Durations are ticks of 90 000 a second, wall-clock times microseconds since the Unix epoch.
Source: draft-pantos-hls-rfc8216bis, sections 4.4 (tags) and 6.2.2 (live playlists).
"""

from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

# EXT-X-TARGETDURATION of every live playlist: no segment's rounded duration is longer, and the
# value must not change (4.4.3.1).
TARGET_SECONDS: Final = 4


class PlaylistSegment(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One segment of a media playlist.

    `map_uri` is its init section. `discontinuity`: it does not continue its predecessor. `wall_us`
    is the wall-clock time of its first sample, None if not given. `gap`: its media is missing and
    must not be requested (EXT-X-GAP, 4.4.4.7); it has no init section. `start` is its media time in
    ticks of 90 000 a second, which no text has; None if not known.
    """

    uri: str
    duration: int
    map_uri: str | None = None
    discontinuity: bool = False
    wall_us: int | None = None
    gap: bool = False
    start: int | None = None


class PartialSegment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a segment, as a low-latency playlist lists it (EXT-X-PART, 4.4.4.9).

    `duration` is in ticks of 90 000 a second. `independent`: it contains a sync sample. `gap`: its
    media is missing and must not be requested.
    """

    uri: str
    duration: int
    independent: bool
    gap: bool = False


class RenditionReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The newest part of another rendition (EXT-X-RENDITION-REPORT, 4.4.5.4).

    `uri` is its playlist, relative to the one with the report; `last_msn` and `last_part` are the
    Media Sequence Number and the index of its newest part. If it has no part, `last_msn` is its
    newest segment and `last_part` is None.
    """

    uri: str
    last_msn: int
    last_part: int | None = None


class MediaPlaylist(msgspec.Struct, frozen=True, kw_only=True):
    """A media playlist: the available segments of one rendition.

    `sequence` is the Media Sequence Number of the first segment; `discontinuities` is the number of
    discontinuities removed with their segments; `target` is in seconds. `whole`: the playlist never
    changes (EXT-X-PLAYLIST-TYPE of VOD, 4.4.3.5).
    """

    target: int = TARGET_SECONDS
    sequence: int = 0
    discontinuities: int = 0
    segments: tuple[PlaylistSegment, ...] = ()
    ended: bool = False
    whole: bool = False

    @property
    def duration(self) -> int:
        """The duration of all segments, in ticks of 90 000 a second."""
        return sum(segment.duration for segment in self.segments)

    def fits(self, duration: int) -> bool:
        """Return whether the rounded duration of a segment is within the target duration."""
        return 2 * duration < (2 * self.target + 1) * VIDEO_SCALE


class AudioRendition(msgspec.Struct, frozen=True, kw_only=True):
    """An audio rendition (EXT-X-MEDIA, TYPE=AUDIO); variants refer to its `group`."""

    uri: str
    group: str
    name: str
    channels: int
    default: bool = True


class SubtitleRendition(msgspec.Struct, frozen=True, kw_only=True):
    """A subtitle rendition (EXT-X-MEDIA, TYPE=SUBTITLES); variants refer to its `group`.

    `language` is a tag (RFC 5646), "" if unknown. `forced` subtitles are always shown, for example
    where a foreign language is spoken; others are shown on request.
    """

    uri: str
    group: str
    name: str
    language: str = ""
    forced: bool = False


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant of the presentation (EXT-X-STREAM-INF).

    `bandwidth` is the peak and `average` the average, both in bit/s and including the audio
    rendition. `frame_rate` is in frames per 1000 s: 29 970 is written 29.970. `audio` is a group of
    audio renditions; None if the variant contains its audio or has none. `subtitles` likewise.
    """

    uri: str
    bandwidth: int
    average: int | None = None
    codecs: tuple[str, ...] = ()
    width: int = 0
    height: int = 0
    frame_rate: int = 0
    audio: str | None = None
    subtitles: str | None = None


class MultivariantPlaylist(msgspec.Struct, frozen=True, kw_only=True):
    """A multivariant playlist; players start with the first variant."""

    variants: tuple[Variant, ...]
    sounds: tuple[AudioRendition, ...] = ()
    subtitles: tuple[SubtitleRendition, ...] = ()
