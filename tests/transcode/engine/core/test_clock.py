"""Where a source's times lie on the output clock."""

from transcode.engine.core.clock import JUMP, OutputClock

ORIGIN = 900_000


def test_the_first_time_goes_to_the_origin() -> None:
    clock = OutputClock(first=5_000, scale=1_000, origin=ORIGIN)
    assert clock.place(5_000, 1_000) == ORIGIN
    assert clock.place(5_040, 1_000) == ORIGIN + 3_600
    assert clock.place(4_960, 1_000) == ORIGIN - 3_600


def test_tracks_of_different_scales_share_it() -> None:
    clock = OutputClock(first=2_000, scale=1_000, origin=ORIGIN)
    assert clock.place(48_000 * 3, 48_000) == ORIGIN + 90_000


def test_holes_of_seconds_are_the_sources_own() -> None:
    clock = OutputClock(first=0, scale=1_000, origin=ORIGIN)
    assert not clock.advance(0, 1_000)
    assert not clock.advance(19_000, 1_000)
    assert clock.place(19_000, 1_000) == ORIGIN + 19 * 90_000


def test_after_a_jump_times_continue_where_the_source_was() -> None:
    for jump in (10**9, -(10**9)):
        clock = OutputClock(first=0, scale=1_000, origin=ORIGIN)
        assert not clock.advance(1_000, 1_000)
        assert clock.advance(1_000 + jump, 1_000)
        assert clock.place(1_000 + jump, 1_000) == ORIGIN + 90_000 + 3_000
        assert not clock.advance(1_040 + jump, 1_000)
        assert clock.place(1_040 + jump, 1_000) == ORIGIN + 90_000 + 3_000 + 3_600


def test_a_picture_that_comes_back_after_a_long_freeze_did_not_jump() -> None:
    clock = OutputClock(first=0, scale=1_000, origin=ORIGIN)
    assert not clock.advance(1_000, 1_000)
    clock.advance_to(ORIGIN + 59 * 90_000)
    assert not clock.advance(60_000, 1_000)
    assert clock.place(60_000, 1_000) == ORIGIN + 60 * 90_000
    clock.advance_to(ORIGIN)
    assert clock.advance(85_000, 1_000), "it does not go back"


def test_a_jump_is_more_than_any_live_hole() -> None:
    assert JUMP == 20 * 90_000
