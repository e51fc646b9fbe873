"""A forward gap in a file's picture is a picture that is held, or a leap of its clock: pure."""

import pytest

from transcode.engine.vod.held_pictures import frame_rate, has_leap

SECOND = 90_000
HOUR = 3600 * SECOND
STEP = SECOND // 25


def moving(*ranges: tuple[float, float]) -> list[int]:
    return [
        at
        for begin, end in ranges
        for at in range(round(begin * SECOND), round(end * SECOND), STEP)
    ]


SCREEN = moving((0, 2), (47, 55))


@pytest.mark.parametrize(
    ("sound", "one_clock", "leaps"),
    [
        pytest.param([], True, False, id="silent, in Matroska"),
        pytest.param([], False, True, id="silent, in MPEG-TS"),
        pytest.param(moving((0, 55)), True, False, id="sound goes on"),
        pytest.param(moving((0, 55)), False, False, id="sound goes on, in MPEG-TS"),
        pytest.param(SCREEN, True, True, id="sound leaps with the picture"),
        pytest.param(moving((0, 3), (46.5, 55)), True, True, id="sound leaps, but not at once"),
        pytest.param(moving((0, 1)), True, False, id="sound was over before"),
        pytest.param(moving((50, 55)), True, False, id="sound begins later"),
        pytest.param(moving((0, 12), (40, 55)), False, False, id="sound goes on for ten seconds"),
    ],
)
def test_a_gap_is_a_leap_where_nothing_says_that_the_time_passed(
    sound: list[int], one_clock: bool, leaps: bool
) -> None:
    for heard in (sound, sound[::-1]):  # in any order
        assert leaps is has_leap(
            SCREEN, 55 * SECOND, durations={}, sound=heard, one_clock=one_clock
        )


def test_a_duration_says_that_the_time_passed() -> None:
    last = max(time for time in SCREEN if time < 3 * SECOND)

    def leaps(durations: dict[int, int] | None) -> bool:
        return has_leap(SCREEN, 55 * SECOND, durations=durations, sound=SCREEN, one_clock=False)

    assert not leaps({last: 47 * SECOND - last})
    assert leaps({last: 30 * SECOND})
    assert not leaps(None)


def test_a_day_is_the_most_that_is_held() -> None:
    day, slides = 24 * HOUR, [0, 12 * HOUR, 24 * HOUR - 30 * SECOND]
    assert not has_leap(slides, day, durations=None, sound=[], one_clock=True)
    assert has_leap(slides, day + 1, durations=None, sound=[], one_clock=True)
    # A last picture that claims to last for years does not.
    assert has_leap([0, STEP], 400 * 365 * day, durations=None, sound=[], one_clock=True)
    # Where there is no gap, there is nothing to join.
    minutes = list(range(0, 25 * HOUR, 10 * SECOND))
    assert not has_leap(minutes, 25 * HOUR, durations=None, sound=[], one_clock=True)


@pytest.mark.parametrize(
    ("shown", "end", "rate"),
    [
        pytest.param(moving((0, 4)), 4.0, 25_000, id="even"),
        pytest.param(SCREEN, 55.0, 25_000, id="a picture that stands for 45 s does not count"),
        pytest.param(moving((0, 2)), 40.0, 25_000, id="nor does the last one"),
        pytest.param([0, 15 * SECOND, 30 * SECOND], 45.0, 66, id="unless all stand"),
        pytest.param([0], 0.0, 0, id="unknown"),
    ],
)
def test_the_frame_rate_is_that_of_pictures_that_move(
    shown: list[int], end: float, rate: int
) -> None:
    assert frame_rate(shown, round(end * SECOND)) == rate
