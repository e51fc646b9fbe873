"""What is made of a value is made once, for as long as the value is in the sequence."""

from hypothesis import given
from hypothesis import strategies as st

from delivery.playlists.memo import Memo


class Value:
    """Equal to every other one."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value)

    def __hash__(self) -> int:
        return 0


def test_what_stays_is_made_once_and_what_replaces_another_is_told_of_it() -> None:
    made: list[tuple[int, int | None]] = []

    def make(value: Value, before: int | None) -> int:
        made.append((value.number, before))
        return value.number

    memo = Memo(make)
    values = tuple(map(Value, range(5)))
    assert memo.of(values[:4]) == [0, 1, 2, 3]
    made.clear()
    assert memo.of((values[2], Value(30), values[4])) == [2, 30, 4]
    assert made == [(30, 3), (4, None)]
    assert memo.of(()) == []
    assert memo.of(values[:1]) == [0]


@given(st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=9))
def test_any_sequence_follows_any_other(sequences: list[list[int]]) -> None:
    pool = [Value(number) for number in range(10)]
    memo: Memo[Value, int] = Memo(lambda value, _: value.number)
    for numbers in sequences:
        assert memo.of(tuple(pool[number] for number in numbers)) == numbers
