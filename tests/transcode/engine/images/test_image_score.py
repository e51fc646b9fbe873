"""What makes a picture a good poster: light, detail, sharpness, and none of them alone."""

import math

import pytest
from av.video.frame import VideoFrame
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine.raw_images import flat
from transcode.engine.images.image_score import ImageScorer, entropy, image_score


def test_detail_is_better_than_none_and_light_better_than_darkness() -> None:
    judge = ImageScorer()
    detailed, plain = judge.score(flat(100, stripes=50)), judge.score(flat(100))
    dark, dazzling = judge.score(flat(16, stripes=6)), judge.score(flat(229, stripes=6))
    assert detailed > plain
    assert plain > dark
    assert plain > dazzling


def test_pictures_of_all_sizes_and_forms_are_judged_by_one_judge() -> None:
    judge = ImageScorer()
    for width, height, form in ((16, 16, "yuv420p"), (1920, 1080, "yuv444p"), (90, 160, "rgb24")):
        frame = VideoFrame(width, height, form)
        for plane in frame.planes:
            plane.update(b"\x60" * plane.buffer_size)
        assert judge.score(frame) > 0


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param((120, 4.0, 8.0), (120, 4.0, 2.0), id="sharp, blurred"),
        pytest.param((120, 4.0, 8.0), (120, 1.0, 8.0), id="a scene, a chequerboard"),
        pytest.param((120, 3.5, 5.0), (24, 1.0, 12.0), id="a scene, white letters on black"),
        pytest.param((60, 3.0, 4.0), (120, 0.3, 0.4), id="dusk, fog"),
        pytest.param((120, 4.0, 8.0), (205, 4.0, 8.0), id="well lit, washed out"),
        pytest.param((40, 2.0, 3.0), (20, 2.0, 3.0), id="night, black"),
    ],
)
def test_of_two_pictures_one_is_the_better_poster(
    better: tuple[float, float, float], worse: tuple[float, float, float]
) -> None:
    assert image_score(*better) > image_score(*worse)


def test_entropy_is_the_bits_of_a_level() -> None:
    assert entropy(b"") == 0
    assert entropy(b"\x40" * 100) == 0
    assert entropy(b"\x00\xff" * 50) == pytest.approx(1)
    assert entropy(bytes(range(256))) == pytest.approx(5)


@given(st.binary(max_size=300), st.floats(0, 255), st.floats(0, 255))
def test_merit_is_a_number_above_zero(levels: bytes, mean: float, sharp: float) -> None:
    score = image_score(mean, entropy(levels), sharp)
    assert math.isfinite(score)
    assert score > 0
