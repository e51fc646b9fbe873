"""How long parked connections may wait: one timer for all of them, on a manual clock."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from headend.http.parked import ParkedConnections


class ManualLoop:
    """The clock and the timers of an event loop; `advance` moves both."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., None], *args: Any) -> object:
        self.timers.append((self.now + delay, lambda: call(*args)))
        return self.timers[-1]

    def advance(self, seconds: float) -> None:
        """Advance the clock, calling each timer at its time."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= end]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now = first[0]
            first[1]()
        self.now = end


class Waiting:
    """A connection that counts how often it was given up."""

    def __init__(self) -> None:
        self.given_up = 0

    def give_up(self) -> None:
        self.given_up += 1


@pytest.fixture
def clock() -> ManualLoop:
    return ManualLoop()


def loop_of(clock: ManualLoop) -> asyncio.AbstractEventLoop:
    return cast("asyncio.AbstractEventLoop", clock)


def test_each_is_given_up_when_its_time_is_over_and_not_before(
    clock: ManualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    parked = ParkedConnections(15.0)
    first, second = Waiting(), Waiting()
    parked.add(first, loop_of(clock))
    clock.advance(10)
    parked.add(second, loop_of(clock))
    clock.advance(4.9)
    assert (first.given_up, second.given_up) == (0, 0)
    with caplog.at_level(logging.WARNING):
        clock.advance(0.2)
    assert (first.given_up, second.given_up, len(parked)) == (1, 0, 1)
    assert "parked requests not answered" in caplog.text
    clock.advance(9.8)
    assert second.given_up == 0
    clock.advance(1.2)
    assert (first.given_up, second.given_up, len(parked)) == (1, 1, 0)


def test_one_that_was_answered_is_left_alone(clock: ManualLoop) -> None:
    parked = ParkedConnections(15.0)
    answered = Waiting()
    parked.add(answered, loop_of(clock))
    clock.advance(14)
    parked.remove(answered)
    parked.remove(answered)
    parked.add(answered, loop_of(clock))  # its next request
    clock.advance(14)
    assert (answered.given_up, len(parked)) == (0, 1)


def test_thousands_share_one_timer_and_an_idle_server_has_none(clock: ManualLoop) -> None:
    parked = ParkedConnections(15.0)
    many = [Waiting() for _ in range(3000)]
    for each in many:
        parked.add(each, loop_of(clock))
        clock.advance(0.01)
        assert len(clock.timers) <= 1
    clock.advance(20)
    assert {each.given_up for each in many} == {1}
    assert not clock.timers
