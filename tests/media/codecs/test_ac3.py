"""AC-3 and E-AC-3 headers (ATSC A/52, 5.3.1 and E.2.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.ac3 import Ac3Frame
from media.codecs.bits import CodecError

# What ffmpeg writes for 48 kHz stereo.
PLAIN = bytes.fromhex("0b77fc8a084043e106f0")
ENHANCED = bytes.fromhex("0b77007f3487c00020fc")


def plain(code: int, mode: int, low: int, bsid: int = 8) -> bytes:
    extra = (2 if mode & 1 and mode != 1 else 0) + (2 if mode & 4 else 0) + (2 if mode == 2 else 0)
    bits = f"{code:02b}{0:06b}{bsid:05b}{0:03b}{mode:03b}{'1' * extra}{low}".ljust(48, "0")
    return b"\x0b\x77\x00\x00" + int(bits, 2).to_bytes(6, "big")


def enhanced(code: int, blocks: int, mode: int, low: int) -> bytes:
    bits = f"{code:02b}{blocks:02b}{mode:03b}{low}{16:05b}".ljust(48, "0")
    return b"\x0b\x77\x00\x7f" + int(bits, 2).to_bytes(6, "big")


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        pytest.param(PLAIN, (False, 48_000, 2), id="ffmpeg's AC-3"),
        pytest.param(ENHANCED, (True, 48_000, 2), id="ffmpeg's E-AC-3"),
        pytest.param(plain(1, 1, 0), (False, 44_100, 1), id="mono"),
        pytest.param(plain(0, 1, 1), (False, 48_000, 2), id="1.1"),
        pytest.param(plain(0, 2, 0), (False, 48_000, 2), id="stereo"),
        pytest.param(plain(0, 2, 1), (False, 48_000, 3), id="2.1"),
        pytest.param(plain(2, 7, 1), (False, 32_000, 6), id="5.1"),
        pytest.param(plain(0, 7, 0), (False, 48_000, 5), id="5.0"),
        pytest.param(plain(0, 3, 1, 9), (False, 24_000, 4), id="half a rate"),
        pytest.param(plain(0, 3, 1, 10), (False, 12_000, 4), id="a quarter of a rate"),
        pytest.param(enhanced(0, 3, 7, 1), (True, 48_000, 6), id="enhanced 5.1"),
        pytest.param(enhanced(3, 1, 2, 0), (True, 22_050, 2), id="enhanced, half a rate"),
    ],
)
def test_rate_and_channels_are_read(data: bytes, facts: tuple[bool, int, int]) -> None:
    frame = Ac3Frame.parse(data)
    assert (frame.enhanced, frame.rate, frame.channels) == facts


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(PLAIN[:5], id="cut off"),
        pytest.param(b"\x77\x0b" + PLAIN[2:], id="little-endian"),
        pytest.param(plain(3, 2, 0), id="a reserved rate"),
        pytest.param(enhanced(3, 3, 2, 0), id="a reserved half rate"),
        pytest.param(plain(0, 2, 0, 17), id="a kind that nobody knows"),
    ],
)
def test_what_is_no_frame_is_an_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        Ac3Frame.parse(data)


@given(st.binary(max_size=12).map(lambda data: b"\x0b\x77" + data) | st.binary(max_size=12))
def test_any_bytes_give_facts_or_an_error(data: bytes) -> None:
    try:
        frame = Ac3Frame.parse(data)
    except CodecError:
        return
    assert 8_000 <= frame.rate <= 48_000
    assert 1 <= frame.channels <= 6
