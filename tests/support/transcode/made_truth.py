"""Compares everything that a video's playlists declare with the decoded media.

`false_claims` decodes every segment of every rendition. Times are in seconds.
"""

import asyncio
import io
from itertools import pairwise
from typing import Final

import av
import msgspec
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

from media.hls.playlist import MediaPlaylist, MultivariantPlaylist, PlaylistSegment, Variant
from media.ticks import MICROSECONDS, VIDEO_SCALE
from storage.catalog.records.videos import WholeVideo
from tests.support.engine.upload_files import picture_size
from tests.support.transcode.transcode_fixture import VodFixture

# Segments contain whole pictures and whole audio frames.
_SLACK: Final = 0.05
# Bit rates are rounded up to three digits.
_ROUNDED: Final = 1.011
_RATE_SLACK: Final = 0.05


class _Decoded(msgspec.Struct, frozen=True):
    """A decoded segment: the begin of its first frame, the end of its last, and its frames.

    Where pictures are reordered, the last one may be held by the sample that is decoded last.
    """

    begin: float
    end: float
    frames: int
    step: float  # the mean distance of two frames
    size: tuple[int, int] | None


class _Rendition(msgspec.Struct, frozen=True):
    """A rendition as declared and as decoded."""

    name: str
    playlist: MediaPlaylist
    sizes: list[int]
    segments: list[_Decoded]

    @property
    def peak(self) -> float:
        return peak_rate(self.playlist, self.sizes)

    @property
    def average(self) -> float:
        return 8 * sum(self.sizes) * VIDEO_SCALE / max(1, self.playlist.duration)


async def false_claims(
    vod: VodFixture, whole: WholeVideo, *, seconds: float, sound: bool, picture: bool
) -> list[str]:
    """Return the false declarations of a completed video, one sentence each.

    `seconds` is its expected length; `sound` and `picture` are what it should have.
    """
    variants = await vod.variants(whole)
    uris = [rendition.uri for rendition in (*variants.variants, *variants.sounds)]
    renditions = {uri: await _rendition(vod, whole, uri) for uri in dict.fromkeys(uris)}
    claims: list[str] = []
    for rendition in renditions.values():
        claims += [f"{rendition.name}: {claim}" for claim in _false_segments(rendition)]
    claims += _false_variants(variants, renditions, await _subtitle_peak(vod, whole, variants))
    claims += _false_lengths(whole, list(renditions.values()), seconds)
    if bool(variants.sounds) is not (sound and picture):
        claims.append(f"{len(variants.sounds)} audio renditions")
    return [*claims, *await _false_posters(vod, whole, variants)]


def peak_rate(playlist: MediaPlaylist, sizes: list[int]) -> float:
    """Return the peak segment bit rate of a playlist (RFC 8216, section 4.1).

    It is the highest rate of any contiguous segments of 0.5 to 1.5 target durations.
    """
    peak = 0.0
    for first in range(len(sizes)):
        size = length = 0
        for index in range(first, len(sizes)):
            size, length = size + sizes[index], length + playlist.segments[index].duration
            if 2 * length > 3 * playlist.target * VIDEO_SCALE:
                break
            if 2 * length >= playlist.target * VIDEO_SCALE:
                peak = max(peak, 8 * size * VIDEO_SCALE / length)
    return peak


async def _rendition(vod: VodFixture, whole: WholeVideo, uri: str) -> _Rendition:
    playlist = await vod.playlist(whole, uri)
    segments: list[_Decoded] = []
    sizes: list[int] = []
    for segment in playlist.segments:
        init, data = await vod.segment_bytes(whole, uri, segment)
        sizes.append(len(data))
        segments.append(await asyncio.to_thread(_decoded, init + data))
    return _Rendition(uri.split("/")[-2], playlist, sizes, segments)


def _decoded(data: bytes) -> _Decoded:
    with av.open(io.BytesIO(data), "r") as container:
        (stream,) = container.streams
        packets = list(container.demux(stream))
        frames = [
            frame
            for packet in packets
            for frame in packet.decode()
            if isinstance(frame, VideoFrame | AudioFrame)
        ]
    base = stream.time_base
    assert base is not None
    times = [frame.pts or 0 for frame in frames]
    first, last = frames[0], frames[-1]
    lasting = sum(packet.duration or 0 for packet in packets)
    return _Decoded(
        begin=float(times[0] * base),
        end=float(max(times[-1] + last.duration, times[0] + lasting) * base),
        frames=len(frames),
        step=float((times[-1] - times[0]) * base) / max(1, len(times) - 1),
        size=(first.width, first.height) if isinstance(first, VideoFrame) else None,
    )


def _false_segments(rendition: _Rendition) -> list[str]:
    claims: list[str] = []
    listed: list[PlaylistSegment] = list(rendition.playlist.segments)
    begins = [each.begin for each in rendition.segments]
    last = rendition.segments[-1]
    # A picture is shown until the next one, regardless of its duration.
    lengths = [following - begin for begin, following in pairwise(begins)] + [last.end - last.begin]
    for number, (segment, length) in enumerate(zip(listed, lengths, strict=True)):
        claimed = segment.duration / VIDEO_SCALE
        slack = max(_SLACK, last.step) if number == len(listed) - 1 else _SLACK
        if abs(claimed - length) > slack:
            claims.append(f"segment {number} claims {claimed:.3f} s and has {length:.3f} s")
        if not rendition.playlist.fits(segment.duration):
            claims.append(f"segment {number} exceeds the target {rendition.playlist.target} s")
    return claims


def _false_variants(
    variants: MultivariantPlaylist, renditions: dict[str, _Rendition], subtitles: float
) -> list[str]:
    sounds = [renditions[each.uri] for each in variants.sounds]
    claims: list[str] = []
    for variant in variants.variants:
        each = renditions[variant.uri]
        peak = sum(media.peak for media in (each, *sounds)) + subtitles
        # A short last segment counts for the average only.
        most = sum(max(media.peak, media.average) for media in (each, *sounds)) + subtitles
        if not peak <= variant.bandwidth <= _ROUNDED * most:
            claims.append(f"{each.name}: BANDWIDTH is {variant.bandwidth}, the peak is {peak:.0f}")
        claims += [f"{each.name}: {claim}" for claim in _false_tracks(variant, each, variants)]
    return claims


def _false_tracks(
    variant: Variant, rendition: _Rendition, variants: MultivariantPlaylist
) -> list[str]:
    claims: list[str] = []
    kinds = {"avc1": rendition.segments[0].size is not None}
    kinds["mp4a"] = bool(variants.sounds) or not kinds["avc1"]
    for kind, expected in kinds.items():
        if any(codec.startswith(kind) for codec in variant.codecs) is not expected:
            claims.append(f"CODECS is {variant.codecs}")
    sizes = {each.size for each in rendition.segments}
    if sizes != {(variant.width, variant.height) if kinds["avc1"] else None}:
        claims.append(f"RESOLUTION is {variant.width}x{variant.height}, pictures are {sizes}")
    steps = [each.step for each in rendition.segments if each.frames > 2]
    if kinds["avc1"] and steps:
        rate, fastest = variant.frame_rate / 1000, 1 / min(steps)
        # The declared rate is frames by duration, with an error of one frame per segment.
        if abs(rate - fastest) > _RATE_SLACK * fastest + 1 / rendition.playlist.target:
            claims.append(f"FRAME-RATE is {rate:.3f}, pictures come at {fastest:.3f}")
    return claims


def _false_lengths(whole: WholeVideo, renditions: list[_Rendition], seconds: float) -> list[str]:
    length = whole.video.length_us / MICROSECONDS
    longest = max(each.playlist.duration for each in renditions) / VIDEO_SCALE
    claims: list[str] = []
    if abs(length - longest) > 0.1:
        claims.append(f"the length is {length:.3f} s, the playlists have {longest:.3f} s")
    if abs(length - seconds) > max(0.1, seconds / 20):
        claims.append(f"the length is {length:.3f} s instead of {seconds:.3f} s")
    return claims


async def _subtitle_peak(
    vod: VodFixture, whole: WholeVideo, variants: MultivariantPlaylist
) -> float:
    peak = 0.0
    for each in variants.subtitles:
        playlist = await vod.playlist(whole, each.uri)
        sizes = [
            len((await vod.segment_bytes(whole, each.uri, segment))[1])
            for segment in playlist.segments
        ]
        peak = max(peak, peak_rate(playlist, sizes))
    return peak


async def _false_posters(
    vod: VodFixture, whole: WholeVideo, variants: MultivariantPlaylist
) -> list[str]:
    """Check that each rung has a poster of its size, and audio-only videos have one."""
    names = [name for name in await vod.stored_objects(whole.video.hash) if "/poster-" in name]
    sizes = {picture_size(await vod.objects.get(name)) for name in names}
    rungs = {(each.width, each.height) for each in variants.variants if each.width}
    if not sizes or (rungs and sizes != rungs):
        return [f"the posters are {sorted(sizes)}"]
    return []
