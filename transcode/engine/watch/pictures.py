"""Signatures of pictures: how bright each of 16 x 9 blocks is, and how bright the brightest pixels.

A block's mean is the same whatever the size, codec and bit rate of a picture, so that pictures of
two encoders can be compared, and one with the next. Luma has 8 bits and limited range (16 is black,
235 is white) here, whatever the source has.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

COLUMNS: Final = 16
ROWS: Final = 9
BLOCKS: Final = COLUMNS * ROWS

# The brightest hundredth of the pixels: a line of small text is as much.
_BRIGHT_SHARE: Final = 0.99
# Every fourth pixel of every fourth line is enough to find that.
_BRIGHT_STEP: Final = 4
# Formats whose first plane is luma of 8 bits; all others are converted.
_PLANAR: Final = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "nv12"})
_FULL_RANGE: Final = 2  # AVCOL_RANGE_JPEG

Row = NDArray[np.float32]
Times = NDArray[np.int64]


class Picture(msgspec.Struct, frozen=True):
    """A picture's signature; `time` has 90 000 ticks a second."""

    time: int
    blocks: Row
    bright: float


class Pictures(msgspec.Struct, frozen=True):
    """Signatures in order of time, a row for each: `blocks` has 144 columns."""

    times: Times
    blocks: Row
    bright: Row

    def between(self, first: int, last: int) -> "Pictures":
        """Return those from `first` to `last`, both included."""
        low, high = np.searchsorted(self.times, [first, last + 1])
        return Pictures(self.times[low:high], self.blocks[low:high], self.bright[low:high])

    @property
    def means(self) -> Row:
        """The brightness of each picture as a whole."""
        return self.blocks.mean(axis=1)


def pictures_of(signatures: Iterable[Picture]) -> Pictures:
    """Return signatures as rows, in order of time."""
    ordered = sorted(signatures, key=lambda each: each.time)
    return Pictures(
        np.array([each.time for each in ordered], np.int64),
        np.array([each.blocks for each in ordered], np.float32).reshape(-1, BLOCKS),
        np.array([each.bright for each in ordered], np.float32),
    )


def signature(frame: VideoFrame, time: int) -> Picture | None:
    """Return the signature of a picture; None if it has fewer pixels than there are blocks."""
    if frame.height < ROWS or frame.width < COLUMNS:
        return None
    is_full = frame.format.name.startswith("yuvj") or frame.color_range == _FULL_RANGE
    if frame.format.name not in _PLANAR:
        frame = frame.reformat(format="yuv420p")
    plane = frame.planes[0]
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
    luma = rows[: frame.height, : frame.width]
    across = np.linspace(0, frame.width, COLUMNS, endpoint=False, dtype=np.intp)
    down = np.linspace(0, frame.height, ROWS, endpoint=False, dtype=np.intp)
    sums = np.add.reduceat(np.add.reduceat(luma, across, axis=1, dtype=np.uint32), down, axis=0)
    sizes = np.outer(np.diff(down, append=frame.height), np.diff(across, append=frame.width))
    blocks = (sums / sizes).astype(np.float32).ravel()
    sample = luma[::_BRIGHT_STEP, ::_BRIGHT_STEP]
    counts = np.cumsum(np.bincount(sample.ravel(), minlength=256))
    bright = float(np.searchsorted(counts, _BRIGHT_SHARE * sample.size))
    if is_full:
        blocks, bright = _limited(blocks), 16 + bright * 219 / 255
    return Picture(time, blocks, bright)


def _limited(luma: Row) -> Row:
    return (16 + luma * np.float32(219 / 255)).astype(np.float32)
