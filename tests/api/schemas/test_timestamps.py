"""Timestamps as texts (RFC 3339)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schemas.timestamps import Moment, format_timestamp, parse_timestamp


@given(st.integers(0, 253_402_300_799_999_999))
def test_what_is_written_is_read_back(moment_us: int) -> None:
    assert parse_timestamp(format_timestamp(moment_us)) == moment_us


def test_a_moment_is_written_to_the_microsecond() -> None:
    assert format_timestamp(0) == "1970-01-01T00:00:00.000000Z"


@given(st.text())
def test_any_text_is_a_moment_or_none(text: str) -> None:
    moment = parse_timestamp(text)
    assert moment is None or moment >= 0


@pytest.mark.parametrize(
    ("text", "moment_us"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01t00:00:01.5z", 1_500_000),
        ("1970-01-01T02:00:00.000001+02:00", 1),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
    ],
)
def test_a_moment_has_an_offset(text: str, moment_us: int) -> None:
    assert Moment.parse(text) == moment_us


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "1970-01-01",
        "1970-01-01T00:00:01",
        "19700101T000001Z",
        "1970-01-01 00:00:01Z",
        "1970-W01-4T00:00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-01-01T00:00:60Z",
        "1970-01-01T00:00:01+0200",
        "\uff11970-01-01T00:00:01Z",
        1,
        None,
    ],
)
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        Moment.parse(value)
