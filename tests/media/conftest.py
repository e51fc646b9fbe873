"""The output of real encoders, for tests of the parsers and the container."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import av
import pytest
from av.audio.codeccontext import AudioCodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext

from media.hls.fmp4 import Sample

# A decoder configuration and its access units.
Coded = tuple[bytes, list[Sample]]
Encode = Callable[..., Coded]

GLOBAL_HEADER = 1 << 22  # AV_CODEC_FLAG_GLOBAL_HEADER


def samples_of(packets: "Iterable[Packet[Any]]", last: int) -> list[Sample]:  # Any: see below
    """Return an encoder's packets as samples that last until the next one."""
    samples = [(p.dts, p.pts, p.is_keyframe, bytes(p)) for p in packets]
    times = [dts for dts, *_ in samples if dts is not None]
    assert len(times) == len(samples)
    lengths = [after - before for before, after in pairwise(times)] + [last]
    return [
        Sample(dts, pts, length, key, data)
        for (dts, pts, key, data), length in zip(samples, lengths, strict=True)
        if dts is not None and pts is not None
    ]


def encode_video(
    width: int = 320,
    height: int = 180,
    *,
    frames: int = 8,
    pixels: str = "yuv420p",
    parameters: str = "",
    aspect: Fraction | None = None,
) -> Coded:
    """Encode a moving gradient of 30 frames a second; `parameters` are x264's own."""
    context = av.CodecContext.create("libx264", "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = width, height, pixels
    context.time_base, context.framerate = Fraction(1, 90_000), Fraction(30)
    context.thread_count = 1
    context.flags |= GLOBAL_HEADER
    if aspect is not None:
        context.sample_aspect_ratio = aspect
    own = "annexb=0:bframes=2:force-cfr=1"
    context.options = {
        "preset": "veryfast",
        "x264-params": f"{own}:{parameters}" if parameters else own,
    }
    packets: list[Packet[Any]] = []  # Any: PyAV's stubs leave the stream open
    for number in range(frames):
        frame = av.VideoFrame(width, height, "gray")
        line = bytes((x + 7 * number) & 0xFF for x in range(frame.planes[0].line_size))
        frame.planes[0].update(line * height)
        frame = frame.reformat(format=pixels, threads=1)
        frame.pts, frame.time_base = 3_000 * number, Fraction(1, 90_000)
        packets += context.encode(frame)  # pyright: ignore[reportUnknownMemberType]  # as above
    packets += context.encode(None)  # pyright: ignore[reportUnknownMemberType]  # as above
    assert context.extradata is not None
    return context.extradata, samples_of(packets, 3_000)


def encode_audio(rate: int = 48_000, layout: str = "stereo", *, frames: int = 4) -> Coded:
    """Encode silence with FFmpeg's AAC encoder."""
    context = av.CodecContext.create("aac", "w")
    assert isinstance(context, AudioCodecContext)
    context.sample_rate, context.layout, context.format = rate, layout, "fltp"
    context.flags |= GLOBAL_HEADER
    packets: list[Packet[Any]] = []  # Any: PyAV's stubs leave the stream open
    for number in range(frames):
        frame = av.AudioFrame(format="fltp", layout=layout, samples=1024)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.sample_rate, frame.pts, frame.time_base = rate, 1024 * number, Fraction(1, rate)
        packets += context.encode(frame)  # pyright: ignore[reportUnknownMemberType]  # as above
    packets += context.encode(None)  # pyright: ignore[reportUnknownMemberType]  # as above
    assert context.extradata is not None
    return context.extradata, samples_of(packets, 1024)


@pytest.fixture(scope="session")
def video() -> Encode:
    """Encode pictures with libx264, configuration and access units in AVCC form."""
    return encode_video


@pytest.fixture(scope="session")
def audio() -> Encode:
    """Encode sound with FFmpeg's AAC encoder."""
    return encode_audio


@pytest.fixture(scope="session")
def picture() -> Coded:
    """A short picture track with B-frames and a keyframe at every 20th of its 40 frames."""
    return encode_video(frames=40, parameters="keyint=20:min-keyint=20:scenecut=0")


@pytest.fixture(scope="session")
def sound() -> Coded:
    """A short sound track of 48 kHz stereo."""
    return encode_audio(frames=30)
