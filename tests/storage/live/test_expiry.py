"""When segments and init sections may go."""

import pytest

from storage.live.expiry import Expiry
from storage.live.run_state import RunState, Step, StepSegment


def step(number: int, *, top: int | None = 0, low: int | None = 0) -> Step:
    """A step by the init sections of its two rungs; None is a gap after init section 0."""
    cuts = {
        name: StepSegment(
            start=0, duration=1, size=1, frames=1, parts=1, init=init or 0, gap=init is None
        )
        for name, init in (("top", top), ("low", low))
    }
    return Step(sequence=number, epoch=0, discontinuity=False, origin_us=0, segments=cuts)


def notes(left: int, listed: int, *, shown: int = 0) -> RunState:
    steps = [step(number) for number in range(left + listed)]
    return RunState(unlisted=tuple(steps[:left]), listed=tuple(steps[left:]), oldest_shown=shown)


def test_a_step_is_due_when_it_has_been_out_of_the_playlists_on_disk_for_long_enough() -> None:
    expiry = Expiry(RunState(), kept_seconds=60.0, now=0.0)
    now = notes(1, 2)
    assert not expiry.is_due(step(0), 1000.0)  # the playlists that lack it are not written yet
    expiry.mark_published(now, 1000.0)
    assert expiry.oldest_shown == 1
    expiry.mark_published(notes(2, 2), 1050.0)
    assert not expiry.is_due(step(0), 1059.9)
    assert expiry.is_due(step(0), 1060.0)
    assert not expiry.is_due(step(1), 1109.9)
    assert expiry.is_due(step(1), 1110.0)


def test_after_a_restart_it_is_kept_anew_and_only_what_no_playlist_names_can_go() -> None:
    expiry = Expiry(notes(4, 2, shown=3), kept_seconds=60.0, now=5.0)
    assert [expiry.is_due(step(number), 64.9) for number in range(4)] == [False] * 4
    assert [expiry.is_due(step(number), 65.0) for number in range(4)] == [True] * 3 + [False]
    expiry.mark_published(notes(4, 2), 70.0)
    assert expiry.is_due(step(3), 130.0)


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
    expiry = Expiry(RunState(), kept_seconds=60.0, now=0.0)
    made = [step(number, top=top, low=low) for number, (top, low) in enumerate(steps)]
    found: dict[str, list[int]] = {}
    next_inits = {"top": following[0], "low": following[1]}
    for name, number in expiry.unneeded_inits(made, open_inits=making, next_inits=next_inits):
        found.setdefault(name, []).append(number)
    assert found == gone
    assert list(expiry.unneeded_inits(made, open_inits=making, next_inits=next_inits)) == []


def test_a_deletion_that_was_broken_off_is_told_again() -> None:
    expiry = Expiry(RunState(), kept_seconds=60.0, now=0.0)
    wanted = {"open_inits": {}, "next_inits": {"top": 3}}
    assert next(expiry.unneeded_inits([], **wanted)) == ("top", 0)
    assert list(expiry.unneeded_inits([], **wanted)) == [("top", 0), ("top", 1)]
