"""MPEG audio's frame headers (ISO/IEC 11172-3, 2.4.1.3; 13818-3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.mp3 import Mp3Frame


def frame(version: int, rate: int, mode: int, layer: int = 1, bitrate: int = 5) -> bytes:
    head = 0x7FF << 21 | version << 19 | layer << 17 | 1 << 16 | bitrate << 12 | rate << 10
    return (head | mode << 6).to_bytes(4, "big") + bytes(100)


@pytest.mark.parametrize(
    ("data", "rate", "channels"),
    [
        pytest.param(bytes.fromhex("fffb54640000"), 48_000, 2, id="lame's"),
        pytest.param(frame(3, 0, 0), 44_100, 2, id="stereo"),
        pytest.param(frame(3, 2, 1), 32_000, 2, id="joint stereo"),
        pytest.param(frame(3, 1, 3), 48_000, 1, id="mono"),
        pytest.param(frame(2, 0, 3), 22_050, 1, id="MPEG 2"),
        pytest.param(frame(0, 2, 3), 8_000, 1, id="MPEG 2.5"),
    ],
)
def test_rate_and_channels_are_read(data: bytes, rate: int, channels: int) -> None:
    parsed = Mp3Frame.parse(data)
    assert (parsed.rate, parsed.channels) == (rate, channels)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xfb\x54", id="cut off"),
        pytest.param(b"ID3\x04" + bytes(20), id="a tag"),
        pytest.param(frame(1, 0, 0), id="a reserved version"),
        pytest.param(frame(3, 0, 0, layer=2), id="layer II"),
        pytest.param(frame(3, 3, 0), id="a reserved rate"),
        pytest.param(frame(3, 0, 0, bitrate=15), id="a forbidden bit rate"),
    ],
)
def test_what_is_no_frame_is_an_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        Mp3Frame.parse(data)


@given(st.binary(max_size=6).map(lambda data: b"\xff" + data) | st.binary(max_size=6))
def test_any_bytes_give_facts_or_an_error(data: bytes) -> None:
    try:
        frame = Mp3Frame.parse(data)
    except CodecError:
        return
    assert 8_000 <= frame.rate <= 48_000
    assert frame.channels in (1, 2)
