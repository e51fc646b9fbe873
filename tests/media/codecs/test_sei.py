"""What SEI messages say: a display orientation, and where an intra refresh is right."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.sei import is_rotated, recovery_pictures
from media.hls.fmp4 import Sample

AUD, SEI, IDR, SLICE = b"\x09\xf0", b"\x06\x05\x01\x00\x80", b"\x65\x88\x84", b"\x41\x9a\x24"
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


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [("intra-refresh=1:keyint=20:bframes=0:ref=1", 18), ("open-gop=1:keyint=10:min-keyint=1", 0)],
)
def test_an_intra_refresh_says_how_many_pictures_are_wrong(
    video: Callable[..., tuple[bytes, list[Sample]]], parameters: str, wrong: int
) -> None:
    """As many as it takes for a column of blocks to pass over the picture."""
    _, samples = video(frames=60, parameters=f"{parameters}:scenecut=0")
    found = [recovery_pictures(sample.data, 4) for sample in samples if sample.key]
    assert found[0] == 0, "an IDR picture"
    assert set(found[1:]) == {wrong}


RECOVERY = b"\x06\x05\x02\x00\x80\x06\x01\x24\x80"  # after a message of another kind


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ((AUD, RECOVERY, SLICE), 3),
        ((SEI, RECOVERY, SLICE), 3),
        ((SLICE, RECOVERY), 0),
        ((IDR, RECOVERY), 0),
        ((SEI, SLICE), 0),
        ((RECOVERY[:6], SLICE), 0),
        ((RECOVERY[:7] + b"\xff", SLICE), 0),
        ((b"\x06" + b"\xff" * 5000 + RECOVERY[5:], SLICE), 0),
        ((*[SEI] * 64, RECOVERY, SLICE), 0),
    ],
)
def test_a_recovery_point_is_looked_for_before_the_first_slice(
    parts: tuple[bytes, ...], wrong: int
) -> None:
    assert recovery_pictures(unit(*parts), 4) == wrong


@given(st.binary(max_size=40), st.sampled_from([1, 2, 4]))
def test_any_bytes_have_some_pictures_that_are_wrong(data: bytes, size: int) -> None:
    assert 0 <= recovery_pictures(data, size) < 1 << 16
