"""The picture shown for sound alone: its cover, or a card."""

import io
from pathlib import Path

import av
import pytest

from tests.support.engine.upload_files import picture_size, read
from tests.support.transcode.corpus_clips import AAC, alone, covered
from transcode.engine.images.cover_art import draw_card
from transcode.protocol.messages import FileOrder, Poster

SIZES = {"720p": (1280, 720), "360p": (640, 360)}


def made_of(path: Path) -> list[Poster]:
    output = read("poster", path, FileOrder(ladder=None))
    assert (output.status, output.complaints) == (0, "")
    posters = output.of(Poster)
    assert {each.label: picture_size(each.data) for each in posters} == SIZES
    assert [(each.width, each.height) for each in posters] == list(SIZES.values())
    return posters


def middle(poster: Poster) -> tuple[int, int, int]:
    """The colour in the middle of a poster."""
    with av.open(io.BytesIO(poster.data), "r", format="mjpeg") as file:
        frame = next(file.decode(video=0)).reformat(format="rgb24")
    plane = frame.planes[0]
    offset = frame.height // 2 * plane.line_size + frame.width // 2 * 3
    red, green, blue = bytes(plane)[offset : offset + 3]
    return red, green, blue


def test_the_cover_of_the_file_is_its_poster(tmp_path: Path) -> None:
    path = tmp_path / "a.m4a"
    covered(alone(*AAC), "m4a", "-disposition:v", "attached_pic")(path)
    for poster in made_of(path):
        red, green, blue = middle(poster)
        assert red > 200 > 60 > max(green, blue)


@pytest.mark.parametrize("damage", [False, True])
def test_without_a_cover_that_can_be_decoded_it_is_a_card(tmp_path: Path, damage: bool) -> None:
    path = tmp_path / "a.m4a"
    make = covered(alone(*AAC), "m4a", "-disposition:v", "attached_pic") if damage else alone(*AAC)
    make(path)
    if damage:
        data = path.read_bytes()
        start = data.index(b"\xff\xd8\xff")
        path.write_bytes(data[:start] + bytes(400) + data[start + 400 :])
    for poster in made_of(path):
        red, green, blue = middle(poster)
        assert min(red, green, blue) > 150


def test_a_card_is_dark_with_bright_bars_in_any_size() -> None:
    for size in ((1280, 720), (640, 360), (64, 36)):
        frame = draw_card(size)
        assert (frame.width, frame.height, frame.format.name) == (*size, "yuv420p")
        luma = bytes(frame.planes[0])
        assert {min(luma), max(luma)} == {30, 170}
        assert luma.count(170) < luma.count(30)
