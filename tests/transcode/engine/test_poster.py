"""Posters of uploaded files: the right moment, the right sizes, real JPEGs."""

import io
from pathlib import Path

import av
import pytest
from av.video.frame import VideoFrame

from media.ladder import ladder_for
from tests.transcode.engine.child import LABELS
from tests.transcode.engine.sources import ffmpeg
from tests.transcode.engine.uploads import film, picture_size, read, refusal
from transcode.engine.poster import jpeg, score
from transcode.wire import Make, Poster

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")


def order(width: int, height: int) -> Make:
    return Make(ladder=ladder_for(width, height, LABELS))


def mean(data: bytes) -> float:
    """The mean luma of a JPEG, from 0 to 255."""
    with av.open(io.BytesIO(data), "r", format="jpeg_pipe") as container:
        frame = next(container.decode(video=0)).reformat(width=16, height=16, format="gray")
    return sum(bytes(frame.planes[0])) / len(bytes(frame.planes[0]))


def test_there_is_a_jpeg_for_each_rung_of_its_size(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, size=(1280, 720), sound=None)
    made = read("poster", path, order(1280, 720)).of(Poster)
    assert [(each.label, each.width, each.height) for each in made] == [
        ("720p", 1280, 720),
        ("480p", 854, 480),
        ("360p", 640, 360),
    ]
    for each in made:
        assert picture_size(each.data) == (each.width, each.height)
        assert each.data.endswith(b"\xff\xd9")


def test_a_film_that_begins_in_black_is_shown_by_a_later_picture(tmp_path: Path) -> None:
    graph = "color=black:s=320x180:r=25:d=4[a];testsrc2=s=320x180:r=25:d=2[b];[a][b]concat"
    path = tmp_path / "a.mp4"
    ffmpeg("-filter_complex", graph, *X264, "-g", "25", "-y", path)
    (made,) = read("poster", path, order(320, 180)).of(Poster)
    assert mean(made.data) > 60


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.avi"])
def test_formats_without_an_index_have_posters_too(tmp_path: Path, name: str) -> None:
    coding = ("-c:v", "mpeg4") if name == "a.avi" else X264
    path = film(tmp_path / name, *coding, sound=None)
    (made,) = read("poster", path, order(320, 180)).of(Poster)
    assert (made.label, made.width, made.height) == ("240p", 320, 180)


def test_a_picture_on_its_side_stands_upright_in_its_poster(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, size=(640, 360), sound=None)
    ffmpeg("-i", path, "-c", "copy", "-metadata:s:v", "rotate=90", "-y", tmp_path / "b.mp4")
    (made,) = read("poster", tmp_path / "b.mp4", order(360, 640)).of(Poster)
    assert picture_size(made.data) == (360, 640)


def test_a_file_of_one_picture_has_that_as_its_poster(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, seconds=0.04, sound=None)
    assert len(read("poster", path, order(320, 180)).of(Poster)) == 1


def test_a_text_has_no_poster(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    assert refusal(tmp_path / "a.mp4", "poster", order(320, 180))


# -- pure -----------------------------------------------------------------------------------------


def flat(level: int, *, stripes: int = 0) -> VideoFrame:
    frame = VideoFrame(128, 72, "yuv420p")
    rows = b"".join(
        bytes([level + (stripes if row % 16 < 8 else 0)]) * frame.planes[0].line_size
        for row in range(72)
    )
    frame.planes[0].update(rows)
    for plane in frame.planes[1:]:
        plane.update(b"\x80" * plane.buffer_size)
    return frame


def test_detail_is_better_than_none_and_light_better_than_darkness() -> None:
    detailed, plain = score(flat(100, stripes=50)), score(flat(100))
    dark, dazzling = score(flat(16, stripes=6)), score(flat(229, stripes=6))
    assert detailed > plain
    assert detailed > dark
    assert detailed > dazzling
    assert dark < 1


def test_a_jpeg_keeps_what_it_shows() -> None:
    # Video's range is 16 to 235, that of a JPEG 0 to 255.
    assert abs(mean(jpeg(flat(126))) - 128) < 3
    assert mean(jpeg(flat(16))) < 3
