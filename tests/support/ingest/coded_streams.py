"""Short streams of every supported codec, by FFmpeg's encoders and its FLV muxer.

The bytes of the muxer's FLV tags are those of ffmpeg's RTMP messages.
"""

# The library leaves the type parameters of its packets and streams open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import functools
import io
import math
from array import array
from collections.abc import Iterator
from fractions import Fraction

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from tests.support.thread_priority import same_priority

WIDTH, HEIGHT, FRAMES, RATE = 160, 90, 20, 48_000
KEYFRAMES = 10  # a keyframe every so many pictures

PICTURES = {
    "libx264": {"x264-params": f"keyint={KEYFRAMES}:bframes=2:log-level=-1"},
    "libx265": {"x265-params": f"keyint={KEYFRAMES}:bframes=2:pools=1:log-level=none"},
    "libsvtav1": {"preset": "10", "g": f"{KEYFRAMES}", "svtav1-params": "lp=1"},
    "libvpx-vp9": {"g": f"{KEYFRAMES}", "deadline": "realtime", "cpu-used": "8"},
}
# Encoder -> its sample format.
SOUNDS = {
    "aac": "fltp",
    "libopus": "s16",
    "flac": "s16",
    "ac3": "fltp",
    "eac3": "fltp",
    "libmp3lame": "s16p",
}


@functools.cache
def flv(picture: str | None, sound: str | None, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """Encode a moving gradient and a tone, one second or so of each, as an FLV file."""
    file = io.BytesIO()
    with same_priority(), av.open(file, "w", format="flv") as container:
        streams: list[tuple[VideoStream | AudioStream, Iterator[VideoFrame | AudioFrame]]] = []
        if picture is not None:
            video = container.add_stream(picture, rate=FRAMES, options=dict(PICTURES[picture]))
            assert isinstance(video, VideoStream)
            video.width, video.height, video.pix_fmt = width, height, "yuv420p"
            video.codec_context.thread_count = 1
            streams.append((video, _gradient(width, height)))
        if sound is not None:
            audio = container.add_stream(sound, rate=RATE, layout="stereo")
            assert isinstance(audio, AudioStream)
            audio.format = SOUNDS[sound]
            audio.bit_rate = 64_000
            streams.append((audio, _tone(SOUNDS[sound], audio)))
        container.start_encoding()
        for stream, frames in streams:
            for frame in frames:
                container.mux(stream.encode(frame))  # pyright: ignore[reportArgumentType, reportCallIssue]  # a frame of the stream's own kind
            container.mux(stream.encode(None))
    return file.getvalue()


def _gradient(width: int, height: int) -> Iterator[VideoFrame]:
    for number in range(FRAMES):
        frame = VideoFrame(width, height, "gray")
        line = bytes((x + 5 * number) & 0xFF for x in range(frame.planes[0].line_size))
        frame.planes[0].update(line * height)
        frame = frame.reformat(format="yuv420p", threads=1)
        frame.pts, frame.time_base = number, Fraction(1, FRAMES)
        yield frame


def _tone(form: str, stream: AudioStream) -> Iterator[AudioFrame]:
    size = stream.codec_context.frame_size or 1024
    kind = "f" if form.startswith("flt") else "h"
    loud = 0.3 if kind == "f" else 9000
    for start in range(0, RATE, size):
        wave = [loud * math.sin(math.tau * 440 * (start + n) / RATE) for n in range(size)]
        channel = array(kind, wave if kind == "f" else map(int, wave))
        frame = AudioFrame(format=form, layout="stereo", samples=size)
        if form.endswith("p"):
            for plane in frame.planes:
                plane.update(channel.tobytes().ljust(plane.buffer_size, b"\0"))
        else:
            both = array(kind, (each for sample in channel for each in (sample, sample)))
            frame.planes[0].update(both.tobytes().ljust(frame.planes[0].buffer_size, b"\0"))
        frame.sample_rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
        yield frame


def tags_in(file: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield type, timestamp and body of each tag of an FLV file (E.3, E.4)."""
    at = 13
    while at + 11 <= len(file):
        size = int.from_bytes(file[at + 1 : at + 4], "big")
        stamp = file[at + 7] << 24 | int.from_bytes(file[at + 4 : at + 7], "big")
        yield file[at], stamp, file[at + 11 : at + 11 + size]
        at += 15 + size


def decoded(file: bytes, kind: str) -> list[bytes]:
    """Decode an FLV file with FFmpeg alone, and return each frame's samples."""
    with av.open(io.BytesIO(file), "r") as container:
        streams = container.streams.video if kind == "video" else container.streams.audio
        context = streams[0].codec_context
        # Tags without samples (end of sequence, channel layout) become empty packets.
        batches = [context.decode(packet) for packet in container.demux(streams[0]) if packet.size]
        frames = [frame for batch in (*batches, context.decode(None)) for frame in batch]
    return [samples(frame) for frame in frames]


def samples(frame: VideoFrame | AudioFrame) -> bytes:
    """Return a frame's visible samples, without the padding of its lines."""
    if isinstance(frame, AudioFrame):
        return b"".join(bytes(plane) for plane in frame.planes)
    parts: list[bytes] = []
    for plane in frame.planes:
        data = bytes(plane)
        lines = range(0, plane.height * plane.line_size, plane.line_size)
        parts += [data[start : start + plane.width] for start in lines]
    return b"".join(parts)
