"""Posters of uploaded files: the right moment, the right sizes, real JPEGs."""

import io
from itertools import pairwise
from pathlib import Path

import av
import pytest

from media.ladder import ladder_for
from tests.support.engine.engine_process import LABELS
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import film, picture_size, read, refusal
from transcode.engine.images.image_score import ImageScorer
from transcode.protocol.messages import FileOrder, Poster, Previews

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")


def order(width: int, height: int) -> FileOrder:
    return FileOrder(ladder=ladder_for(width, height, LABELS))


def mean(data: bytes) -> float:
    """The mean luma of a JPEG, from 0 to 255."""
    with av.open(io.BytesIO(data), "r", format="jpeg_pipe") as container:
        frame = next(container.decode(video=0)).reformat(width=16, height=16, format="gray")
    return sum(bytes(frame.planes[0])) / len(bytes(frame.planes[0]))


def test_there_is_a_jpeg_for_each_rung_of_its_size(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, size=(1280, 720), sound=None)
    posters = read("poster", path, order(1280, 720)).of(Poster)
    assert [(each.label, each.width, each.height) for each in posters] == [
        ("720p", 1280, 720),
        ("480p", 854, 480),
        ("360p", 640, 360),
    ]
    for each in posters:
        assert picture_size(each.data) == (each.width, each.height)
        assert each.data.endswith(b"\xff\xd9")


def test_a_film_that_begins_in_black_is_shown_by_a_later_picture(tmp_path: Path) -> None:
    graph = "color=black:s=320x180:r=25:d=4[a];testsrc2=s=320x180:r=25:d=2[b];[a][b]concat"
    path = tmp_path / "a.mp4"
    ffmpeg("-filter_complex", graph, *X264, "-g", "25", "-y", path)
    (poster,) = read("poster", path, order(320, 180)).of(Poster)
    assert mean(poster.data) > 60


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.avi"])
def test_formats_without_an_index_have_posters_too(tmp_path: Path, name: str) -> None:
    coding = ("-c:v", "mpeg4") if name == "a.avi" else X264
    path = film(tmp_path / name, *coding, sound=None)
    (poster,) = read("poster", path, order(320, 180)).of(Poster)
    assert (poster.label, poster.width, poster.height) == ("240p", 320, 180)


def test_a_rotated_picture_is_upright_in_its_poster(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, size=(640, 360), sound=None)
    ffmpeg("-i", path, "-c", "copy", "-metadata:s:v", "rotate=90", "-y", tmp_path / "b.mp4")
    (poster,) = read("poster", tmp_path / "b.mp4", order(360, 640)).of(Poster)
    assert picture_size(poster.data) == (360, 640)


def test_a_file_of_one_picture_has_that_as_its_poster(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, seconds=0.04, sound=None)
    assert len(read("poster", path, order(320, 180)).of(Poster)) == 1


def test_a_text_has_no_poster(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    assert refusal(tmp_path / "a.mp4", "poster", order(320, 180))


# -- previews -------------------------------------------------------------------------------------


def levels(sheet: bytes, columns: int) -> list[int]:
    """The mean luma of each picture in the first row of a sheet."""
    with av.open(io.BytesIO(sheet), "r", format="jpeg_pipe") as container:
        frame = next(container.decode(video=0)).reformat(width=columns, height=1, format="gray")
    return list(bytes(frame.planes[0])[:columns])


def staircase(path: Path, *coding: str, seconds: int = 6, size: str = "320x180") -> Path:
    """A film that gets lighter each second."""
    picture = f"color=black:s={size}:r=25:d={seconds},geq=lum='30+30*floor(T)':cb=128:cr=128"
    ffmpeg("-f", "lavfi", "-i", picture, *X264, *coding, "-y", path)
    return path


@pytest.mark.parametrize(
    ("name", "shift"),
    [("a.mp4", 0), ("a.mkv", 0), ("a.ts", 0), ("a.mp4", 7)],
)
def test_each_moment_has_its_own_small_picture(tmp_path: Path, name: str, shift: int) -> None:
    path = staircase(tmp_path / name, "-g", "25", "-output_ts_offset", str(shift))
    (previews,) = read("poster", path, order(320, 180)).of(Previews)
    assert (previews.width, previews.height) == (160, 90)
    # 40 ms more or less: a container that has no index is entered where its packets allow.
    assert [round(at, -2) for at in previews.times] == [0, 1000, 2000, 3000, 4000, 5000]
    (sheet,) = previews.sheets
    assert picture_size(sheet) == (6 * 160, 90)
    sheet_levels = levels(sheet, 6)
    assert sheet_levels == sorted(sheet_levels)
    assert all(later - earlier > 15 for earlier, later in pairwise(sheet_levels))


def test_rotated_pictures_are_upright_in_previews(tmp_path: Path) -> None:
    staircase(tmp_path / "a.mp4", "-g", "25", seconds=3)
    ffmpeg("-i", tmp_path / "a.mp4", "-c", "copy", "-metadata:s:v", "rotate=90", "-y",
           tmp_path / "b.mp4")  # fmt: skip
    (previews,) = read("poster", tmp_path / "b.mp4", order(180, 320)).of(Previews)
    assert (previews.width, previews.height) == (90, 160)
    assert picture_size(previews.sheets[0]) == (270, 160)


def test_a_film_of_one_keyframe_has_a_poster_and_no_previews(tmp_path: Path) -> None:
    path = staircase(tmp_path / "a.mp4", "-g", "500", "-sc_threshold", "0")
    output = read("poster", path, order(320, 180))
    assert (len(output.of(Poster)), output.of(Previews)) == (1, [])


def test_the_sharp_moment_is_the_poster_and_not_the_blurred_ones(tmp_path: Path) -> None:
    blurred = "testsrc2=s=320x180:r=25:d=2,gblur=sigma=6"
    graph = f"{blurred}[a];testsrc2=s=320x180:r=25:d=1[b];{blurred}[c];[a][b][c]concat=n=3"
    path = tmp_path / "a.mp4"
    ffmpeg("-filter_complex", graph, *X264, "-g", "25", "-y", path)
    (poster,) = read("poster", path, order(320, 180)).of(Poster)
    with av.open(io.BytesIO(poster.data), "r", format="jpeg_pipe") as container:
        assert ImageScorer().score(next(container.decode(video=0))) > 7  # a blurred one has 3.7


def test_the_only_keyframe_is_found_however_long_its_group_is(tmp_path: Path) -> None:
    """With B-frames a decoder holds the keyframe back, and here no other follows."""
    coding = ("-c:v", "libx264", "-preset", "veryfast", "-g", "9999", "-sc_threshold", "0")
    path = film(tmp_path / "a.ts", *coding, size=(160, 90), rate=30, seconds=12, sound=None)
    (poster,) = read("poster", path, order(160, 90)).of(Poster)
    assert (poster.width, poster.height) == (160, 90)


@pytest.mark.parametrize("name", ["a.avi", "a.mov"])
def test_a_palette_colours_the_poster(tmp_path: Path, name: str) -> None:
    """It lies at the beginning, and a seek does not bring it again."""
    graph = "testsrc2=s=64x64:r=5:d=4,split[a][b];[a]palettegen[p];[b][p]paletteuse"
    coding = ("-c:v", "rawvideo", "-pix_fmt", "pal8")
    ffmpeg("-f", "lavfi", "-i", graph, *coding, "-y", tmp_path / name)
    (poster,) = read("poster", tmp_path / name, order(64, 64)).of(Poster)
    assert mean(poster.data) > 60
