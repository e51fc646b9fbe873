"""Where in a film its keyframes are looked for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.no_op import never
from tests.support.engine.upload_files import film
from transcode.engine.images.keyframe_sampler import (
    MOST_SAMPLES,
    coarse_to_fine,
    sample_keyframes,
    sample_times,
)
from transcode.engine.input.container import open_upload, video_stream

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("seconds", "count", "step"),
    [
        (0, 1, 0),
        (0.4, 1, 0),
        (3, 6, 0.5),
        (60, 30, 2),
        (200, 100, 2),
        (600, 100, 6),
        (1000, 100, 10),
        (3600, 360, 10),
        (7200, 400, 18),
        (86_400, 400, 216),
    ],
)
def test_pictures_stand_for_two_to_ten_seconds_and_are_never_too_many(
    seconds: float, count: int, step: float
) -> None:
    found = sample_times(round(seconds * SECOND))
    assert len(found) == count
    assert found[0] == 0
    assert found[1:2] == ([round(step * SECOND)] if count > 1 else [])


@given(st.integers(0, 24 * 3600 * SECOND))
def test_places_rise_and_lie_within_the_film(length_us: int) -> None:
    found = sample_times(length_us)
    assert 1 <= len(found) <= MOST_SAMPLES
    assert found == sorted(set(found))
    assert found[-1] < max(1, length_us)


def test_the_film_is_seen_from_end_to_end_before_it_is_seen_closely() -> None:
    assert list(coarse_to_fine(0)) == []
    assert list(coarse_to_fine(1)) == [0]
    assert list(coarse_to_fine(2)) == [0, 1]
    assert list(coarse_to_fine(10)) == [0, 8, 4, 2, 6, 1, 3, 5, 7, 9]


@given(st.integers(0, 500))
def test_every_place_comes_once(count: int) -> None:
    assert sorted(coarse_to_fine(count)) == list(range(count))


@pytest.mark.parametrize("held_back", [0, 2])
def test_keyframes_are_found_all_over_a_film(tmp_path: Path, held_back: int) -> None:
    """With B-frames a decoder gives a keyframe only when it is flushed."""
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-sc_threshold", "0")
    path = film(tmp_path / "a.mp4", *coding, "-bf", str(held_back), seconds=10, size=(64, 64))
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        picture = video_stream(upload)
        assert picture is not None
        found = [each.at for each in sample_keyframes(upload, picture, 10 * SECOND, never)]
    assert sorted(found) == [0, 2000, 4000, 6000, 8000]
