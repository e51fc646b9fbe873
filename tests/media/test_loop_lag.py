from itertools import accumulate

import pytest

from media.loop_lag import BEAT_SECONDS, LoopLag


def beaten(*times: float) -> LoopLag:
    lag = LoopLag()
    for now in times:
        lag.beat(now)
    return lag


def test_a_loop_without_a_beat_has_no_lag() -> None:
    lag = LoopLag()
    assert lag.read_until(50.0) == 50.0
    assert lag.elapsed(10.0, 50.0) == 40.0


def test_a_beat_that_is_a_little_late_is_no_lag() -> None:
    lag = beaten(10.0, 10.2, 10.5)
    assert lag.count == 0
    assert lag.read_until(10.7) == 10.7
    assert lag.elapsed(10.0, 10.7) == pytest.approx(0.7)


def test_a_late_beat_is_a_lag_of_the_same_length() -> None:
    lag = LoopLag()
    assert [lag.beat(at) for at in (10.0, 10.1, 12.4, 12.5)] == [0, 0, pytest.approx(2.2), 0]
    assert lag.count == 1
    assert lag.seconds == pytest.approx(2.2)


def test_until_one_beat_after_a_lag_peers_are_judged_as_of_its_beginning() -> None:
    lag = beaten(10.0, 10.1)
    assert lag.read_until(12.4) == 10.1  # a timer that ran before the beat
    lag.beat(12.4)
    assert lag.read_until(12.4) == 10.1
    assert lag.read_until(12.45) == 10.1
    lag.beat(12.5)
    assert lag.read_until(12.5) == 12.5


def test_a_time_before_the_lag_stays_what_it_is() -> None:
    lag = beaten(10.0, 10.1, 12.4)
    assert lag.read_until(10.05) == 10.05  # a loop's clock that was read before the lag


def test_a_second_lag_in_a_row_is_judged_as_of_its_own_beginning() -> None:
    # Between the two the loop has read its sockets, so a silent peer was really silent.
    lag = beaten(10.0, 12.0)
    assert lag.read_until(14.0) == 10.0
    lag.beat(14.0)
    assert lag.read_until(14.0) == 12.0


@pytest.mark.parametrize(
    ("since", "now", "elapsed"),
    [
        pytest.param(9.0, 10.0, 1.0, id="before the lag"),
        pytest.param(13.0, 14.0, 1.0, id="after the lag"),
        pytest.param(9.0, 14.0, 3.0, id="around the lag"),
        pytest.param(11.0, 14.0, 1.9, id="from within"),
        pytest.param(9.0, 11.0, 1.1, id="up to a moment within"),
        pytest.param(14.0, 13.0, -1.0, id="not yet"),
    ],
)
def test_elapsed_time_leaves_the_lag_out(since: float, now: float, elapsed: float) -> None:
    # From 10.1 to 12.1.
    lag = beaten(10.0, 12.1, *(12.1 + each * BEAT_SECONDS for each in range(1, 20)))
    assert lag.elapsed(since, now) == pytest.approx(elapsed)


def test_elapsed_time_leaves_a_lag_out_that_no_beat_has_shown_yet() -> None:
    lag = beaten(10.0, 10.1)
    assert lag.elapsed(10.0, 12.4) == pytest.approx(0.2)
    assert lag.elapsed(12.0, 12.4) == pytest.approx(0.0)


def test_several_lags_are_left_out_each() -> None:
    lag = beaten(*accumulate([10.0] + [1.0] * 1000))
    # Of each second the loop was held up for 0.9.
    assert lag.elapsed(1000.0, 1010.0) == pytest.approx(1.0)
    # The oldest are not remembered.
    assert pytest.approx(lag.elapsed(10.0, 1010.0)) == 1000 - 256 * 0.9
    assert lag.count == 1000
