"""The cascade, with real frames."""

from fractions import Fraction

import pytest
from av.error import FFmpegError
from av.video.frame import VideoFrame

from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.scaler import Cascade, fit

SQUARE = Fraction(1)


def grey(
    width: int, height: int, form: str = "yuv420p", level: int = 200, pts: int = 0
) -> VideoFrame:
    frame = VideoFrame(width, height, form)
    for index, plane in enumerate(frame.planes):
        plane.update(bytes([level if index == 0 else 128]) * plane.buffer_size)
    frame.pts, frame.time_base = pts, TIME_BASE
    return frame


def luma(frame: VideoFrame, x: int, y: int) -> int:
    plane = frame.planes[0]
    return bytes(plane)[y * plane.line_size + x]


@pytest.mark.parametrize(
    ("size", "aspect", "box", "expected"),
    [
        pytest.param((1920, 1080), SQUARE, (1280, 720), (1280, 720), id="the same shape"),
        pytest.param((1920, 1080), SQUARE, (854, 480), (854, 480), id="but for rounding"),
        pytest.param((1440, 1080), SQUARE, (1280, 720), (960, 720), id="bars at the sides"),
        pytest.param((1920, 800), SQUARE, (1280, 720), (1280, 534), id="bars above and below"),
        pytest.param((720, 576), Fraction(64, 45), (720, 576), (720, 404), id="wide pixels"),
        pytest.param((1080, 1920), SQUARE, (406, 720), (406, 720), id="portrait"),
        pytest.param((16, 16), Fraction(1, 65_535), (640, 360), (2, 360), id="absurd pixels"),
    ],
)
def test_a_picture_fits_into_its_box(
    size: tuple[int, int], aspect: Fraction, box: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert fit(*size, aspect, box) == expected


def test_a_frame_comes_out_in_all_sizes_with_its_time() -> None:
    sizes = ((640, 360), (426, 240), (256, 144))
    cascade = Cascade(sizes)
    for pts in (900_000, 903_000):
        frames = cascade.scale(grey(1280, 720, pts=pts), SQUARE)
        assert [(frame.width, frame.height) for frame in frames] == list(sizes)
        assert {frame.pts for frame in frames} == {pts}
        assert {frame.format.name for frame in frames} == {"yuv420p"}
        assert {luma(frame, 10, 10) for frame in frames} == {200}


@pytest.mark.parametrize("form", ["yuv444p", "yuv422p10le", "nv12", "gray", "yuvj420p"])
def test_every_format_becomes_8_bits_420(form: str) -> None:
    frame = VideoFrame(320, 180, form)
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    frame.pts, frame.time_base = 0, TIME_BASE
    (thumbnail,) = Cascade(((320, 180),)).scale(frame, SQUARE)
    assert (thumbnail.format.name, thumbnail.width, thumbnail.height) == ("yuv420p", 320, 180)


def test_another_shape_gets_black_bars() -> None:
    first, second = Cascade(((640, 360), (320, 180))).scale(grey(480, 360), SQUARE)
    for frame, scale in ((first, 2), (second, 1)):
        assert luma(frame, 10 * scale, 90 * scale) == 16
        assert luma(frame, 310 * scale, 90 * scale) == 16
        assert luma(frame, 160 * scale, 90 * scale) == 200


def test_frames_that_change_their_form_keep_the_output_sizes() -> None:
    cascade = Cascade(((640, 360), (320, 180)))
    for size in ((1280, 720), (640, 480), (1280, 720), (360, 640)):
        frames = cascade.scale(grey(*size), SQUARE)
        assert [(frame.width, frame.height) for frame in frames] == [(640, 360), (320, 180)]


def test_full_range_becomes_the_range_of_video() -> None:
    (frame,) = Cascade(((320, 180),)).scale(grey(320, 180, "yuvj420p", level=255), SQUARE)
    assert luma(frame, 100, 100) == 235


def test_what_cannot_be_scaled_is_an_error_and_the_next_frame_is_not() -> None:
    cascade = Cascade(((320, 180),))
    with pytest.raises(FFmpegError):
        cascade.scale(grey(320, 180), Fraction(-1))
    (frame,) = cascade.scale(grey(320, 180), SQUARE)
    assert luma(frame, 1, 1) == 200
