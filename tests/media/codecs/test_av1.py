"""AV1's configuration record, sequence header and OBUs, as SVT-AV1 writes them, and damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.av1 import config_size, is_random_access, sequence_size
from media.codecs.bits import CodecError

HEADER = bytes.fromhex("0a0b020000051da7ec805f0008")  # 160 x 90
RECORD = bytes.fromhex("81000c00") + HEADER
DELIMITER = b"\x12\x00"
KEYFRAME = bytes.fromhex("320610a0c824daff")
INTER = bytes.fromhex("320628080040003d")


def sequence(
    width: int, height: int, *, timing: str = "", points: str = "", short: bool = False
) -> bytes:
    """Return a sequence header's OBU: no timing and one operating point, where nothing is given."""
    start = "000" + "1" + "1" + "00000" if short else "000" + "0" + "0"
    middle = "" if short else (timing or "0") + (points or "0" + "00000" + "0" * 12 + "00101")
    sides = f"{15:04b}{15:04b}{width - 1:016b}{height - 1:016b}"
    text = start + middle + sides
    text += "0" * (-len(text) % 8)
    payload = int(text, 2).to_bytes(len(text) // 8, "big")
    return b"\x0a" + bytes((len(payload),)) + payload


TIMED = "1" + "0" * 64 + "0" + "1" + f"{9:05b}" + "0" * 42  # a decoder model of 10 bits
MODELLED = "1" + "00001" + ("0" * 12 + "01000" + "1" + "1" + "0" * 21 + "1" + "0000") * 2


def test_a_record_has_the_size() -> None:
    assert config_size(RECORD) == (160, 90)


def test_a_record_without_a_sequence_header_does_not_tell() -> None:
    assert config_size(RECORD[:4]) is None
    assert config_size(RECORD[:4] + DELIMITER) is None


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param(sequence(1920, 1080), (1920, 1080), id="plain"),
        pytest.param(sequence(16_384, 16_384), (16_384, 16_384), id="the largest"),
        pytest.param(sequence(64, 48, short=True), (64, 48), id="a still picture's short header"),
        pytest.param(
            sequence(1280, 720, timing="1" + "0" * 64 + "1" + "010" + "0"), (1280, 720), id="timing"
        ),
        pytest.param(
            sequence(1280, 720, timing=TIMED, points=MODELLED),
            (1280, 720),
            id="two modelled points",
        ),
        pytest.param(DELIMITER + HEADER, (160, 90), id="behind a delimiter"),
        pytest.param(b"\x0e\x00" + HEADER[1:], (160, 90), id="with an extension"),
        pytest.param(b"\x08" + HEADER[2:], (160, 90), id="without a size"),
        pytest.param(b"\x0a\x8b\x00" + HEADER[2:], (160, 90), id="a size in two bytes"),
        pytest.param(DELIMITER, None, id="none there"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_a_sequence_header_is_found_and_read(data: bytes, size: tuple[int, int] | None) -> None:
    assert sequence_size(data) == size


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x81\x00\x0c", id="a record cut off"),
        pytest.param(b"\x01" + RECORD[1:], id="a record without its marker"),
        pytest.param(RECORD[:-1], id="an OBU cut off"),
        pytest.param(RECORD[:4] + b"\x0a\x02\x00\x00", id="a sequence header cut off"),
        pytest.param(RECORD[:4] + b"\x8a\x00", id="the forbidden bit"),
        pytest.param(RECORD[:4] + b"\x0a", id="a size left out"),
        pytest.param(RECORD[:4] + b"\x0a" + b"\xff" * 9, id="a size without an end"),
        pytest.param(RECORD[:4] + sequence(20_000, 90), id="too wide"),
        pytest.param(RECORD[:4] + b"\x0c", id="an extension cut off"),
    ],
)
def test_what_is_no_record_is_an_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        config_size(data)


@pytest.mark.parametrize(
    ("data", "begins"),
    [
        pytest.param(DELIMITER + HEADER + KEYFRAME, True, id="keyframe"),
        pytest.param(KEYFRAME, True, id="keyframe alone"),
        pytest.param(b"\x1a" + KEYFRAME[1:], True, id="a frame header apart from its tiles"),
        pytest.param(DELIMITER + INTER, False, id="inter frame"),
        pytest.param(DELIMITER + b"\x32\x01\x00", False, id="a keyframe that is not shown"),
        pytest.param(DELIMITER + b"\x32\x01\x80", False, id="an existing frame shown again"),
        pytest.param(DELIMITER + b"\x32\x00", False, id="an empty frame"),
        pytest.param(DELIMITER + HEADER, False, id="no frame"),
        pytest.param(DELIMITER * 63 + KEYFRAME, True, id="the 64th OBU"),
        pytest.param(DELIMITER * 64 + KEYFRAME, False, id="the 65th OBU"),
        pytest.param(b"\xff", False, id="broken"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_random_access_points_are_recognized(data: bytes, begins: bool) -> None:
    assert is_random_access(data) is begins


@given(st.binary(max_size=40), st.integers(0, len(RECORD)), st.integers(0, 8))
def test_any_damage_gives_a_size_or_an_error(data: bytes, offset: int, lost: int) -> None:
    for damaged in (data, RECORD[:4] + data, RECORD[:offset] + data + RECORD[offset + lost :]):
        is_random_access(damaged)
        try:
            size = config_size(damaged)
        except CodecError:
            continue
        assert size is None or max(size) <= 16_384
