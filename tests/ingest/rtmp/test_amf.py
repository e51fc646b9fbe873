"""The cursor that AMF0 and AMF3 share, and its bounds."""

import pytest

from ingest.rtmp.amf import AmfCursor
from ingest.rtmp.errors import AmfError
from ingest.rtmp.limits import Limits

LIMITS = Limits(amf_depth=2, amf_nodes=3, amf_string_bytes=4)


def test_bytes_are_read_in_order_up_to_the_end() -> None:
    cursor = AmfCursor(b"abcdef", LIMITS)
    assert (cursor.read(2), cursor.read(0), cursor.read(4)) == (b"ab", b"", b"cdef")
    assert cursor.at_end
    with pytest.raises(AmfError, match="cut off"):
        cursor.read(1)


def test_a_failed_read_moves_nothing() -> None:
    cursor = AmfCursor(b"ab", LIMITS)
    with pytest.raises(AmfError) as caught:
        cursor.read(3)
    assert caught.value.place == 0
    assert cursor.read(2) == b"ab"


def test_strings_are_bounded_and_foreign_code_pages_are_replaced() -> None:
    assert AmfCursor(b"a\xe4b", LIMITS).read_text(3) == "a\ufffdb"
    with pytest.raises(AmfError, match="a string of 5 bytes"):
        AmfCursor(b"abcde", LIMITS).read_text(5)


def test_values_are_counted_against_the_limit_of_a_message() -> None:
    cursor = AmfCursor(b"", LIMITS)
    cursor.count_values(3)
    with pytest.raises(AmfError, match="more than 3 values"):
        cursor.count_values(1)


def test_only_open_objects_count_as_depth() -> None:
    cursor = AmfCursor(b"", LIMITS)
    for _ in range(5):
        cursor.enter()
        cursor.enter()
        cursor.leave()
        cursor.leave()
    cursor.enter()
    cursor.enter()
    with pytest.raises(AmfError, match="nested more than 2 deep"):
        cursor.enter()
