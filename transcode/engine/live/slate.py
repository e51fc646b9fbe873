"""The slate that viewers see while no source is on air: an owner's picture, or a card drawn here.

A slate has the size of the top rendition and the colours that the encoders were opened for, so that
showing it for hours costs no more than encoding a still picture: a fifth of a core at 1080p with
the three renditions below.
"""

from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec
from av.filter import Graph
from av.video.frame import VideoFrame

from transcode.engine.codec.frame_format import frame_format
from transcode.engine.codec.scaler import SCALER, add_buffer, fit
from transcode.engine.core.reports import ReportWriter
from transcode.engine.images.still import decode_image
from transcode.engine.input.container import BadUpload

Size = tuple[int, int]

# Numbers of ISO/IEC 23091-2, which FFmpeg uses.
_BT709, _UNKNOWN, _BT470BG, _SMPTE170M = 1, 2, 5, 6
_LIMITED: Final = 1  # AVCOL_RANGE_MPEG
# Untagged pictures up to this size count as BT.601, see `frame_format`.
_MOST_LINES_OF_601: Final = 576

# A dark blue that fades downwards, with words in the middle: Y, Cb, Cr in limited range.
_TOP, _BOTTOM = 34, 22
_CB: Final = b"\x85"
_CR: Final = b"\x7e"
_WHITE: Final = 226
# "Back soon": true of a pause and of a lost encoder. Drawn beforehand in DejaVu Sans, white on
# black, since FFmpeg inside `av` draws no text; read now, before the sandbox hides all files.
_WORDS: Final = Path(__file__).with_name("slate_words.png").read_bytes()
_WORDS_WIDE: Final = Fraction(46, 100)  # of the card's width
_LEAST_SIDE: Final = 16  # a smaller card has no room for words


class Colours(msgspec.Struct, frozen=True):
    """The colour tags of a frame; unknown ones have FFmpeg's values."""

    matrix: int = _BT709
    primaries: int = _BT709
    transfer: int = _BT709
    range: int = _LIMITED


def colours_of(frame: VideoFrame) -> Colours:
    """Return the colour tags of a frame."""
    return Colours(
        int(frame.colorspace),
        int(frame.color_primaries),
        int(frame.color_trc),
        int(frame.color_range),
    )


def decode_slate(picture: bytes | None, reports: ReportWriter) -> VideoFrame | None:
    """Return an owner's picture; None if there is none that can be shown."""
    try:
        return decode_image(picture) if picture is not None else None
    except BadUpload as error:
        reports.count_trouble("slate not decoded", error)
        return None


def fit_picture(picture: VideoFrame, size: Size, colours: Colours) -> VideoFrame:
    """Return a picture fitted into `size`, with black bars if its shape differs.

    Raises:
        av.error.FFmpegError: its format cannot be converted.
    """
    form = frame_format(picture, Fraction(1), ())
    inner = fit(picture.width, picture.height, Fraction(1), size)
    left, top = (size[0] - inner[0]) // 4 * 2, (size[1] - inner[1]) // 4 * 2
    scale = {"w": str(inner[0]), "h": str(inner[1]), "out_range": "tv", **SCALER}
    scale["out_color_matrix"] = "bt601" if _is_601(colours, size) else "bt709"
    graph = Graph()
    graph.threads = 1
    sink = graph.add("buffersink")
    graph.link_nodes(
        source := add_buffer(graph, form),
        graph.add("scale", **scale),
        graph.add("format", pix_fmts="yuv420p"),
        graph.add("pad", w=str(size[0]), h=str(size[1]), x=str(left), y=str(top)),
        sink,
    )
    graph.configure()
    source.push(picture)
    fitted = sink.pull()
    if not isinstance(fitted, VideoFrame):
        raise TypeError(type(fitted).__name__)
    return _tagged(fitted, colours)


def draw_card(size: Size, colours: Colours) -> VideoFrame:
    """Draw the default slate; both sides are even."""
    width, height = size
    frame = VideoFrame(width, height, "yuv420p")
    luma, *chroma = frame.planes
    stride = luma.line_size
    canvas = bytearray().join(
        bytes((_TOP + (_BOTTOM - _TOP) * row // height,)) * stride for row in range(height)
    )
    if min(size) >= _LEAST_SIDE:
        _write(canvas, stride, size)
    luma.update(bytes(canvas))
    for plane, level in zip(chroma, (_CB, _CR), strict=True):
        plane.update(level * plane.buffer_size)
    return _tagged(frame, colours)


def _write(canvas: bytearray, stride: int, size: Size) -> None:
    """Write the words into the middle of the luma plane."""
    width, height = size
    picture = decode_image(_WORDS)
    wide = round(width * _WORDS_WIDE)
    high = min(height, max(1, round(Fraction(wide * picture.height, picture.width))))
    words = picture.reformat(wide, high, "gray", interpolation="AREA").planes[0]
    pixels = bytes(words)
    left, top = (width - wide) // 2, (height - high) // 2
    for row in range(high):
        start = (top + row) * stride + left
        ground = canvas[start]  # one level a row
        blended = bytes(ground + (_WHITE - ground) * white // 255 for white in range(256))
        line = pixels[row * words.line_size :][:wide]
        canvas[start : start + wide] = line.translate(blended)


def _is_601(colours: Colours, size: Size) -> bool:
    untagged = colours.matrix == _UNKNOWN and min(size) <= _MOST_LINES_OF_601
    return untagged or colours.matrix in (_BT470BG, _SMPTE170M)


def _tagged(frame: VideoFrame, colours: Colours) -> VideoFrame:
    frame.colorspace, frame.color_range = colours.matrix, colours.range
    frame.color_primaries, frame.color_trc = colours.primaries, colours.transfer
    # It is upright, whatever the source was; only keyframes carry the rotation.
    frame.key_frame = True  # pyright: ignore[reportAttributeAccessIssue]  # the stub lacks it
    return frame
