"""HLS playlists as values: what they say, not how they are written (see `media.hls.m3u8`).

Durations are ticks of 90 000 a second, wall-clock times microseconds since the Unix epoch.
Source: draft-pantos-hls-rfc8216bis, sections 4.4 (tags) and 6.2.2 (live playlists).
"""

from typing import Final

import msgspec

from media.ticks import VIDEO_SCALE

__all__ = [
    "TARGET_SECONDS",
    "AudioRendition",
    "MediaPlaylist",
    "MultivariantPlaylist",
    "PlaylistSegment",
    "SubtitleRendition",
    "Variant",
]

# EXT-X-TARGETDURATION of every live playlist: no segment is rounded to more, and the value must
# not change while a playlist lives (4.4.3.1).
TARGET_SECONDS: Final = 4


class PlaylistSegment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A segment as a playlist names it.

    `map_uri` is its init section. `discontinuity` says that it does not continue its predecessor;
    `wall_us` is the wall-clock time of its first sample, None where it is not told. `gap` says that
    its media are missing and must not be asked for (EXT-X-GAP, 4.4.4.7); it has no init section.
    """

    uri: str
    duration: int
    map_uri: str | None = None
    discontinuity: bool = False
    wall_us: int | None = None
    gap: bool = False


class MediaPlaylist(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one rendition that can be played now.

    `sequence` is the Media Sequence Number of the first segment; `discontinuities` counts the
    discontinuities that left the playlist with their segments; `target` is in seconds. `whole` says
    that nothing of it will ever change (EXT-X-PLAYLIST-TYPE of VOD, 4.4.3.5).
    """

    target: int = TARGET_SECONDS
    sequence: int = 0
    discontinuities: int = 0
    segments: tuple[PlaylistSegment, ...] = ()
    ended: bool = False
    whole: bool = False

    @property
    def duration(self) -> int:
        """The length of all that is listed, in ticks of 90 000 a second."""
        return sum(segment.duration for segment in self.segments)

    def append(self, segment: PlaylistSegment, *, drop: int = 0) -> "MediaPlaylist":
        """Return the next window: `segment` at the end, the `drop` oldest ones gone.

        The caller says how many go, for all playlists of a presentation show the same stretch.

        Raises:
            ValueError: the playlist has ended, or has no `drop` segments.
        """
        if self.ended:
            raise ValueError("a playlist that ended takes no segment")
        if not 0 <= drop <= len(self.segments):
            raise ValueError(f"{drop} segments to drop out of {len(self.segments)}")
        gone = self.segments[:drop]
        return msgspec.structs.replace(
            self,
            sequence=self.sequence + drop,
            discontinuities=self.discontinuities + sum(old.discontinuity for old in gone),
            segments=(*self.segments[drop:], segment),
        )

    def end(self) -> "MediaPlaylist":
        """Return the playlist with nothing more to come (EXT-X-ENDLIST)."""
        return msgspec.structs.replace(self, ended=True)

    def fits(self, duration: int) -> bool:
        """Say whether a segment of `duration` is within the target duration, as rounded."""
        return 2 * duration < (2 * self.target + 1) * VIDEO_SCALE


class AudioRendition(msgspec.Struct, frozen=True, kw_only=True):
    """An audio rendition (EXT-X-MEDIA, TYPE=AUDIO): `group` is how variants refer to it."""

    uri: str
    group: str
    name: str
    channels: int
    default: bool = True


class SubtitleRendition(msgspec.Struct, frozen=True, kw_only=True):
    """Words to be read along (EXT-X-MEDIA, TYPE=SUBTITLES): `group` is how variants refer to them.

    `language` is a tag (RFC 5646), "" where it is not known. `forced` are for all who watch, say
    where a foreign language is spoken; the others show for who asks for them.
    """

    uri: str
    group: str
    name: str
    language: str = ""
    forced: bool = False


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to play the presentation (EXT-X-STREAM-INF).

    `bandwidth` is the peak and `average` the average, both in bit/s and with the sound that plays
    along. `frame_rate` is in frames per 1000 s, so that 29 970 is written 29.970. `audio` names a
    group of sounds; None where the variant carries its own or has none. `subtitles` likewise.
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
    """The variants of a presentation; a player may begin with the first."""

    variants: tuple[Variant, ...]
    audio: tuple[AudioRendition, ...] = ()
    subtitles: tuple[SubtitleRendition, ...] = ()
