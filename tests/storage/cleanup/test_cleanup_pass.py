"""A pass goes on past failures, logs them in one line, and ends where the whole store fails."""

import logging

import pytest

from storage.cleanup.cleanup_pass import MAX_FAILURES, begin_pass
from storage.errors import CatalogError
from storage.objects.base import StoreFailed


@pytest.mark.parametrize(
    ("tries", "failing", "done", "objects"),
    [
        pytest.param(3, set[int](), 3, None, id="none fails"),
        pytest.param(5, {1, 3}, 5, 2, id="some fail"),
        pytest.param(99, set(range(99)), MAX_FAILURES, MAX_FAILURES, id="all fail"),
    ],
)
def test_failures(
    tries: int,
    failing: set[int],
    done: int,
    objects: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), begin_pass("things") as this_pass:
        for number in range(tries):
            this_pass.removed += 1
            with this_pass.failing():
                if number in failing:
                    raise StoreFailed(f"a/{number}", "busy")
    assert this_pass.removed == done
    first = None if objects is None else f"a/{min(failing)}: busy"
    lines = [(vars(each)["objects"], vars(each)["cause"]) for each in caplog.records]
    assert lines == ([] if objects is None else [(objects, first)])


def test_other_errors_end_a_pass_and_its_failures_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(CatalogError), begin_pass("things") as this_pass:
        with this_pass.failing():
            raise StoreFailed("a", "busy")
        with this_pass.failing():
            raise CatalogError("away")
    assert [record.getMessage() for record in caplog.records] == ["things not removed"]
