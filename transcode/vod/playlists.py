"""The playlists of a VOD asset, which list the segments of all its pieces in order.

Pieces that were encoded separately share one init section if theirs are equal; if not, all
renditions have a discontinuity at the same segment.
"""

import asyncio
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Final

import msgspec

from delivery.run.variants import RenditionMeasure, build_multivariant, frame_rate
from media.hls.m3u8 import render
from media.hls.playlist import (
    MediaPlaylist,
    MultivariantPlaylist,
    PlaylistSegment,
    SubtitleRendition,
)
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from storage.catalog.records.transcoding import MadeSubtitles
from storage.objects.addresses import video
from storage.objects.base import Objects
from transcode.vod.rendition_store import MadePiece, MadeRendition, MadeSegment, OutOfStep

_INDEX: Final = "index.m3u8"
_GROUP: Final = "subtitles"
# A shorter segment is a poor measure of the frame rate.
_STEADY: Final = VIDEO_SCALE // 2
_SIMILAR: Final = Fraction(51, 50)


class _StoredSegment(msgspec.Struct, frozen=True):
    """A segment, the folder that holds it, and the digest of its init section."""

    folder: str
    digest: str
    segment: MadeSegment


class VodPlaylists(msgspec.Struct, frozen=True, kw_only=True):
    """The media playlists of a video by rendition, and its multivariant playlist.

    `length` is that of the longest rendition, in ticks of 90 000 a second; `sizes` are the bytes of
    each rendition's media; `discontinuities` are the numbers of the segments that begin one.
    """

    media: dict[str, MediaPlaylist]
    multivariant: MultivariantPlaylist
    length: int
    sizes: dict[str, int]
    discontinuities: frozenset[int]


def vod_playlists(
    media: str,
    rungs: tuple[Rendition, ...],
    pieces: Sequence[MadePiece],
    *,
    audible: bool = True,
    channels: int = 2,
    subtitles: Sequence[MadeSubtitles] = (),
) -> VodPlaylists:
    """Return the playlists for the folder `media`; `rungs` are the video rungs.

    If it is not `audible` there is no audio rendition. Subtitles are listed only if there is video.

    Raises:
        OutOfStep: the renditions do not have the same segments.
    """
    names = (*(rung.name for rung in rungs), *((AUDIO_RENDITION,) if audible else ()))
    by_name = {name: _in_order(name, pieces) for name in names}
    expected = [each.segment.sequence for each in by_name[names[0]]]
    for name, stored in by_name.items():
        numbers = [each.segment.sequence for each in stored]
        if (
            not numbers
            or numbers != expected
            or numbers != list(range(numbers[0], numbers[0] + len(numbers)))
        ):
            raise OutOfStep(f"{name} has {len(numbers)} segments, not {len(expected)}")
    seams = frozenset(seam for stored in by_name.values() for seam in _discontinuities(stored))
    playlists = {name: _media_playlist(media, name, by_name[name], seams) for name in names}
    measures = {name: _measure(by_name[name], playlists[name].target) for name in names}
    codecs = {
        each.name: each.codecs
        for piece in pieces
        for each in piece.renditions
        if each.name in names
    }
    variants = build_multivariant(media, rungs, measures, codecs, None)
    sounds = tuple(msgspec.structs.replace(sound, channels=channels) for sound in variants.sounds)
    length = max(measure.ticks for measure in measures.values())
    variants = msgspec.structs.replace(variants, sounds=sounds)
    if subtitles and rungs:
        playlists |= {each.rendition: _subtitle_playlist(media, each, length) for each in subtitles}
        variants = _with_subtitles(media, variants, subtitles, length)
    return VodPlaylists(
        media=playlists,
        multivariant=variants,
        length=length,
        sizes={name: sum(each.size for each in _pieces_of(name, pieces)) for name in names},
        discontinuities=seams,
    )


async def write_playlists(
    objects: Objects,
    hash_: str,
    media: str,
    rungs: tuple[Rendition, ...],
    pieces: Sequence[MadePiece],
    *,
    audible: bool,
    channels: int,
    subtitles: Sequence[MadeSubtitles] = (),
) -> tuple[VodPlaylists, dict[str, int]]:
    """Build and store the playlists of a video (see `vod_playlists`, `store_playlists`).

    Those of a video of 12 h take 2 s to build, so a thread does it.

    Raises:
        OutOfStep: the renditions do not have the same segments.
        ObjectError: one could not be stored.
    """
    build = partial(
        vod_playlists,
        media,
        rungs,
        pieces,
        audible=audible,
        channels=channels,
        subtitles=subtitles,
    )
    playlists = await asyncio.to_thread(build)
    return playlists, await store_playlists(objects, hash_, media, playlists)


async def store_playlists(
    objects: Objects, hash_: str, media: str, playlists: VodPlaylists
) -> dict[str, int]:
    """Store the playlists, the multivariant one last, because it names the others.

    Returns their sizes in bytes by rendition, and that of the multivariant playlist by "".

    Raises:
        ObjectError: one could not be stored; those already stored are of no use.
    """
    folder = f"{video(hash_)}/{media}"
    sizes: dict[str, int] = {}
    for name, playlist in playlists.media.items():
        data = (await asyncio.to_thread(render, playlist)).encode()
        await objects.put(f"{folder}/{name}/{_INDEX}", data)
        sizes[name] = len(data)
    data = render(playlists.multivariant).encode()
    await objects.put(f"{folder}/{_INDEX}", data)
    return {**sizes, "": len(data)}


def _pieces_of(name: str, pieces: Sequence[MadePiece]) -> list[MadeRendition]:
    return [each for piece in pieces for each in piece.renditions if each.name == name]


def _in_order(name: str, pieces: Sequence[MadePiece]) -> list[_StoredSegment]:
    stored = [
        _StoredSegment(piece.folder, each.inits[segment.init], segment)
        for piece in pieces
        for each in piece.renditions
        if each.name == name
        for segment in each.segments
    ]
    return sorted(stored, key=lambda stored_segment: stored_segment.segment.sequence)


def _discontinuities(segments: list[_StoredSegment]) -> list[int]:
    """Return the numbers of the segments that do not continue their predecessors."""
    digest = segments[0].digest
    numbers: list[int] = []
    for stored in segments:
        if stored.segment.discontinuity or stored.digest != digest:
            numbers.append(stored.segment.sequence)
        digest = stored.digest
    return numbers


def _measure(stored_segments: list[_StoredSegment], target: int) -> RenditionMeasure:
    """Return the bit rates and the frame rate of a rendition with that target duration.

    The peak is that of contiguous segments that last 0.5 to 1.5 target durations (rfc8216bis, 3).
    The frame rate is that of the fastest segments (4.4.6.2): in others a picture is held, or some
    are missing.
    """
    segments = [stored.segment for stored in stored_segments]
    frames, span = _fastest(segments)
    measure = RenditionMeasure(
        size=sum(segment.size for segment in segments),
        ticks=sum(segment.duration for segment in segments),
        peak=_peak(segments, target),
        frames=frames,
        span=span,
    )
    return msgspec.structs.replace(measure, rate=frame_rate(measure, 0))


def _peak(segments: Sequence[MadeSegment], target: int) -> int:
    """Return the peak segment bit rate, in bit/s rounded up; 0 if no segments last long enough."""
    peak = 0
    for first in range(len(segments)):
        size = length = 0
        for last in range(first, len(segments)):
            size, length = size + segments[last].size, length + segments[last].duration
            if 2 * length > 3 * target * VIDEO_SCALE:
                break
            if 2 * length >= target * VIDEO_SCALE:
                peak = max(peak, _bit_rate(size, length))
    return peak


def _bit_rate(size: int, length: int) -> int:
    return -(-8 * size * VIDEO_SCALE // max(1, length))


def _fastest(segments: Sequence[MadeSegment]) -> tuple[int, int]:
    """Return the frames and ticks of the segments that have about the most frames a second."""
    long_enough = [segment for segment in segments if segment.duration >= _STEADY] or list(segments)
    highest = max(
        (Fraction(each.frames, max(1, each.duration)) for each in long_enough), default=Fraction(0)
    )
    fast = [each for each in long_enough if each.frames * _SIMILAR >= highest * each.duration]
    return sum(each.frames for each in fast), sum(each.duration for each in fast)


def _media_playlist(
    media: str, name: str, stored_segments: list[_StoredSegment], seams: frozenset[int]
) -> MediaPlaylist:
    maps: dict[str, str] = {}
    listed: list[PlaylistSegment] = []
    for stored in stored_segments:
        within = "" if stored.folder == media else f"../../{stored.folder}/{name}/"
        segment = stored.segment
        uri = maps.setdefault(stored.digest, f"{within}init-{segment.init}.mp4")
        listed.append(
            PlaylistSegment(
                uri=f"{within}{segment.sequence}.m4s",
                duration=segment.duration,
                map_uri=uri,
                discontinuity=segment.sequence in seams,
            )
        )
    return MediaPlaylist(target=_target(listed), segments=tuple(listed), ended=True, whole=True)


def _subtitle_playlist(media: str, track: MadeSubtitles, length: int) -> MediaPlaylist:
    """Return the playlist of a subtitle track: its segments, or one as long as the video."""
    within = "" if track.folder == media else f"../../{track.folder}/{track.rendition}/"
    step = rescale(track.segment_ms, MILLISECONDS, VIDEO_SCALE)
    # The video may be shorter or longer than it seemed when the segments were made.
    count = min(track.segments, -(-length // step)) if step else 0
    listed = [
        PlaylistSegment(uri=f"{within}{number}.vtt", duration=step) for number in range(1, count)
    ]
    rest = PlaylistSegment(uri=f"{within}{count}.vtt", duration=length - max(count - 1, 0) * step)
    listed.append(rest)
    return MediaPlaylist(target=_target(listed), segments=tuple(listed), ended=True, whole=True)


def _with_subtitles(
    media: str, variants: MultivariantPlaylist, subtitles: Sequence[MadeSubtitles], length: int
) -> MultivariantPlaylist:
    """Add the subtitles, whose largest track counts towards the bit rates of each variant."""
    subtitle_rate = _bit_rate(max(each.size for each in subtitles), length)
    peak = max(subtitle_rate, *(each.peak for each in subtitles))
    return msgspec.structs.replace(
        variants,
        variants=tuple(
            msgspec.structs.replace(
                variant,
                subtitles=_GROUP,
                bandwidth=variant.bandwidth + peak,
                average=None if variant.average is None else variant.average + subtitle_rate,
            )
            for variant in variants.variants
        ),
        subtitles=tuple(
            SubtitleRendition(
                uri=f"{media}/{each.rendition}/{_INDEX}",
                group=_GROUP,
                name=each.title,
                language=each.language,
                forced=each.forced,
            )
            for each in subtitles
        ),
    )


def _target(listed: list[PlaylistSegment]) -> int:
    """Return the least target duration that all segments fit when rounded (rfc8216bis, 4.4.3.1)."""
    longest = max(segment.duration for segment in listed)
    return max(1, (2 * longest + VIDEO_SCALE) // (2 * VIDEO_SCALE))
