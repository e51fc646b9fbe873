"""Which times of a damaged file are strays, and which are holes or another recording."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcode.engine.input.stray_times import time_line

SECOND = 90_000
STEP = SECOND // 25


def at(begin: float, seconds: float) -> list[int]:
    """The times of 25 packets a second."""
    return [round(begin * SECOND) + index * STEP for index in range(round(seconds * 25))]


def bounds(times: list[int]) -> tuple[int, int] | None:
    line = time_line(times)
    return (line.first, line.last) if line is not None and line.strays else None


LINE = (0, 250 * STEP - STEP)  # of ten seconds


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param(at(0, 4) + at(22, 2) + at(6, 4), LINE, id="two seconds, much later"),
        pytest.param(at(0, 4) + at(-40, 2) + at(6, 4), LINE, id="two seconds, long before"),
        pytest.param([*at(0, 4), 30 * SECOND, *at(4, 6)], LINE, id="one packet"),
        pytest.param(at(0, 2) + at(50, 1) + at(3, 2) + at(90, 1) + at(6, 4), LINE, id="two places"),
        pytest.param(at(0, 6) + at(24, 3) + at(9, 1), LINE, id="shortly before the end"),
        pytest.param(at(0, 10), None, id="none"),
        pytest.param(at(0, 4) + at(18, 4), None, id="a hole"),
        pytest.param(at(0, 4) + at(300, 1) + at(310, 4), None, id="two holes"),
        pytest.param(at(100, 5) + at(0, 10), None, id="another recording"),
        pytest.param(at(0, 10) + at(0, 10), None, id="the same again"),
        pytest.param(at(0, 8) + at(5, 1) + at(9, 6), None, id="within the others"),
        pytest.param(at(0, 6) + at(40, 1), None, id="at the end: it may be a hole"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_strays_are_times_outside_and_between(
    times: list[int], expected: tuple[int, int] | None
) -> None:
    assert bounds(times) == expected


def test_pictures_out_of_order_are_no_strays_however_slowly_they_come() -> None:
    minute = 60 * SECOND
    group = [0, 8, 4, 2, 1, 3, 6, 5, 7]  # a pyramid of B-frames
    assert bounds([minute * (8 * index + each) for index in range(9) for each in group]) is None


@given(st.lists(st.integers(-(10**9), 10**9), max_size=60))
def test_any_times_give_bounds_within_them_or_none(times: list[int]) -> None:
    limits = bounds(times)
    if limits is not None:
        assert min(times) <= limits[0] <= limits[1] <= max(times)
        assert limits != (min(times), max(times))


@pytest.mark.parametrize(
    ("times", "restarts"),
    [
        pytest.param(at(0, 10) + at(0, 10), True, id="the same again"),
        pytest.param(at(0, 4) + at(0, 10), True, id="a longer one"),
        pytest.param(at(100, 10) + at(0, 4), True, id="a shorter one"),
        pytest.param(at(18, 2) + at(2, 8), True, id="damage at the beginning"),
        pytest.param(at(0, 4) + at(22, 2) + at(6, 4), False, id="strays"),
        pytest.param(at(0, 8) + at(5, 1) + at(9, 6), False, id="strays within the others"),
    ],
)
def test_a_clock_that_restarts_is_distinguished_from_strays(
    times: list[int], restarts: bool
) -> None:
    line = time_line(times)
    assert line is not None
    assert line.restarts is restarts


def test_times_that_leap_with_each_packet_have_no_bounds() -> None:
    assert bounds([index % 2 * 100 * SECOND + index for index in range(5_000)]) is None
