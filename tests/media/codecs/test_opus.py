"""OpusHead (RFC 7845, 5.1): channels, and headers for streams that came without one."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.opus import channels_of, header_for


def head(channels: int, family: int = 0, mapping: bytes = b"", version: int = 1) -> bytes:
    middle = b"\x38\x01" + (48_000).to_bytes(4, "little") + b"\0\0"
    return b"OpusHead" + bytes((version, channels)) + middle + bytes((family,)) + mapping


@pytest.mark.parametrize(
    ("header", "channels"),
    [
        pytest.param(head(1), 1, id="mono"),
        pytest.param(head(2), 2, id="stereo"),
        pytest.param(head(2) + b"more", 2, id="with something behind it"),
        pytest.param(head(6, 1, b"\x04\x02\x00\x04\x01\x02\x03\x05"), 6, id="5.1"),
        pytest.param(head(2, version=15), 2, id="a later minor version"),
    ],
)
def test_channels_are_read(header: bytes, channels: int) -> None:
    assert channels_of(header) == channels


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"", id="empty"),
        pytest.param(head(2)[:18], id="cut off"),
        pytest.param(b"OpusTags" + head(2)[8:], id="another packet"),
        pytest.param(head(2, version=16), id="another major version"),
        pytest.param(head(0), id="no channels"),
        pytest.param(head(3), id="three channels without a mapping"),
        pytest.param(head(6, 1, b"\x04\x02\x00"), id="a mapping cut off"),
        pytest.param(head(9, 255, bytes(11)), id="nine channels"),
    ],
)
def test_what_is_no_header_is_an_error(header: bytes) -> None:
    with pytest.raises(CodecError):
        channels_of(header)


@pytest.mark.parametrize(("packet", "channels"), [(b"\xf8abc", 1), (b"\xfcabc", 2), (b"\x04", 2)])
def test_a_packet_says_whether_it_is_stereo(packet: bytes, channels: int) -> None:
    assert channels_of(header_for(packet)) == channels


def test_an_empty_packet_has_no_header() -> None:
    with pytest.raises(CodecError):
        header_for(b"")


@given(st.binary(max_size=40) | st.binary(max_size=40).map(lambda data: b"OpusHead" + data))
def test_any_bytes_give_channels_or_an_error(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        assert 1 <= channels_of(data) <= 8
