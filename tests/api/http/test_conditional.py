"""Ranges, conditions and compression of requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.conditional import Unsatisfiable, accepts_gzip, byte_range, has_entity_tag


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-", (0, 100)),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=99-99", (99, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("BYTES=1-2", (1, 3)),
        (" bytes=1-2 ", (1, 3)),
        ("bytes=20-10", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=0-1,5-6", None),
        ("items=0-1", None),
        ("bytes=1٢-", None),
        ("", None),
    ],
)
def test_a_range_is_clipped_to_the_object_and_an_invalid_one_is_ignored(
    header: str | None, expected: tuple[int, int] | None
) -> None:
    assert byte_range(header, 100) == expected


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=100-", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)]
)
def test_a_range_behind_the_end_cannot_be_satisfied(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        byte_range(header, size)


@given(st.text(max_size=40) | st.from_regex(r"bytes=\d{0,20}-\d{0,20}"), st.integers(0, 10**9))
def test_any_range_lies_within_the_object(header: str, size: int) -> None:
    try:
        span = byte_range(header, size)
    except Unsatisfiable:
        return
    assert span is None or 0 <= span[0] < span[1] <= size


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        (None, False),
        ("*", True),
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ('"b",W/"a" ', True),
        ('"b"', False),
        ("a", False),
        ('"a', False),
        ("", False),
    ],
)
def test_if_none_match_is_a_list_of_tags_compared_weakly(header: str | None, matches: bool) -> None:
    assert has_entity_tag(header, '"a"') is matches


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip, br", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip ; q=0.5", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=high", False),
    ],
)
def test_gzip_is_used_if_the_client_accepts_it(header: str | None, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
