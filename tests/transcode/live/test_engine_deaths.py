import pytest

from transcode.live.engine_deaths import PERIOD_SECONDS, EngineDeaths


def deaths(*lives: tuple[float, float]) -> EngineDeaths:
    """Engines that died at the given times after so many seconds."""
    engine_deaths = EngineDeaths()
    for now, lived in lives:
        engine_deaths.record(now, lived=lived)
    return engine_deaths


def test_the_first_engine_starts_at_once() -> None:
    assert EngineDeaths().pause(0.0) == 0.0
    assert not EngineDeaths().are_too_many(0.0)


def test_an_engine_that_worked_is_replaced_at_once() -> None:
    assert deaths((100.0, 30.0)).pause(100.0) == 0.0


def test_engines_that_die_as_they_start_pause_longer_each_time() -> None:
    lives: list[tuple[float, float]] = []
    pauses: list[float] = []
    now = 100.0
    for _ in range(7):
        now += 1.0
        lives.append((now, 1.0))
        pauses.append(deaths(*lives).pause(now))
        now += pauses[-1]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_an_engine_that_worked_ends_the_series() -> None:
    assert deaths((100.0, 1.0), (101.0, 1.0), (120.0, 18.0)).pause(120.0) == 0.0
    assert deaths((100.0, 1.0), (120.0, 18.0), (121.0, 1.0)).pause(121.0) == 0.5


def test_time_that_has_passed_since_counts_as_a_pause() -> None:
    short = deaths((100.0, 1.0), (101.0, 1.0), (103.0, 1.0))
    assert short.pause(103.5) == pytest.approx(1.5)
    assert short.pause(110.0) == 0.0


@pytest.mark.parametrize(("period", "too_many"), [(59.0, True), (61.0, False)])
def test_five_deaths_within_a_minute_are_too_many(period: float, too_many: bool) -> None:
    times = [100.0 + each * period / 4 for each in range(5)]
    assert not deaths(*((at, 10.0) for at in times[:4])).are_too_many(times[3])
    assert deaths(*((at, 10.0) for at in times)).are_too_many(times[4]) is too_many


def test_old_deaths_do_not_matter() -> None:
    old = deaths(*((100.0 + each, 1.0) for each in range(5)))
    now = 104.0 + PERIOD_SECONDS
    assert not old.is_over(now)
    assert old.is_over(now + 1)
    assert old.pause(now + 1) == 0.0
    assert not old.are_too_many(now + 1)
    old.record(now + 1, lived=1.0)
    assert old.pause(now + 1) == 0.5
