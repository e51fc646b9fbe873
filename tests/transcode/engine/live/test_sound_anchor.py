"""Sound placed beside its picture: 25 pictures and 50 pieces of sound a second."""

from collections.abc import Callable

import pytest

from transcode.engine.live.sound_anchor import MOST_OFFSET, SoundAnchor

SECOND = 90_000
PICTURE, SOUND = SECOND // 25, SECOND // 50


def always(seconds: float) -> Callable[[int], int | None]:
    return lambda _: round(seconds * SECOND)


def play(
    anchor: SoundAnchor, seconds: int, offset_at: Callable[[int], int | None], *, start: int = 0
) -> tuple[list[tuple[int, int | None]], list[int]]:
    """Send pictures and sound in turns.

    `offset_at` returns how far the sound's stamps are ahead at a time, None for no sound. Returns
    when each piece of sound arrived and where it was placed, and the offsets that were reported.
    """
    placed: list[tuple[int, int | None]] = []
    moved: list[int] = []
    for at in range(start, start + seconds * SECOND, SOUND):
        if at % PICTURE == 0 and (offset := anchor.add_picture(at)) is not None:
            moved.append(offset)
        if (by := offset_at(at)) is not None:
            placed.append((at, anchor.place(at + by)))
    return placed, moved


@pytest.mark.parametrize("offset", [-3.9, -3, -1.1, 0, 1.1, 3, 3.9])
def test_up_to_four_seconds_the_stamps_count(offset: float) -> None:
    placed, moved = play(SoundAnchor(), 10, always(offset))
    assert moved == []
    assert all(where == at + round(offset * SECOND) for at, where in placed)


@pytest.mark.parametrize("offset", [-7_200, -60, -4.5, 4.5, 10, 60, 7_200])
def test_a_constant_offset_is_taken_out_after_a_second(offset: float) -> None:
    placed, moved = play(SoundAnchor(), 10, always(offset))
    assert len(moved) == 1
    assert moved[0] == pytest.approx(offset * SECOND, abs=PICTURE)
    for at, where in placed:
        if at > 1.2 * SECOND:
            assert where is not None
            assert abs(where - at) <= PICTURE
        elif where is not None:
            assert at > SECOND


def test_an_offset_that_comes_later_is_taken_out_and_so_is_its_end() -> None:
    anchor = SoundAnchor()
    by = [0, -30, 0]
    placed, moved = play(anchor, 30, lambda at: by[at // (10 * SECOND)] * SECOND)
    assert [round(offset / SECOND) for offset in moved] == [-30, 0]
    for at, where in placed:
        if at % (10 * SECOND) > 1.2 * SECOND:
            assert where is not None
            assert abs(where - at) <= PICTURE


def test_an_encoder_that_catches_up_is_not_moved() -> None:
    """Its sound was held up for 10 s and comes at twice its speed."""
    _, moved = play(
        SoundAnchor(), 30, lambda at: 0 if at < 5 * SECOND else min(0, at - 15 * SECOND)
    )
    assert moved == []


def test_one_absurd_stamp_is_not_placed_and_moves_nothing() -> None:
    odd = 3 * SECOND
    placed, moved = play(SoundAnchor(), 10, lambda at: 3_600 * SECOND if at == odd else 0)
    assert moved == []
    assert [at for at, where in placed if where != at] == [odd]


def test_sound_continues_while_the_picture_stalls() -> None:
    anchor = SoundAnchor()
    anchor.add_picture(0)
    stalled = range(0, 60 * SECOND, SOUND)
    assert [anchor.place(at) for at in stalled] == list(stalled)
    assert anchor.add_picture(60 * SECOND) is None
    _, moved = play(anchor, 5, always(0), start=60 * SECOND)
    assert moved == []


def test_a_picture_that_catches_up_after_a_stall_leaves_the_sound_where_it_is() -> None:
    """Its backlog of 10 s comes within a second of sound."""
    anchor = SoundAnchor()
    for at in range(0, 20 * SECOND, SOUND):
        assert anchor.place(at) == at or at == 0
        if at < 5 * SECOND:
            assert anchor.add_picture(at) is None
        elif at >= 19 * SECOND:
            burst = 5 * SECOND + 15 * (at - 19 * SECOND)
            assert all(anchor.add_picture(burst + n * PICTURE) is None for n in range(7))


def test_a_slide_show_is_no_offset() -> None:
    anchor, moved = SoundAnchor(), list[int | None]()
    for at in range(0, 60 * SECOND, SOUND):
        if at % (10 * SECOND) == 0:
            moved.append(anchor.add_picture(at))
        assert anchor.place(at) == at
    assert moved == [None] * 6


def test_sound_sent_in_lumps_is_moved_by_their_middle() -> None:
    """0.4 s at a time, a minute behind."""
    lump = 2 * SECOND // 5
    _, moved = play(SoundAnchor(), 10, lambda at: at // lump * lump - at - 60 * SECOND)
    assert len(moved) == 1
    assert moved[0] == pytest.approx(-60.2 * SECOND, abs=PICTURE)


def test_without_a_picture_nothing_is_known() -> None:
    assert SoundAnchor().place(0) is None
    assert MOST_OFFSET == 4 * SECOND
