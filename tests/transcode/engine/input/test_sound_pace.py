"""The rate of sound that a careless copy declares wrongly, found by its times."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

import pytest

from transcode.engine.input.sound_pace import SoundPace

_SECOND = 90_000
_FRAME = 1024


def rates(steps: Iterable[float], declared: int) -> Iterator[int]:
    """Yield the rate found with each frame, if the next one comes after so many seconds."""
    pace, milliseconds = SoundPace(), [0.0, *accumulate(step * 1000 for step in steps)]
    for time in milliseconds:
        yield pace.rate(round(time) * _SECOND // 1000, _FRAME, declared)


@pytest.mark.parametrize("declared", [48_000, 44_100, 32_000])
@pytest.mark.parametrize("actual", [48_000, 44_100, 32_000, 24_000])
def test_the_rate_is_that_of_the_times_after_some_frames(declared: int, actual: int) -> None:
    found = list(rates([_FRAME / actual] * 100, declared))
    assert set(found[:16]) == {declared}
    assert set(found[17:]) == {actual}


@pytest.mark.parametrize("error", [0.98, 1.02])
def test_a_clock_that_is_somewhat_wrong_changes_no_rate(error: float) -> None:
    found = set(rates([error * _FRAME / 48_000] * 100, 48_000))
    assert found == {48_000}


def test_holes_and_repetitions_change_no_rate() -> None:
    step = _FRAME / 44_100
    holes = [step * (9 if place % 11 == 0 else 1) for place in range(200)]
    assert set(rates(holes, 44_100)) == {44_100}
    assert set(rates([step, 0, -step, 3 * step] * 50, 44_100)) == {44_100}
    assert set(rates([0] * 100, 44_100)) == {44_100}


def test_the_rate_is_the_declared_one_again_where_the_times_are() -> None:
    steps = [_FRAME / 48_000] * 50 + [_FRAME / 44_100] * 50 + [_FRAME / 48_000] * 50
    found = list(rates(steps, 48_000))
    assert [found[place] for place in (49, 80, 130)] == [48_000, 44_100, 48_000]
    assert set(found) == {48_000, 44_100}
