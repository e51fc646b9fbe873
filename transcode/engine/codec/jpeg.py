"""A JPEG encoder for single pictures, and posters of them."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from av.codec.context import CodecContext, Flags
from av.video.frame import PictureType, VideoFrame

from transcode.engine.codec.decode import TIME_BASE
from transcode.protocol.messages import Poster

_QUALITY: Final = 3


def encode_jpeg(picture: VideoFrame, *, quality: int = _QUALITY) -> bytes:
    """Return a 4:2:0 picture as a JPEG; `quality` goes from 2 (best) to 31."""
    full_range = picture.reformat(format="yuvj420p", dst_color_range="JPEG")
    full_range.pict_type = PictureType.NONE
    full_range.pts, full_range.time_base = 0, TIME_BASE
    context = CodecContext.create("mjpeg", "w")
    context.width, context.height, context.pix_fmt = full_range.width, full_range.height, "yuvj420p"
    context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
    context.thread_count = 1
    context.flags |= Flags.bitexact
    context.options = {"qmin": str(quality), "qmax": str(quality)}
    return b"".join(
        bytes(packet) for packet in (*context.encode(full_range), *context.encode(None))
    )


def labelled_posters(labels: Iterable[str], pictures: Iterable[VideoFrame]) -> Iterator[Poster]:
    """Yield 4:2:0 pictures as posters with these labels."""
    for label, picture in zip(labels, pictures, strict=True):
        data = encode_jpeg(picture)
        yield Poster(label=label, width=picture.width, height=picture.height, data=data)
