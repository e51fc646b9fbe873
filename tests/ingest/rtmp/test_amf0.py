"""AMF0 (Action Message Format 0, section 2)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.amf import Amf, Date
from ingest.rtmp.amf0 import EcmaArray, decode, encode
from ingest.rtmp.errors import AmfError
from ingest.rtmp.limits import Limits

LIMITS = Limits()
END = b"\0\0\x09"


def number(value: float) -> bytes:
    return b"\0" + struct.pack(">d", value)


def key(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


ONE = number(1.0)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(ONE, 1.0, id="number"),
        pytest.param(b"\x01\x01", True, id="true"),
        pytest.param(b"\x01\x00", False, id="false"),
        pytest.param(b"\x02\x00\x03abc", "abc", id="string"),
        pytest.param(b"\x02\x00\x02\xc3\xa9", "é", id="a string's length is in bytes"),
        pytest.param(b"\x02\x00\x01\xe9", "\ufffd", id="a string in another code page"),
        pytest.param(b"\x03" + key("a") + ONE + END, {"a": 1.0}, id="object"),
        pytest.param(b"\x03" + END, {}, id="empty object"),
        pytest.param(
            b"\x03" + key("a") + b"\x03" + key("b") + ONE + END + key("c") + ONE + END,
            {"a": {"b": 1.0}, "c": 1.0},
            id="a nested object's end is its own",
        ),
        pytest.param(b"\x05", None, id="null"),
        pytest.param(b"\x06", None, id="undefined"),
        pytest.param(b"\x08\0\0\0\x01" + key("a") + ONE + END, {"a": 1.0}, id="ECMA array"),
        pytest.param(b"\x08\0\0\0\x00" + key("a") + ONE + END, {"a": 1.0}, id="its count 0"),
        pytest.param(b"\x08\xff\xff\xff\xff" + key("a") + ONE + END, {"a": 1.0}, id="count huge"),
        pytest.param(b"\x08\0\0\0\x01" + key("a") + ONE, {"a": 1.0}, id="its end left out"),
        pytest.param(b"\x0a\0\0\0\x02" + ONE + b"\x05", [1.0, None], id="strict array"),
        pytest.param(b"\x0b" + struct.pack(">d", 5.0) + b"\xff\xc4", Date(5.0), id="date"),
        pytest.param(b"\x0c\0\0\0\x03abc", "abc", id="long string"),
        pytest.param(b"\x0d", None, id="unsupported"),
        pytest.param(b"\x0f\0\0\0\x03<a>", "<a>", id="XML document"),
        pytest.param(b"\x10" + key("C") + key("a") + ONE + END, {"a": 1.0}, id="typed object"),
        pytest.param(b"\x03" + key("") + ONE + END, {"": 1.0}, id="an empty key"),
    ],
)
def test_a_value_is_read(data: bytes, value: Amf) -> None:
    assert decode(data, LIMITS) == [value]


def test_a_reference_gives_the_object_again() -> None:
    twice = b"\x03" + key("a") + ONE + END + b"\x07\0\0"
    assert decode(twice, LIMITS) == [{"a": 1.0}, {"a": 1.0}]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\x00", id="number cut off"),
        pytest.param(b"\x02\xff\xffshort", id="string cut off"),
        pytest.param(b"\x03" + key("a") + ONE, id="object without end"),
        pytest.param(b"\x0a\xff\xff\xff\xff" + ONE, id="strict array of 2**32-1"),
        pytest.param(b"\x0c\xff\xff\xff\xff", id="long string of 2**32-1"),
        pytest.param(b"\x07\x00\x00", id="reference to nothing"),
        pytest.param(b"\x03" + key("a") + b"\x07\0\0" + END, id="reference to what encloses it"),
        pytest.param(b"\x11", id="AMF3 cut off"),
        pytest.param(b"\x11\x12", id="an unknown marker of AMF3"),
        pytest.param(b"\x04", id="movie clip"),
        pytest.param(b"\x09", id="an end without an object"),
        pytest.param(b"\xff", id="unknown marker"),
        pytest.param((b"\x03" + key("a")) * 5000, id="nested 5000 deep"),
        pytest.param(b"\x0a\0\0\0\x01" * 5000, id="arrays nested 5000 deep"),
        pytest.param(b"\x05" * 1025, id="too many values"),
        pytest.param(b"\x0c\0\0\x20\x01" + bytes(0x2001), id="string of 8193 bytes"),
    ],
)
def test_what_is_broken_or_too_large_is_an_error(data: bytes) -> None:
    with pytest.raises(AmfError):
        decode(data, LIMITS)


def test_amf3_after_its_marker_is_read_and_amf0_continues_after_it() -> None:
    assert decode(ONE + b"\x11\x06\x07abc" + ONE + b"\x11\x01", LIMITS) == [1.0, "abc", 1.0, None]


def test_references_cannot_expand_beyond_the_limit() -> None:
    # Each array holds the one before it ten times: 10**9 values in some hundred bytes.
    data = b"\x0a\0\0\0\x01\x05"
    for index in range(9):
        data += b"\x0a\0\0\0\x0a" + (b"\x07" + struct.pack(">H", index)) * 10
    with pytest.raises(AmfError, match="1024"):
        decode(data, LIMITS)


def test_the_bounds_are_those_of_the_limits() -> None:
    deep = b"\x0a\0\0\0\x01" * 2 + b"\x05"
    assert decode(deep, Limits(amf_depth=2)) == [[[None]]]
    with pytest.raises(AmfError):
        decode(deep, Limits(amf_depth=1))


VALUES: st.SearchStrategy[Amf] = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.builds(Date, st.floats(allow_nan=False)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4).map(EcmaArray)
    ),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=4))
def test_written_values_are_read_back(values: list[Amf]) -> None:
    wide = Limits(amf_depth=64, amf_nodes=10_000)
    assert decode(encode(*values), wide) == values


def test_a_long_string_is_written_as_one() -> None:
    text = "x" * 70_000
    assert encode(text)[:5] == b"\x0c" + struct.pack(">I", 70_000)
    assert decode(encode(text), Limits(amf_string_bytes=70_000)) == [text]


MARKED = st.lists(
    st.sampled_from(range(0x12)).map(lambda marker: bytes((marker,))) | st.binary(max_size=6),
    max_size=40,
).map(b"".join)


@given(st.binary(max_size=200) | MARKED)
def test_any_bytes_give_values_or_an_error(data: bytes) -> None:
    try:
        values = decode(data, LIMITS)
    except AmfError:
        return
    assert count(values) <= LIMITS.amf_nodes


def count(values: list[Amf]) -> int:
    """Count the values of the whole tree."""
    total = 0
    for value in values:
        total += 1
        if isinstance(value, list):
            total += count(value)
        elif isinstance(value, dict):
            total += count(list(value.values()))
    return total
