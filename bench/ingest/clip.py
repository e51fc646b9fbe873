"""The recording that every publisher sends, and how much of it must arrive.

1080p30 H.264 at a constant 6 Mbit/s with two B-frames, AAC at 160 kbit/s. Encoded once for a few
seconds and looped by copying, so that the data sent is known to the byte.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENCODED_SECONDS: Final = 10
TAIL_MS: Final = 500
MAKE_SECONDS: Final = 180  # a deadline for the encoder, on a machine that is busy
_FLV_HEADER, _TAG_HEADER, _BACK = 9, 11, 4  # bytes; the last is the length of the previous tag
_AUDIO, _VIDEO = 8, 9
_MEDIA_HEADER: Final = {_AUDIO: 2, _VIDEO: 5}  # bytes of a body before the coded data


@dataclass(frozen=True)
class Body:
    """The body of one audio or video message; `data` is the size of its coded data, or 0."""

    stamp: int  # ms
    size: int
    data: int


@dataclass(frozen=True)
class SourceClip:
    """A file and the messages in it, in the order in which they are sent.

    An encoder that closes with unread messages of the server resets the connection, and its kernel
    drops its unsent data. ffmpeg does that to every server now and then, and a server cannot
    prevent it: so the last `TAIL_MS` may be missing, and nothing before them.
    """

    path: Path
    bodies: tuple[Body, ...]

    def packets(self) -> Iterator[tuple[int, int]]:
        """Yield the possible results: coded packets, and the bytes of their data."""
        for bodies in self._arrivals():
            sizes = [body.data for body in bodies if body.data]
            yield len(sizes), sum(sizes)

    def body_bytes(self) -> Iterator[int]:
        """Yield the possible results: bytes of all bodies."""
        for bodies in self._arrivals():
            yield sum(body.size for body in bodies)

    def wire_bytes(self, chunk_bytes: int) -> tuple[int, int]:
        """The least and the most that a connection may carry, at such chunks.

        The least has the shortest header on every chunk, the most the longest on every message
        and room for the dialogue and metadata.
        """
        least, most = (
            sum(body.size + 1 + max(0, body.size - 1) // chunk_bytes for body in bodies)
            for bodies in (next(self._arrivals()), self.bodies)
        )
        return least, most + 15 * len(self.bodies) + (12 << 10)

    def _arrivals(self) -> Iterator[tuple[Body, ...]]:
        """Yield what may arrive, from the shortest on."""
        last = self.bodies[-1].stamp
        sure = sum(body.stamp < last - TAIL_MS for body in self.bodies)
        return (self.bodies[:count] for count in range(sure, len(self.bodies) + 1))


def make_clip(folder: Path, seconds: int) -> SourceClip:
    """Encode and loop the recording into `folder`; it lasts `seconds`."""
    short, path = folder / "short.flv", folder / "clip.flv"
    encode = [
        *("-f", "lavfi", "-i", "testsrc2=size=1920x1080:rate=30,noise=alls=12:allf=t"),
        *("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"),
        *("-t", str(min(seconds, ENCODED_SECONDS)), "-pix_fmt", "yuv420p"),
        *("-c:v", "libx264", "-preset", "superfast", "-profile:v", "high", "-bf", "2", "-g", "60"),
        *("-b:v", "6M", "-minrate", "6M", "-maxrate", "6M", "-bufsize", "6M"),
        *("-x264-params", "nal-hrd=cbr:scenecut=0"),
        *("-c:a", "aac", "-b:a", "160k", "-ac", "2"),
    ]
    _ffmpeg(*encode, "-f", "flv", str(short))
    loop = ("-stream_loop", "-1", "-i", str(short), "-t", str(seconds), "-c", "copy")
    _ffmpeg(*loop, "-flvflags", "no_duration_filesize", "-f", "flv", str(path))
    return _read(path)


def _ffmpeg(*options: str) -> None:
    command = ["ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error", "-y", *options]
    subprocess.run(command, check=True, timeout=MAKE_SECONDS)


def media_tags(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Return (message type, timestamp in ms, body) of each audio and video tag of an FLV file."""
    at = _FLV_HEADER + _BACK
    while at < len(data):
        kind, size = data[at], int.from_bytes(data[at + 1 : at + 4], "big")
        body = at + _TAG_HEADER
        if kind in _MEDIA_HEADER:
            stamp = int.from_bytes(data[at + 4 : at + 7], "big") | data[at + 7] << 24
            yield kind, stamp, data[body : body + size]
        at = body + size + _BACK


def _read(path: Path) -> SourceClip:
    return SourceClip(path, tuple(_bodies(path.read_bytes())))


def _bodies(data: bytes) -> Iterator[Body]:
    for kind, stamp, body in media_tags(data):
        # 1: coded data; others are configurations and the end of a sequence.
        coded = len(body) - _MEDIA_HEADER[kind] if body[1] == 1 else 0
        yield Body(stamp, len(body), coded)
