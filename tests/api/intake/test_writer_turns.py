"""Of the requests that append to one upload, the latest has the turn."""

from api.intake.writer_turns import WriterTurns


def test_a_later_turn_ends_the_earlier_one_of_the_same_upload_alone() -> None:
    turns = WriterTurns()
    with turns.turn("a") as first, turns.turn("b") as other:
        assert not first.over
        with turns.turn("a") as second:
            assert (first.over, second.over, other.over) == (True, False, False)


def test_a_turn_that_was_taken_over_leaves_the_new_one_in_place() -> None:
    turns = WriterTurns()
    first = turns.turn("a")
    first.__enter__()
    with turns.turn("a") as second:
        first.__exit__(None, None, None)
        with turns.turn("a"):
            assert second.over
    with turns.turn("a") as last:
        assert not last.over
