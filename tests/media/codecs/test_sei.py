"""The display orientation that a keyframe's SEI messages request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.sei import is_rotated

IDR = b"\x65\x88\x84"
TEXT = b"\x05\x02hi"  # user data: another kind of message


def unit(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def orientation(*, cancel: int = 0, across: int = 0, down: int = 0, angle: int = 0) -> bytes:
    """One message: the flags, the angle, a repetition period of 1 and no extension."""
    bits = cancel << 23 | across << 22 | down << 21 | angle << 5 | 0b01000
    return b"\x2f\x03" + bits.to_bytes(3, "big")


def picture(*messages: bytes) -> bytes:
    return unit(b"\x06" + b"".join(messages) + b"\x80", IDR)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(orientation(angle=1 << 14), True, id="a quarter turn"),
        pytest.param(orientation(across=1), True, id="a mirror"),
        pytest.param(orientation(down=1), True, id="upside down"),
        pytest.param(orientation(), False, id="as it is"),
        pytest.param(orientation(cancel=1, angle=1 << 14), False, id="not any more"),
    ],
)
def test_a_picture_is_turned_when_its_sei_says_so(message: bytes, expected: bool) -> None:
    assert is_rotated(picture(message), 4) is expected
    assert is_rotated(picture(TEXT, message), 4) is expected


def test_a_picture_without_sei_is_upright() -> None:
    assert not is_rotated(unit(IDR), 4)
    assert not is_rotated(picture(TEXT), 4)


def test_emulation_prevention_is_taken_out() -> None:
    # An angle of 0 and what follows make two zeros in a row after the flags.
    message = b"\x05\x03\x00\x00\x03\x01" + orientation(angle=3 << 14)
    assert is_rotated(picture(message), 4)


def test_a_message_longer_than_255_bytes_is_passed_over() -> None:
    long = b"\x05\xff\x05" + bytes([1]) * 260
    assert is_rotated(picture(long, orientation(across=1)), 4)


@given(st.binary(max_size=80))
def test_any_bytes_give_an_answer_or_the_room_s_error(data: bytes) -> None:
    for whole in (data, unit(b"\x06" + data) if data else b""):
        try:
            assert is_rotated(whole, 4) in (True, False)
        except CodecError:
            continue


@given(st.integers(0, 12))
def test_a_message_that_is_cut_off_asks_for_nothing(kept: int) -> None:
    cut = (b"\x06" + orientation(angle=1 << 14))[:kept]
    answer = is_rotated(unit(cut) if cut else b"", 4)
    assert answer is (kept >= 6)
