"""HEVC's configuration record and NAL units, as x265 writes them, and damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.hevc import HevcConfig, is_random_access

VPS = bytes.fromhex("40010c01ffff01600000030090000003000003001e959009")
# 160 x 90: coded as 160 x 96, cropped.
SPS = bytes.fromhex(
    "42010101600000030090000003000003001ea0142061f26595924932bc05a020000003002000000301e1"
)
PPS = bytes.fromhex("4401c172b46240")
HEAD = bytes.fromhex("0101600000009000000000001ef000fcfdf8f800000f")


def record(*units: bytes, head: bytes = HEAD) -> bytes:
    arrays = b"".join(
        bytes((unit[0] >> 1 & 0x3F,)) + b"\0\1" + len(unit).to_bytes(2, "big") + unit
        for unit in units
    )
    return head + bytes((len(units),)) + arrays


RECORD = record(VPS, SPS, PPS)


class Bits:
    """Writes the fields of an SPS."""

    def __init__(self) -> None:
        self.text = ""

    def u(self, value: int, count: int) -> "Bits":
        self.text += f"{value:0{count}b}" if count else ""
        return self

    def ue(self, value: int) -> "Bits":
        digits = f"{value + 1:b}"
        self.text += "0" * (len(digits) - 1) + digits
        return self

    def unit(self) -> bytes:
        text = self.text + "1" + "0" * (-(len(self.text) + 1) % 8)
        return b"\x42\x01" + int(text, 2).to_bytes(len(text) // 8, "big")


def sps(
    width: int, height: int, crop: tuple[int, ...] = (), chroma: int = 1, layers: int = 0
) -> bytes:
    bits = Bits().u(0, 4).u(layers, 3).u(1, 1)
    # Ones throughout, so that no emulation prevention is needed.
    bits.u((1 << 96) - 1, 96)
    for _ in range(layers):
        bits.u(0b11, 2)
    if layers:
        bits.u((1 << 2 * (8 - layers)) - 1, 2 * (8 - layers))
    for _ in range(layers):
        bits.u((1 << 96) - 1, 96)
    bits.ue(0).ue(chroma)
    if chroma == 3:
        bits.u(0, 1)
    bits.ue(width).ue(height).u(int(bool(crop)), 1)
    for side in crop:
        bits.ue(side)
    return bits.unit()


def test_a_record_has_the_size_after_cropping() -> None:
    assert HevcConfig.parse(RECORD) == HevcConfig(length_size=4, width=160, height=90)


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        pytest.param(sps(1920, 1088, (0, 0, 0, 4)), (1920, 1080), id="4:2:0"),
        pytest.param(sps(1280, 720), (1280, 720), id="not cropped"),
        pytest.param(sps(1920, 1088, (1, 2, 3, 5), chroma=2), (1914, 1080), id="4:2:2"),
        pytest.param(sps(1920, 1088, (1, 0, 0, 8), chroma=3), (1919, 1080), id="4:4:4"),
        pytest.param(sps(1920, 1088, (0, 0, 0, 8), chroma=0), (1920, 1080), id="no colour"),
        pytest.param(sps(640, 360, layers=3), (640, 360), id="temporal layers"),
        pytest.param(sps(16_384, 16_384), (16_384, 16_384), id="the largest"),
    ],
)
def test_sizes_are_read(unit: bytes, size: tuple[int, int]) -> None:
    config = HevcConfig.parse(record(unit))
    assert (config.width, config.height) == size


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(RECORD[:22], id="cut off"),
        pytest.param(b"\x02" + RECORD[1:], id="another version"),
        pytest.param(HEAD[:21] + b"\x0e" + RECORD[22:], id="lengths of 3 bytes"),
        pytest.param(record(VPS, PPS), id="no SPS"),
        pytest.param(record(VPS, SPS)[:-20], id="an SPS cut off"),
        pytest.param(record(SPS[:6]), id="an SPS of six bytes"),
        pytest.param(record(sps(16_385, 90)), id="too wide"),
        pytest.param(record(sps(16, 16, (0, 0, 4, 4))), id="cropped to nothing"),
        pytest.param(HEAD + b"\xff", id="arrays left out"),
        pytest.param(record(SPS + bytes(5000)), id="an SPS of 5 KB"),
    ],
)
def test_what_is_no_record_is_an_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        HevcConfig.parse(data)


def test_a_record_from_before_the_standard_was_done_is_read() -> None:
    assert HevcConfig.parse(b"\x00" + RECORD[1:]) == HevcConfig.parse(RECORD)


def unit(kind: int, size: int = 4, data: bytes = b"abc") -> bytes:
    body = bytes((kind << 1, 1)) + data
    return len(body).to_bytes(size, "big") + body


@pytest.mark.parametrize(
    ("data", "begins"),
    [
        pytest.param(unit(19), True, id="IDR"),
        pytest.param(unit(20), True, id="IDR without leading pictures"),
        pytest.param(unit(21), True, id="CRA"),
        pytest.param(unit(16), True, id="BLA"),
        pytest.param(unit(1), False, id="a trailing picture"),
        pytest.param(unit(9), False, id="a leading picture"),
        pytest.param(unit(35) + unit(32) + unit(33) + unit(34) + unit(19), True, id="with sets"),
        pytest.param(unit(39) + unit(1), False, id="behind an SEI message"),
        pytest.param(bytes(4) + unit(19), True, id="behind an empty unit"),
        pytest.param(unit(39), False, id="no picture"),
        pytest.param(unit(39) * 63 + unit(19), True, id="the 64th unit"),
        pytest.param(unit(39) * 64 + unit(19), False, id="the 65th unit"),
        pytest.param(b"\x00\x00\x00\x09", False, id="cut off behind its length"),
        pytest.param(b"\x00\x00\xff\xff\x4e\x01", False, id="cut off"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_random_access_points_are_recognized(data: bytes, begins: bool) -> None:
    assert is_random_access(data, 4) is begins


def test_lengths_may_be_short() -> None:
    assert is_random_access(unit(39, 1) + unit(19, 1), 1)
    assert is_random_access(unit(39, 2) + unit(19, 2), 2)


@given(st.binary(max_size=80), st.integers(0, len(RECORD)), st.integers(0, 20))
def test_any_damage_gives_a_size_or_an_error(data: bytes, offset: int, lost: int) -> None:
    for damaged in (data, HEAD + data, RECORD[:offset] + data + RECORD[offset + lost :]):
        try:
            config = HevcConfig.parse(damaged)
        except CodecError:
            continue
        assert 0 < config.width <= 16_384
        assert 0 < config.height <= 16_384
    is_random_access(data, 4)
