"""The queries of live playlists: valid directives, and invalid ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.origin.directives import BadDirective, Directives, parse_directives


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Directives()),
        ("_HLS_msn=7", Directives(msn=7)),
        ("_HLS_msn=7&_HLS_part=2", Directives(msn=7, part=2)),
        ("_HLS_part=0&_HLS_msn=0&_HLS_skip=YES", Directives(msn=0, part=0, skip=True)),
        ("_HLS_skip=v2", Directives(skip=True)),
        ("latency=normal", Directives(low_latency=False)),
        ("latency=low", Directives()),
        ("token=a=b&_HLS_msn=1&x", Directives(msn=1)),
    ],
)
def test_directives_are_read_from_a_query(query: str, expected: Directives) -> None:
    assert parse_directives(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "_HLS_msn=",
        "_HLS_msn=-1",
        "_HLS_msn=1.5",
        "_HLS_msn=\u0661",
        "_HLS_msn=9999999999999",
        "_HLS_part=1",
        "_HLS_msn=1&_HLS_part=x",
        "_HLS_skip=yes",
        "x=" + 2048 * "y",
    ],
)
def test_invalid_directives_are_refused(query: str) -> None:
    with pytest.raises(BadDirective):
        parse_directives(query)


@given(st.text(max_size=200) | st.from_regex(r"(_HLS_(msn|part|skip)=[0-9YESv]{0,3}&?){1,4}"))
def test_any_query_is_read_or_refused(query: str) -> None:
    try:
        directives = parse_directives(query)
    except BadDirective:
        return
    assert directives.part is None or directives.msn is not None
