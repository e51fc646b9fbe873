"""The times in a video at which thumbnails are sampled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.sample_times import MOST_SAMPLES, coarse_to_fine, sample_times

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
def test_pictures_cover_two_to_ten_seconds_and_are_never_too_many(
    seconds: float, count: int, step: float
) -> None:
    moments = sample_times(round(seconds * SECOND))
    assert len(moments) == count
    assert moments[0] == 0
    assert moments[1:2] == ([round(step * SECOND)] if count > 1 else [])


@given(st.integers(0, 24 * 3600 * SECOND))
def test_moments_rise_and_are_within_the_film(length_us: int) -> None:
    moments = sample_times(length_us)
    assert 1 <= len(moments) <= MOST_SAMPLES
    assert moments == sorted(set(moments))
    assert moments[-1] < max(1, length_us)


def test_the_film_is_seen_from_end_to_end_before_it_is_seen_closely() -> None:
    assert list(coarse_to_fine(0)) == []
    assert list(coarse_to_fine(1)) == [0]
    assert list(coarse_to_fine(2)) == [0, 1]
    assert list(coarse_to_fine(10)) == [0, 8, 4, 2, 6, 1, 3, 5, 7, 9]


@given(st.integers(0, 500))
def test_every_place_comes_once(count: int) -> None:
    assert sorted(coarse_to_fine(count)) == list(range(count))
