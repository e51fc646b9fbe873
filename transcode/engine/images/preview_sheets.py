"""Preview sheets: many thumbnails in one JPEG, which players show over a time line.

Thumbnails fill a sheet from left to right, then down. All have one size and square pixels.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from av.error import FFmpegError
from av.video.frame import VideoFrame

from transcode.engine.codec.jpeg import encode_jpeg
from transcode.engine.codec.scaler import Cascade
from transcode.protocol.messages import Previews

SIDE: Final = 160  # the longer side of a picture, in pixels
COLUMNS: Final = 10
PER_SHEET: Final = 100  # 1600 x 900, 200 to 400 kB: one file for some minutes around the pointer
_LEAST: Final = 16  # a thinner strip would be too thin to point at
_QUALITY: Final = 6  # from 2 (best) to 31: shown briefly, at a tenth of the picture's size


class Thumbnails:
    """The thumbnails of a video that is shown in `width` x `height`, added in any order."""

    def __init__(self, width: int, height: int) -> None:
        self._size = thumbnail_size(width, height)
        self._sizes = ((2 * self._size[0], 2 * self._size[1]), self._size)
        self._cascade = Cascade(self._sizes)
        self._small: list[tuple[int, VideoFrame]] = []

    def add(self, at: int, frame: VideoFrame, aspect: Fraction) -> VideoFrame | None:
        """Add a keyframe that is shown `at` milliseconds; `aspect` is that of its pixels.

        Return a copy of twice the thumbnail's size, or None if its format cannot be read.
        """
        if frame.interlaced_frame:
            # Deinterlacing would use the previous keyframe, which is not its neighbour.
            self._cascade = Cascade(self._sizes)
        try:
            copy, small = self._cascade.scale(frame, aspect)
        except (FFmpegError, ValueError):
            self._cascade = Cascade(self._sizes)
            return None
        self._small.append((at, small))
        return copy

    def previews(self) -> Previews | None:
        """Return the thumbnails in order; None if there are fewer than two."""
        thumbnails = sorted(self._small, key=lambda each: each[0])
        if len(thumbnails) < 2:
            return None
        return Previews(
            width=self._size[0],
            height=self._size[1],
            columns=COLUMNS,
            per_sheet=PER_SHEET,
            times=tuple(at for at, _ in thumbnails),
            sheets=tuple(make_sheets([small for _, small in thumbnails])),
        )


def thumbnail_size(width: int, height: int) -> tuple[int, int]:
    """Return the even thumbnail size for an asset that is shown in that size."""
    longer = max(width, height, 1)
    wide, high = (round(SIDE * side / longer / 2) * 2 for side in (width, height))
    return max(_LEAST, wide), max(_LEAST, high)


def make_sheets(pictures: Sequence[VideoFrame]) -> list[bytes]:
    """Return sheets of pictures, which are in 4:2:0 and of one size: `PER_SHEET` in each."""
    return [
        _sheet(pictures[start : start + PER_SHEET]) for start in range(0, len(pictures), PER_SHEET)
    ]


def _sheet(pictures: Sequence[VideoFrame]) -> bytes:
    wide, high = pictures[0].width, pictures[0].height
    columns = min(COLUMNS, len(pictures))
    rows = -(-len(pictures) // COLUMNS)
    sheet = VideoFrame(columns * wide, rows * high, "yuv420p")
    for number in range(3):
        _fill(sheet, number, pictures)
    return encode_jpeg(sheet, quality=_QUALITY)


def _fill(sheet: VideoFrame, number: int, pictures: Sequence[VideoFrame]) -> None:
    """Copy one plane of all pictures; the rest of the sheet is black."""
    divisor = 1 if number == 0 else 2  # chroma has half as many pixels, either way
    wide, high = pictures[0].width // divisor, pictures[0].height // divisor
    plane = sheet.planes[number]
    line = plane.line_size
    canvas = bytearray(bytes([16 if number == 0 else 128]) * plane.buffer_size)
    for position, picture in enumerate(pictures):
        source = picture.planes[number]
        data, step = bytes(source), source.line_size
        left, top = position % COLUMNS * wide, position // COLUMNS * high
        for row in range(high):
            start = (top + row) * line + left
            canvas[start : start + wide] = data[row * step : row * step + wide]
    plane.update(bytes(canvas))
