"""A picture that an owner uploaded, as a JPEG for each rung; only JPEG, PNG and WebP are read.

Its first bytes determine the format. No format that could name other files is probed, and the name
and type that the sender gave are not known here. It keeps its shape and is never scaled up.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import io
from fractions import Fraction
from typing import Final

from av.codec.context import CodecContext
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from media.ladder import STANDARD_LABELS, ladder_for
from transcode.engine.codec.decode import MOST_PIXELS, TIME_BASE, av_packet
from transcode.engine.codec.frame_format import rotation_of
from transcode.engine.codec.jpeg import labelled_posters
from transcode.engine.codec.scaler import Cascade
from transcode.engine.input.container import BadUpload
from transcode.protocol.messages import FileOrder, Poster

MOST_BYTES: Final = 10 * 1024 * 1024
_LEAST_SIDE: Final = 16  # smaller pictures show nothing
_NO_PICTURE: Final = "The file is no picture: send a JPEG, PNG or WebP."
_DAMAGED: Final = "The picture cannot be decoded: it is damaged, animated or too large."


def make_stills(descriptor: int, make: FileOrder) -> list[Poster]:
    """Return the picture for each rung of a ladder, or of its own ladder if `make` has none.

    Raises:
        BadUpload: it cannot be shown.
    """
    with io.FileIO(descriptor, closefd=False) as file:
        file.seek(0)
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadUpload(_DAMAGED)
    frame = decode_image(data)
    width, height = frame.width, frame.height
    if any(name.startswith("transpose") for name in rotation_of(frame)):
        width, height = height, width
    ladder = make.ladder or ladder_for(width, height, STANDARD_LABELS)
    sizes = [_within(width, height, (rung.width, rung.height)) for rung in ladder.renditions]
    try:
        pictures = Cascade(tuple(sizes)).scale(frame, Fraction(1))
    except FFmpegError as error:
        raise BadUpload(_DAMAGED) from error
    return list(labelled_posters(ladder.names, pictures))


def _within(width: int, height: int, box: tuple[int, int]) -> tuple[int, int]:
    """Return the even size of the picture's shape that fits the box, never above its own."""
    factor = min(Fraction(1), Fraction(box[0], width), Fraction(box[1], height))
    return max(2, int(width * factor) // 2 * 2), max(2, int(height * factor) // 2 * 2)


def _codec(data: bytes) -> str:
    """Return the decoder for a picture, by its first bytes.

    Raises:
        BadUpload: it has none of the known formats.
    """
    if data[:3] == b"\xff\xd8\xff":
        return "mjpeg"
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    raise BadUpload(_NO_PICTURE)


def decode_image(data: bytes) -> VideoFrame:
    """Return a picture at time 0.

    Raises:
        BadUpload: it cannot be shown.
    """
    context = CodecContext.create(_codec(data), "r")
    if not isinstance(context, VideoCodecContext):
        raise TypeError(type(context).__name__)
    context.thread_count = 1
    # The decoder gets the limit too, so that it refuses before it allocates the memory.
    context.options = {"max_pixels": str(MOST_PIXELS)}
    packet = av_packet(data, 0, 0)
    try:
        frames = [*context.decode(packet), *context.decode(None)]
    except (FFmpegError, MemoryError) as error:
        raise BadUpload(_DAMAGED) from error
    if not frames or min(frames[0].width, frames[0].height) < _LEAST_SIDE:
        raise BadUpload(_DAMAGED if not frames else "The picture is too small to be shown.")
    frame = frames[0]
    frame.pts, frame.time_base = 0, TIME_BASE
    return frame
