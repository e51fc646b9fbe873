"""When segments and init sections may go."""

import pytest

from delivery.run.expiry import Expiry
from delivery.run.run_state import RunState, Step, StepSegment


def step(number: int, *, top: int | None = 0, low: int | None = 0) -> Step:
    """Return a step by the init sections of its two rungs; None is a gap after init section 0."""
    cuts = {
        name: StepSegment(
            start=0, duration=1, size=1, frames=1, parts=1, init=init or 0, gap=init is None
        )
        for name, init in (("top", top), ("low", low))
    }
    return Step(sequence=number, epoch=0, discontinuity=False, origin_us=0, segments=cuts)


def begun(*listed: Step, oldest: int = 0, shown: int = 0, now: float = 0.0) -> Expiry:
    """Return an expiry that continues with the listed steps, after others since `oldest`."""
    first = listed[0].sequence if listed else 0
    state = RunState(first=first, oldest=oldest, oldest_shown=shown)
    return Expiry(state, listed, kept_seconds=60.0, now=now)


def test_a_step_is_due_when_it_has_been_out_of_the_playlists_on_disk_for_long_enough() -> None:
    expiry = begun()
    for number in range(5):
        expiry.add(step(number))
    assert not expiry.due(1000.0)  # the playlists that lack it are not written yet
    expiry.mark_published(1, 1000.0)
    assert expiry.oldest_shown == 1
    expiry.mark_published(2, 1050.0)
    assert not expiry.due(1059.9)
    assert expiry.due(1060.0) == range(1)
    assert expiry.due(1109.9) == range(1)
    assert expiry.due(1110.0) == range(2)
    expiry.remove(0)
    assert (expiry.oldest, expiry.due(1110.0)) == (1, range(1, 2))


def test_after_a_restart_it_is_kept_anew_and_only_what_no_playlist_names_can_go() -> None:
    expiry = begun(step(4), step(5), shown=3, now=5.0)
    assert not expiry.due(64.9)
    assert expiry.due(65.0) == range(3)
    expiry.mark_published(4, 70.0)
    for number in range(3):
        expiry.remove(number)
    assert not expiry.due(129.9)
    assert expiry.due(130.0) == range(3, 4)


def test_playlists_that_show_the_same_as_before_change_nothing() -> None:
    expiry = begun(step(0), step(1))
    expiry.mark_published(0, 10.0)
    expiry.mark_published(1, 20.0)
    expiry.mark_published(1, 30.0)
    assert expiry.due(80.0) == range(1)


@pytest.mark.parametrize(
    ("steps", "making", "following", "gone"),
    [
        pytest.param([(2, 2), (2, 2)], {}, (3, 3), {"top": [0, 1], "low": [0, 1]}, id="new source"),
        pytest.param([(1, 2), (2, 2)], {}, (3, 3), {"top": [0], "low": [0, 1]}, id="still listed"),
        pytest.param(
            [(2, 2)], {"top": 1}, (3, 3), {"top": [0], "low": [0, 1]}, id="needed by a step to come"
        ),
        pytest.param(
            [(None, 2), (None, 2)], {}, (1, 3), {"low": [0, 1]}, id="a rung that may return"
        ),
        pytest.param(
            [(None, 2)], {}, (3, 3), {"top": [0, 1], "low": [0, 1]}, id="it returns with its newest"
        ),
    ],
)
def test_init_sections_go_when_nothing_needs_them(
    steps: list[tuple[int | None, int | None]],
    making: dict[str, int],
    following: tuple[int, int],
    gone: dict[str, list[int]],
) -> None:
    expiry = begun(step(0))  # the step with the first init sections, which has been removed since
    for number, (top, low) in enumerate(steps, 1):
        expiry.add(step(number, top=top, low=low))
    expiry.remove(0)
    deleted: dict[str, list[int]] = {}
    next_inits = {"top": following[0], "low": following[1]}
    for name, number in expiry.unneeded_inits(open_inits=making, next_inits=next_inits):
        deleted.setdefault(name, []).append(number)
    assert deleted == gone
    assert list(expiry.unneeded_inits(open_inits=making, next_inits=next_inits)) == []


def test_after_a_restart_init_sections_stay_until_the_steps_before_the_listed_are_gone() -> None:
    state = RunState(first=4, oldest=2, oldest_shown=4, oldest_inits={"top": 1, "low": 0})
    listed = (step(4, top=3, low=None), step(5, top=4, low=None))
    expiry = Expiry(state, listed, kept_seconds=60.0, now=0.0)
    next_inits = {"top": 5, "low": 2}
    expiry.remove(2)
    assert list(expiry.unneeded_inits(open_inits={}, next_inits=next_inits)) == []
    expiry.remove(3)
    gone = list(expiry.unneeded_inits(open_inits={}, next_inits=next_inits))
    assert gone == [("top", 1), ("top", 2), ("low", 0)]
    assert expiry.oldest_inits == {"top": 3, "low": 1}
    expiry.remove(4)
    assert list(expiry.unneeded_inits(open_inits={}, next_inits=next_inits)) == [("top", 3)]


def test_a_deletion_that_was_interrupted_is_repeated() -> None:
    expiry = begun()
    next_inits = {"top": 3}
    assert next(expiry.unneeded_inits(open_inits={}, next_inits=next_inits)) == ("top", 0)
    again = expiry.unneeded_inits(open_inits={}, next_inits=next_inits)
    assert list(again) == [("top", 0), ("top", 1)]
