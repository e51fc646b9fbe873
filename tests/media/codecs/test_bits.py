"""Numbers out of bit strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import BitReader, CodecError


def reader(bits: str) -> BitReader:
    padded = bits + "0" * (-len(bits) % 8)
    return BitReader(int(padded or "0", 2).to_bytes(len(padded) // 8, "big"))


def exp_golomb(number: int) -> str:
    code = f"{number + 1:b}"
    return "0" * (len(code) - 1) + code


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0))))
def test_numbers_come_back_whatever_their_widths(fields: list[tuple[int, int]]) -> None:
    fields = [(width, number % (1 << width)) for width, number in fields]
    bits = reader("".join(f"{number:0{width}b}" for width, number in fields))
    assert [bits.u(width) for width, _ in fields] == [number for _, number in fields]


@given(st.lists(st.integers(0, (1 << 32) - 2)))
def test_exp_golomb_numbers_come_back(numbers: list[int]) -> None:
    bits = reader("".join(map(exp_golomb, numbers)))
    assert [bits.ue((1 << 32) - 2) for _ in numbers] == numbers


@pytest.mark.parametrize(("code", "number"), list(enumerate((0, 1, -1, 2, -2, 3))))
def test_signed_numbers_alternate_around_zero(code: int, number: int) -> None:
    assert reader(exp_golomb(code)).se() == number


def test_past_the_end_is_an_error() -> None:
    bits = reader("10110011")
    assert bits.u(5) == 0b10110
    assert bits.bits_left == 3
    with pytest.raises(CodecError):
        bits.u(4)


def test_a_number_above_its_bound_is_an_error() -> None:
    assert reader(exp_golomb(16)).ue(16) == 16
    with pytest.raises(CodecError, match="17 where at most 16"):
        reader(exp_golomb(17)).ue(16)


def test_endless_zeros_end_in_an_error_and_not_in_a_giant_number() -> None:
    with pytest.raises(CodecError, match="32 bits"):
        BitReader(bytes(1000)).ue(1 << 40)


def test_aligning_goes_to_the_next_whole_byte_and_stays_on_one() -> None:
    bits = BitReader(b"\xff\x01\x02")
    bits.u(1)
    bits.align()
    assert bits.u(8) == 1
    bits.align()
    assert bits.u(8) == 2
