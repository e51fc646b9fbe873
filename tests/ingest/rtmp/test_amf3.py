"""AMF3 (Action Message Format 3, section 3) after AMF0's marker."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.amf import Amf, AmfCursor
from ingest.rtmp.amf3 import Amf3Reader
from ingest.rtmp.errors import AmfError
from ingest.rtmp.limits import Limits

LIMITS = Limits()
NULL, ONE = b"\x01", b"\x04\x01"
FIVE = struct.pack(">d", 5.0)


def decode(data: bytes) -> list[Amf]:
    cursor = AmfCursor(data, LIMITS)
    reader = Amf3Reader(cursor)
    values: list[Amf] = []
    while not cursor.at_end:
        values.append(reader.value())
    return values


def name(text: str) -> bytes:
    return bytes((len(text) << 1 | 1,)) + text.encode()


def number(value: int) -> bytes:
    """Return a number of up to 29 bits in its shortest form (1.3.1)."""
    if value < 1 << 7:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value >> 7 | 0x80, value & 0x7F))
    if value < 1 << 21:
        return bytes((value >> 14 | 0x80, value >> 7 & 0x7F | 0x80, value & 0x7F))
    high = (value >> 22 | 0x80, value >> 15 & 0x7F | 0x80, value >> 8 & 0x7F | 0x80)
    return bytes((*high, value & 0xFF))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b"\x00", None, id="undefined"),
        pytest.param(NULL, None, id="null"),
        pytest.param(b"\x02", False, id="false"),
        pytest.param(b"\x03", True, id="true"),
        pytest.param(b"\x04" + number(5), 5.0, id="integer"),
        pytest.param(b"\x04" + number(300), 300.0, id="in two bytes"),
        pytest.param(b"\x04" + number(70_000), 70_000.0, id="in three bytes"),
        pytest.param(b"\x04" + number((1 << 28) - 1), float((1 << 28) - 1), id="the greatest"),
        pytest.param(b"\x04\xff\xff\xff\xff", -1.0, id="minus one"),
        pytest.param(b"\x04\xc0\x80\x80\x00", -float(1 << 28), id="the least"),
        pytest.param(b"\x05" + FIVE, 5.0, id="double"),
        pytest.param(b"\x06" + name("abc"), "abc", id="string"),
        pytest.param(b"\x06\x01", "", id="an empty string"),
        pytest.param(b"\x06\x03\xe9", "\ufffd", id="a string in another code page"),
        pytest.param(b"\x0a\x0b\x01" + name("a") + ONE + b"\x01", {"a": 1.0}, id="dynamic object"),
        pytest.param(b"\x0a\x13" + name("C") + name("a") + ONE, {"a": 1.0}, id="sealed object"),
        pytest.param(
            b"\x0a\x1b\x01" + name("a") + ONE + name("b") + NULL + b"\x01", {"a": 1.0, "b": None},
            id="sealed and dynamic",
        ),
    ],
)  # fmt: skip
def test_a_value_is_read(data: bytes, value: Amf) -> None:
    assert decode(data) == [value]


def test_references_give_strings_and_traits_again() -> None:
    assert decode(b"\x06" + name("abc") + b"\x06\x00") == ["abc", "abc"]
    sealed = b"\x0a\x13" + name("C") + name("a") + ONE
    assert decode(sealed + b"\x0a\x01" + NULL) == [{"a": 1.0}, {"a": None}]
    assert decode(b"\x06\x01\x06" + name("abc") + b"\x06\x00")[2] == "abc"  # no empty ones


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x04\xff\xff", id="integer cut off"),
        pytest.param(b"\x05\x00", id="double cut off"),
        pytest.param(b"\x06\x41short", id="string cut off"),
        pytest.param(b"\x06" + number(8193 << 1 | 1) + bytes(8193), id="a string of 8193 bytes"),
        pytest.param(b"\x06\x00", id="a reference to no string"),
        pytest.param(b"\x0a\x00", id="a reference to an object"),
        pytest.param(b"\x0a\x01", id="a reference to no traits"),
        pytest.param(b"\x0a\x07" + name("flex"), id="an object that writes itself"),
        pytest.param(b"\x0a\x0b\x01" + name("a") + b"\x0a\x0b\x01\x01\x01", id="within another"),
        pytest.param(b"\x0a\x0b\x01" + name("a"), id="object cut off"),
        pytest.param(b"\x0a" + b"\xff\xff\xff\xfb" + b"\x01", id="an object of 2**25 names"),
        pytest.param(NULL * 1025, id="too many values"),
        pytest.param(b"\x07" + name("<a>"), id="an XML document"),
        pytest.param(b"\x08\x01" + FIVE, id="date"),
        pytest.param(b"\x09\x05\x01" + ONE + NULL, id="array"),
        pytest.param(b"\x0c" + name("abc"), id="byte array"),
        pytest.param(b"\x0f\x03\x01" + FIVE, id="vector"),
        pytest.param(b"\x11\x01\x00", id="dictionary"),
        pytest.param(b"\x12", id="unknown marker"),
    ],
)
def test_what_is_broken_or_too_large_is_an_error(data: bytes) -> None:
    with pytest.raises(AmfError):
        decode(data)


MARKERS = [bytes((marker,)) for marker in range(18)]


@given(
    st.lists(
        st.binary(max_size=12) | st.builds(bytes.__add__, st.sampled_from(MARKERS), st.binary()),
        max_size=12,
    )
)
def test_any_bytes_give_values_or_an_error(parts: list[bytes]) -> None:
    data = b"".join(parts)
    try:
        values = decode(data)
    except AmfError:
        return
    assert len(values) <= len(data)
