"""A short video whose init section changes on the way, once to another encoder's and once back.

Two encoders make the same 12 s of the clock with the same codec, size, times and keyframes, but
other parameter sets. The second one's segments stand in the middle of the first one's, so that the
timeline goes on as if there were one encoder. It comes in two packings: ours, with the parameter
sets before every keyframe, too, and sound in a rendition of its own; and the fragments that
ffmpeg's own muxer writes, pictures alone.
"""

import io
import subprocess
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
from av.video.plane import VideoPlane

from bench.latency.clock import WRAP_MS, draw
from bench.tools import tool
from media.codecs.avc import AvcConfig, covering_codecs
from media.codecs.parameter_sets import ParameterSets
from media.hls.fmp4 import Sample, audio_init, fragment, video_init
from media.hls.m3u8 import render
from media.hls.playlist import (
    AudioRendition,
    MediaPlaylist,
    MultivariantPlaylist,
    PlaylistSegment,
    Variant,
)
from media.ticks import AUDIO_SCALE, ORIGIN_SECONDS, VIDEO_SCALE
from transcode.engine.testsource.testcard import TestCard

SIZE: Final = (640, 360)
FPS: Final = 30
SEGMENT_SECONDS: Final = 2
# Which encoder made each segment. The other one is in between, as where a source's own packets
# are followed by pictures that are encoded, and by the next source's packets.
_CHANGED: Final = "aabbaa"
_UNCHANGED: Final = "aaaaaa"
SECONDS: Final = SEGMENT_SECONDS * len(_CHANGED)
SEAMS: Final = (4, 8)  # seconds
# How an init section is followed by another one.
CHANGES: Final = ("none", "plain", "discontinuity")
PACKINGS: Final = ("ours", "ffmpeg")
# Of equal levels, but another profile, number of reference pictures, and other tools.
_ENCODERS: Final = {
    "a": ("-profile:v", "main", "-preset", "veryfast", "-refs", "1"),
    "b": ("-profile:v", "high", "-preset", "fast", "-refs", "4"),
}
_COMMON: Final = (
    "-c:v libx264 -pix_fmt yuv420p -level 3.1 -b:v 1M -maxrate 1M -bufsize 1M -bf 2 "
    f"-g {SEGMENT_SECONDS * FPS} -keyint_min {SEGMENT_SECONDS * FPS} -sc_threshold 0 "
    f"-f hls -hls_time {SEGMENT_SECONDS} -hls_segment_type fmp4 -hls_playlist_type vod"
).split()
_ORIGIN: Final = ORIGIN_SECONDS * VIDEO_SCALE
_SEGMENT: Final = SEGMENT_SECONDS * VIDEO_SCALE
_BANDWIDTH: Final = 1_500_000


def make_films(folder: Path, began: int) -> dict[tuple[str, str], str]:
    """Make all films in a folder; return their playlists, relative to it, by packing and change.

    The first picture shows the time `began`, in ms since the epoch.

    Raises:
        ToolMissing: ffmpeg is not installed.
    """
    clips = folder / "ffmpeg"
    clips.mkdir()
    _encode(clips, began)
    ours = folder / "ours"
    ours.mkdir()
    configs = {encoder: _pack(clips, ours, encoder) for encoder in _ENCODERS}
    _pack_sound(ours)
    codecs = covering_codecs(configs["a"].codecs, configs["b"].codecs)
    films: dict[tuple[str, str], str] = {}
    for packing in PACKINGS:
        for change in CHANGES:
            name = f"{packing}-{change}.m3u8"
            (folder / packing / name).write_text(render(_pictures(change)))
            films[packing, change] = f"{packing}/{name}"
    for change in CHANGES:
        (ours / f"sound-{change}.m3u8").write_text(render(_sound(change)))
        films["ours", change] = name = f"{change}.m3u8"
        (folder / name).write_text(render(_multivariant(change, codecs)))
    return films


def _encode(folder: Path, began: int) -> None:
    """Let both encoders make the pictures, and ffmpeg's muxer their segments."""
    width, height = SIZE
    raw = f"-f rawvideo -pix_fmt yuv420p -s {width}x{height} -r {FPS} -i -".split()
    command = [tool("ffmpeg", "ffmpeg"), "-v", "error", "-nostats", *raw]
    for encoder, options in _ENCODERS.items():
        names = [
            "-hls_fmp4_init_filename", f"init-{encoder}.mp4",
            "-hls_segment_filename", str(folder / f"{encoder}%d.m4s"),
        ]  # fmt: skip
        command += ["-map", "0:v", *_COMMON, *options, *names, str(folder / f"{encoder}.m3u8")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for picture in _drawn(began):
            process.stdin.write(picture)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _drawn(began: int) -> Iterator[bytes]:
    """Draw the pictures, as planes without padding."""
    card = TestCard(*SIZE, FPS)
    for number in range(SECONDS * FPS):
        picture = card.frame(number)
        plane = picture.planes[0]
        clock = (began + number * 1000 // FPS) % WRAP_MS
        draw(memoryview(plane), plane.line_size, *SIZE, clock)
        yield b"".join(map(_rows, picture.planes))


def _rows(plane: VideoPlane) -> bytes:
    data = bytes(plane)
    starts = range(0, plane.height * plane.line_size, plane.line_size)
    return b"".join(data[start : start + plane.width] for start in starts)


def _pack(clips: Path, folder: Path, encoder: str) -> AvcConfig:
    """Pack an encoder's segments as ours; return its configuration."""
    init = (clips / f"init-{encoder}.mp4").read_bytes()
    config = data = None
    for number in range(len(_CHANGED)):
        chunk = init + (clips / f"{encoder}{number}.m4s").read_bytes()
        with av.open(io.BytesIO(chunk), "r", format="mp4") as container:
            stream = container.streams.video[0]
            data = bytes(stream.codec_context.extradata or b"")
            config = AvcConfig.parse(data)
            sets = ParameterSets(config)
            samples = [
                Sample(
                    dts=_ORIGIN + _ticks(packet.dts, packet, VIDEO_SCALE),
                    pts=_ORIGIN + _ticks(packet.pts, packet, VIDEO_SCALE),
                    duration=VIDEO_SCALE // FPS,
                    key=packet.is_keyframe,
                    data=sets.complete(bytes(packet)) if packet.is_keyframe else bytes(packet),
                )
                for packet in container.demux(stream)
                if packet.size
            ]
        (folder / f"{encoder}{number}.m4s").write_bytes(fragment(samples, number=number + 1))
    assert config is not None and data is not None
    width, height = SIZE
    (folder / f"init-{encoder}.mp4").write_bytes(
        video_init(config=data, width=width, height=height)
    )
    return config


def _pack_sound(folder: Path) -> None:
    """Pack a quiet tone, in segments as long as the pictures'."""
    command = [
        tool("ffmpeg", "ffmpeg"), "-v", "error", "-f", "lavfi", "-i",
        f"sine=440:r={AUDIO_SCALE}:d={SECONDS},volume=-30dB", "-ac", "2", "-c:a", "aac", "-f",
        "mp4", "-movflags", "frag_keyframe+empty_moov", "-",
    ]  # fmt: skip
    made = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    with av.open(io.BytesIO(made), "r", format="mp4") as container:
        stream = container.streams.audio[0]
        config = bytes(stream.codec_context.extradata or b"")
        packets = [packet for packet in container.demux(stream) if packet.size]
        times = [_ticks(packet.pts, packet, AUDIO_SCALE) for packet in packets]
        data = [bytes(packet) for packet in packets]
    first, length, origin = times[0], times[1] - times[0], ORIGIN_SECONDS * AUDIO_SCALE
    segments: dict[int, list[Sample]] = {}
    for at, each in zip(times, data, strict=True):
        place = origin + at - first
        number = min((at - first) // (SEGMENT_SECONDS * AUDIO_SCALE), len(_CHANGED) - 1)
        segments.setdefault(number, []).append(Sample(place, place, length, True, each))
    for number, samples in segments.items():
        (folder / f"s{number}.m4s").write_bytes(fragment(samples, number=number + 1))
    (folder / "init-s.mp4").write_bytes(audio_init(config=config, rate=AUDIO_SCALE, channels=2))


def _ticks(time: int | None, packet: Any, scale: int) -> int:  # Any: PyAV's stubs lack time_base
    assert time is not None
    return round(time * Fraction(packet.time_base) * scale)


def _pictures(change: str) -> MediaPlaylist:
    return _playlist(_UNCHANGED if change == "none" else _CHANGED, change)


def _sound(change: str) -> MediaPlaylist:
    return _playlist("s" * len(_CHANGED), change)


def _playlist(makers: Sequence[str], change: str) -> MediaPlaylist:
    """Return the playlist of segments by their makers; discontinuities are the same in all."""
    segments = tuple(
        PlaylistSegment(
            uri=f"{maker}{number}.m4s",
            duration=_SEGMENT,
            map_uri=f"init-{maker}.mp4",
            discontinuity=change == "discontinuity" and number * SEGMENT_SECONDS in SEAMS,
        )
        for number, maker in enumerate(makers)
    )
    return MediaPlaylist(target=SEGMENT_SECONDS, segments=segments, ended=True, whole=True)


def _multivariant(change: str, codecs: str) -> MultivariantPlaylist:
    width, height = SIZE
    variant = Variant(
        uri=f"ours/ours-{change}.m3u8",
        bandwidth=_BANDWIDTH,
        codecs=(codecs, "mp4a.40.2"),
        width=width,
        height=height,
        frame_rate=FPS * 1000,
        audio="sound",
    )
    sound = AudioRendition(uri=f"ours/sound-{change}.m3u8", group="sound", name="sound", channels=2)
    return MultivariantPlaylist(variants=(variant,), sounds=(sound,))
