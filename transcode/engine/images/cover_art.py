"""The poster of a file that has sound but no picture: its cover art, or a card.

Music and voice memos have no picture to make a poster from, but players, pages and links show one.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Final

from av.error import FFmpegError
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from transcode.engine.codec.decode import MOST_PIXELS
from transcode.engine.codec.jpeg import labelled_posters
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.container import Upload, open_upload
from transcode.protocol.file_messages import COVER_SIZES
from transcode.protocol.messages import Poster

Size = tuple[int, int]

_MOST_PACKETS: Final = 8  # a cover is one packet
# A dark blue with bars as of a wave: Y, Cb, Cr in limited range.
_GROUND, _BARS = 30, 170
_CHROMA: Final = (b"\x85", b"\x7e")
_HEIGHTS: Final = (2, 4, 7, 5, 9, 6, 8, 4, 2)  # in eighteenths of the picture's height


def make_covers(descriptor: int, reports: ReportWriter) -> Iterator[Poster]:
    """Yield a poster in each of two sizes, the larger first: the file's cover art, or else a card.

    Raises:
        BadUpload: the file cannot be read.
    """
    with open_upload(descriptor, reports) as upload:
        cover = _cover(upload)
    pictures = None
    if cover is not None:
        try:
            pictures = Cascade(tuple(COVER_SIZES.values())).scale(cover, Fraction(1))
        except FFmpegError:  # a format that the filters do not know
            pictures = None
    pictures = pictures or [draw_card(size) for size in COVER_SIZES.values()]
    yield from labelled_posters(COVER_SIZES, pictures)


def draw_card(size: Size) -> VideoFrame:
    """Draw the bars of a wave in the middle of a picture of `size`, at least 64 pixels wide."""
    width, height = size
    frame = VideoFrame(width, height, "yuv420p")
    luma, *chroma = frame.planes
    stride, bar = luma.line_size, width // 64
    rows = [bytearray((_GROUND,)) * stride for _ in range(height)]
    left = width // 2 - (2 * len(_HEIGHTS) - 1) * bar // 2
    for number, eighteenths in enumerate(_HEIGHTS):
        half = height * eighteenths // 36
        begin = left + 2 * number * bar
        for row in rows[height // 2 - half : height // 2 + half]:
            row[begin : begin + bar] = bytes((_BARS,)) * bar
    luma.update(b"".join(rows))
    for plane, level in zip(chroma, _CHROMA, strict=True):
        plane.update(level * plane.buffer_size)
    return frame


def _cover(upload: Upload) -> VideoFrame | None:
    for stream in upload.streams.video:
        if stream.disposition & Disposition.attached_pic:
            frame = _decode_cover(upload, stream)
            if frame is not None:
                return frame
    return None


def _decode_cover(upload: Upload, stream: VideoStream) -> VideoFrame | None:
    # None if the library has no decoder, though its stub does not say so.
    if getattr(stream, "codec_context", None) is None:
        return None
    stream.codec_context.thread_count = 1
    stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
    try:
        for packet in islice(upload.demux(stream), _MOST_PACKETS):
            for frame in stream.decode(packet):
                if frame.width * frame.height <= MOST_PIXELS:
                    return frame
    except (FFmpegError, MemoryError):
        return None  # a damaged cover counts as none
    return None
