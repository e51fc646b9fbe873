"""Small pictures side by side in one."""

import io
from fractions import Fraction

import av
import pytest

from tests.support.engine.raw_images import flat
from tests.support.engine.upload_files import picture_size
from transcode.engine.images.preview_sheets import (
    PER_SHEET,
    Thumbnails,
    make_sheets,
    thumbnail_size,
)


@pytest.mark.parametrize(
    ("shown", "size"),
    [
        ((1920, 1080), (160, 90)),
        ((1080, 1920), (90, 160)),
        ((640, 480), (160, 120)),
        ((1000, 1000), (160, 160)),
        ((641, 361), (160, 90)),
        ((4000, 16), (160, 16)),
        ((0, 0), (16, 16)),
    ],
)
def test_small_pictures_have_the_films_shape(shown: tuple[int, int], size: tuple[int, int]) -> None:
    assert thumbnail_size(*shown) == size


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (1, [(16, 16)]),
        (10, [(160, 16)]),
        (11, [(160, 32)]),
        (PER_SHEET, [(160, 160)]),
        (PER_SHEET + 1, [(160, 160), (16, 16)]),
        (4 * PER_SHEET, [(160, 160)] * 4),
    ],
)
def test_a_sheet_is_filled_row_by_row(count: int, sizes: list[tuple[int, int]]) -> None:
    sheets = make_sheets([flat(40 + index % 150, size=(16, 16)) for index in range(count)])
    assert [picture_size(sheet) for sheet in sheets] == sizes


def test_each_picture_is_in_its_place() -> None:
    (sheet,) = make_sheets([flat(30 + 10 * position, size=(16, 16)) for position in range(15)])
    with av.open(io.BytesIO(sheet), "r", format="jpeg_pipe") as container:
        frame = next(container.decode(video=0)).reformat(format="gray")
    plane = frame.planes[0]
    data = bytes(plane)
    shades = [
        data[(index // 10 * 16 + 8) * plane.line_size + index % 10 * 16 + 8] for index in range(15)
    ]
    assert shades == sorted(shades)
    assert shades[-1] - shades[0] > 130
    # What is left of the last row is black.
    assert data[24 * plane.line_size + 9 * 16 + 8] < 10


def test_thumbnails_are_sorted_by_time_and_a_single_one_is_none() -> None:
    thumbnails = Thumbnails(64, 64)
    copy = thumbnails.add(2000, flat(200, size=(64, 64)), Fraction(1))
    assert copy is not None
    assert (copy.width, copy.height) == (320, 320)
    assert thumbnails.previews() is None
    thumbnails.add(0, flat(40, size=(32, 64)), Fraction(2))  # pixels twice as wide as high
    previews = thumbnails.previews()
    assert previews is not None
    assert (previews.times, previews.width, previews.height) == ((0, 2000), 160, 160)
    with av.open(io.BytesIO(previews.sheets[0]), "r", format="jpeg_pipe") as container:
        plane = next(container.decode(video=0)).planes[0]
    row = bytes(plane)[80 * plane.line_size :]
    assert row[10] == row[150] < 60
    assert row[170] == row[310] > 180
