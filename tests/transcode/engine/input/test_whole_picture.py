"""The first whole picture of files that begin with damage."""

import random
from pathlib import Path

import pytest

from tests.support.engine.sources import ffmpeg
from transcode.engine.input.container import open_upload, video_stream
from transcode.engine.input.whole_picture import first_whole_picture


@pytest.fixture
def film(tmp_path: Path) -> bytearray:
    """Two seconds whose keyframes are 0.4 s apart, each of some kilobytes."""
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-pix_fmt", "yuv420p")
    path = tmp_path / "whole.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=2", *coding, "-y", path)
    return bytearray(path.read_bytes())


def first_time(path: Path) -> float | None:
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        picture = video_stream(upload)
        assert picture is not None
        frame = first_whole_picture(upload, picture)
        return None if frame is None else frame.time


def test_the_first_of_a_good_file_is_its_first(film: bytearray, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(film)
    assert first_time(tmp_path / "a.mp4") == 0


def test_damaged_pictures_are_passed_over(film: bytearray, tmp_path: Path) -> None:
    """A decoder conceals noise in a picture and marks it, and all that refer to it follow."""
    begin = film.index(b"mdat") + 1_500
    film[begin : begin + 500] = random.Random(1).randbytes(500)
    (tmp_path / "a.mp4").write_bytes(film)
    first_pts = first_time(tmp_path / "a.mp4")
    assert first_pts is not None
    assert first_pts > 0
