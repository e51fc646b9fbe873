"""FLAC's STREAMINFO (RFC 9639, 8.2), alone and behind its signature."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.flac import FlacInfo

# ffmpeg's at the end of two seconds of 48 kHz mono.
ENDED = bytes.fromhex(
    "04000400" + "000107" + "00018b" + "0bb800f000017700" + "6fa85e77f531259b20ed675c2dd92098"
)
SIGNED = b"fLaC\x80\x00\x00\x22"


def info(rate: int, channels: int, bits: int = 16) -> bytes:
    packed = rate << 44 | (channels - 1) << 41 | (bits - 1) << 36
    return b"\x10\x00\x10\x00" + bytes(6) + packed.to_bytes(8, "big") + bytes(16)


@pytest.mark.parametrize(
    ("data", "rate", "channels"),
    [
        pytest.param(info(48_000, 1), 48_000, 1, id="mono"),
        pytest.param(info(44_100, 2), 44_100, 2, id="stereo"),
        pytest.param(info(96_000, 8, 24), 96_000, 8, id="eight channels of 24 bits"),
        pytest.param(SIGNED + info(48_000, 2), 48_000, 2, id="behind its signature"),
    ],
)
def test_rate_and_channels_are_read(data: bytes, rate: int, channels: int) -> None:
    facts = FlacInfo.parse(data)
    assert (facts.rate, facts.channels, len(facts.config)) == (rate, channels, 34)


def test_what_is_known_only_at_the_end_makes_no_other_stream() -> None:
    assert len(ENDED) == 34
    begun, ended = FlacInfo.parse(info(48_000, 1)), FlacInfo.parse(ENDED)
    assert begun.config[10:] == ended.config[10:]
    assert FlacInfo.parse(ENDED) == FlacInfo.parse(SIGNED + ENDED)
    assert ended.config[4:10] == bytes(6)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(ENDED[:33], id="cut off"),
        pytest.param(SIGNED + ENDED[:33], id="cut off behind its signature"),
        pytest.param(info(0, 2), id="no rate"),
    ],
)
def test_what_is_no_streaminfo_is_an_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        FlacInfo.parse(data)


@given(st.binary(max_size=60))
def test_any_bytes_give_facts_or_an_error(data: bytes) -> None:
    try:
        facts = FlacInfo.parse(data)
    except CodecError:
        return
    assert 0 < facts.rate < 1 << 20
    assert 1 <= facts.channels <= 8
    assert FlacInfo.parse(facts.config) == facts
