from hypothesis import given
from hypothesis import strategies as st

from api.schemas.timestamps import format_timestamp, parse_timestamp


@given(st.integers(0, 253_402_300_799_999_999))
def test_what_is_written_is_read_back(moment_us: int) -> None:
    assert parse_timestamp(format_timestamp(moment_us)) == moment_us


def test_a_moment_is_written_to_the_microsecond() -> None:
    assert format_timestamp(0) == "1970-01-01T00:00:00.000000Z"


@given(st.text())
def test_any_text_is_a_moment_or_none(text: str) -> None:
    moment = parse_timestamp(text)
    assert moment is None or moment >= 0
