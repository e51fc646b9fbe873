"""The limit of concurrent operations, per caller and in total."""

from contextlib import ExitStack

import pytest

from api.http.errors import ApiError
from api.intake.concurrency_limit import ConcurrencyLimit
from media.fair_share import Holder


def caller(number: int) -> tuple[Holder, ...]:
    return (Holder(f"caller {number}"),)


def status(gate: ConcurrencyLimit, number: int) -> int:
    try:
        with gate.acquire(caller(number)):
            return 200
    except ApiError as error:
        assert error.headers == {"Retry-After": "10"}
        return error.status_code


def test_callers_are_limited_each_and_in_total() -> None:
    gate = ConcurrencyLimit(3)
    with ExitStack() as inside:
        for number in (1, 1):
            inside.enter_context(gate.acquire(caller(number)))
        assert (status(gate, 1), status(gate, 2)) == (429, 200)
        inside.enter_context(gate.acquire(caller(2)))
        assert (status(gate, 1), status(gate, 2), status(gate, 3)) == (503, 503, 503)
        assert len(gate) == 3
    assert (status(gate, 1), status(gate, 2), status(gate, 3)) == (200, 200, 200)
    assert len(gate) == 0


def test_a_place_is_released_after_an_error() -> None:
    gate = ConcurrencyLimit(1)
    with pytest.raises(RuntimeError), gate.acquire(caller(1)):
        raise RuntimeError
    assert status(gate, 1) == 200
