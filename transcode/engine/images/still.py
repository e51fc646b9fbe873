"""A picture that an owner sent, as a JPEG for each rung: JPEG, PNG and WebP are read, nothing else.

What it is, its first bytes say; no format that could name other files is looked for, and the name
and the type that its sender gave are not known here. It keeps its shape and is never scaled up.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import io
from fractions import Fraction
from typing import Final

from av.codec.context import CodecContext
from av.error import FFmpegError
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from media.ladder import STANDARD_LABELS, Ladder, ladder_for
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.frame_format import turn_of
from transcode.engine.codec.jpeg import jpeg
from transcode.engine.codec.scaler import Cascade
from transcode.engine.input.container import MOST_PIXELS, BadUpload
from transcode.protocol.messages import Make, Poster

__all__ = ["decoded", "stills"]

MOST_BYTES: Final = 10 * 1024 * 1024
_LEAST_SIDE: Final = 16  # below it there is nothing to be seen
_NO_PICTURE: Final = "The file is no picture: send a JPEG, PNG or WebP."
_DAMAGED: Final = "The picture cannot be decoded: it is damaged, animated or too large."


def stills(descriptor: int, make: Make) -> list[Poster]:
    """Return the picture for each rung of a ladder, or of its own where `make` has none.

    Raises:
        BadUpload: it is none that can be shown.
    """
    with io.FileIO(descriptor, closefd=False) as file:
        file.seek(0)
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadUpload(_DAMAGED)
    frame = decoded(data)
    width, height = frame.width, frame.height
    if any(name.startswith("transpose") for name in turn_of(frame)):
        width, height = height, width
    ladder = make.ladder or ladder_for(width, height, STANDARD_LABELS)
    sizes = [_within(width, height, box) for box in _boxes(ladder)]
    try:
        made = Cascade(tuple(sizes)).scale(frame, Fraction(1))
    except FFmpegError as error:
        raise BadUpload(_DAMAGED) from error
    return [
        Poster(label=rung.name, width=still.width, height=still.height, data=jpeg(still))
        for rung, still in zip(ladder.renditions, made, strict=True)
    ]


def _boxes(ladder: Ladder) -> list[tuple[int, int]]:
    return [(rung.width, rung.height) for rung in ladder.renditions]


def _within(width: int, height: int, box: tuple[int, int]) -> tuple[int, int]:
    """Return the even size of the picture's shape that the box holds, never above its own."""
    factor = min(Fraction(1), Fraction(box[0], width), Fraction(box[1], height))
    return max(2, int(width * factor) // 2 * 2), max(2, int(height * factor) // 2 * 2)


def _codec(data: bytes) -> str:
    """Return the decoder that a picture's first bytes ask for.

    Raises:
        BadUpload: none of those that are used.
    """
    if data[:3] == b"\xff\xd8\xff":
        return "mjpeg"
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    raise BadUpload(_NO_PICTURE)


def decoded(data: bytes) -> VideoFrame:
    """Return a picture as it is, at time 0.

    Raises:
        BadUpload: it is none that can be shown.
    """
    context = CodecContext.create(_codec(data), "r")
    if not isinstance(context, VideoCodecContext):
        raise TypeError(type(context).__name__)
    context.thread_count = 1
    # Told to the decoder too, so that it refuses before it takes the memory.
    context.options = {"max_pixels": str(MOST_PIXELS)}
    packet = Packet(data)
    packet.time_base, packet.pts = TIME_BASE, 0
    try:
        frames = [*context.decode(packet), *context.decode(None)]
    except (FFmpegError, MemoryError) as error:
        raise BadUpload(_DAMAGED) from error
    if not frames or min(frames[0].width, frames[0].height) < _LEAST_SIDE:
        raise BadUpload(_DAMAGED if not frames else "The picture is too small to be shown.")
    frame = frames[0]
    frame.pts, frame.time_base = 0, TIME_BASE
    return frame
