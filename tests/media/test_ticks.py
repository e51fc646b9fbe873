from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.ticks import AUDIO_SCALE, MILLISECONDS, VIDEO_SCALE, rescale, since_epoch_us, utc


@pytest.mark.parametrize(
    ("ticks", "old", "new", "expected"),
    [
        pytest.param(33, MILLISECONDS, VIDEO_SCALE, 2970, id="a millisecond is 90 ticks"),
        pytest.param(1, VIDEO_SCALE, MILLISECONDS, 0, id="down to nothing"),
        pytest.param(45, VIDEO_SCALE, MILLISECONDS, 1, id="halves go up"),
        pytest.param(-45, VIDEO_SCALE, MILLISECONDS, 0, id="negative halves go up too"),
        pytest.param(1024, AUDIO_SCALE, VIDEO_SCALE, 1920, id="an AAC frame"),
    ],
)
def test_rescale(ticks: int, old: int, new: int, expected: int) -> None:
    assert rescale(ticks, old, new) == expected


@given(st.integers(-(1 << 60), 1 << 60))
def test_milliseconds_survive_the_way_there_and_back(ticks: int) -> None:
    milliseconds = rescale(ticks, MILLISECONDS, VIDEO_SCALE)
    assert rescale(milliseconds, VIDEO_SCALE, MILLISECONDS) == ticks


def test_a_wall_clock_time_is_exact_to_the_microsecond() -> None:
    assert utc(1_767_225_600_123_457) == datetime(2026, 1, 1, 0, 0, 0, 123_457, UTC)
    assert utc(-1) == datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    with pytest.raises(OverflowError):
        utc(1 << 62)


@given(st.datetimes(timezones=st.just(UTC)))
def test_wall_clock_times_survive_the_way_there_and_back(moment: datetime) -> None:
    assert utc(since_epoch_us(moment)) == moment
