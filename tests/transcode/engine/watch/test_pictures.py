"""Signatures of pictures of any size and format."""

# The library leaves the type parameter of its frames open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false

import numpy as np
import pytest
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange

from transcode.engine.watch.pictures import BLOCKS, Picture, pictures_of, signature


def frame(wide: int, high: int, luma: int, form: str = "yuv420p") -> VideoFrame:
    made = VideoFrame.from_ndarray(np.full((high * 3 // 2, wide), luma, np.uint8), format="yuv420p")
    return made if form == "yuv420p" else made.reformat(format=form)


@pytest.mark.parametrize("form", ["yuv420p", "yuv422p", "nv12", "yuv420p10le", "yuv444p"])
@pytest.mark.parametrize("size", [(16, 10), (322, 182), (854, 480), (640, 360)])
def test_every_format_and_size_has_the_same_blocks(form: str, size: tuple[int, int]) -> None:
    seen = signature(frame(*size, 90, form), 7)
    assert seen is not None
    assert seen.time == 7
    assert np.allclose(seen.blocks, 90, atol=1)
    assert seen.blocks.shape == (BLOCKS,)
    assert seen.bright == pytest.approx(90, abs=1)


def test_full_range_is_made_limited() -> None:
    full = frame(320, 180, 255)
    full.color_range = ColorRange.JPEG
    seen = signature(full, 0)
    assert seen is not None
    assert np.allclose(seen.blocks, 235)
    assert seen.bright == 235


def test_blocks_lie_where_they_are_and_small_text_is_bright() -> None:
    luma = np.full((270, 320), 16, np.uint8)
    luma[20:40, 20:40] = 216  # the second block of the second row
    seen = signature(VideoFrame.from_ndarray(luma, format="yuv420p"), 0)
    assert seen is not None
    blocks = seen.blocks.reshape(9, 16)
    assert blocks[1, 1] == 216
    assert blocks.sum() == 143 * 16 + 216
    assert seen.bright == 16
    luma[100:110] = 216  # a line of text has more pixels than a hundredth
    seen = signature(VideoFrame.from_ndarray(luma, format="yuv420p"), 0)
    assert seen is not None
    assert seen.bright == 216


def test_a_picture_that_is_too_small_has_none() -> None:
    assert signature(frame(8, 8, 100), 0) is None


def test_rows_are_in_order_of_time() -> None:
    rows = pictures_of(Picture(at, np.full(BLOCKS, at, np.float32), at) for at in (30, 10, 20))
    assert rows.times.tolist() == [10, 20, 30]
    assert rows.between(10, 29).bright.tolist() == [10, 20]
    assert rows.means.tolist() == [10, 20, 30]
    assert len(pictures_of(()).between(0, 9).blocks) == 0
