"""Delta updates: which segments have to be skipped, and which must not be."""

from typing import Final

import pytest

from tests.support.hls.delivery_rules import check_skip
from tests.support.hls.fetches import Fetch, RequestedDirectives, address_of, directives_of
from tests.support.hls.findings import Findings
from tests.support.hls.strict_m3u8 import MediaText, read_playlist

URL: Final = "http://host/live/x/index.m3u8"


def playlist(segments: int, *, skipped: int = 0, ended: bool = False) -> MediaText:
    lines = [
        "#EXTM3U",
        "#EXT-X-VERSION:9",
        "#EXT-X-TARGETDURATION:1",
        "#EXT-X-SERVER-CONTROL:CAN-SKIP-UNTIL=6",
        *([f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"] if skipped else []),
        *(line for number in range(segments) for line in ("#EXTINF:1,", f"{number}.m4s")),
        *(["#EXT-X-ENDLIST"] if ended else []),
        "",
    ]
    text = read_playlist("\n".join(lines).encode(), Findings().about("it"))
    assert isinstance(text, MediaText)
    return text


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("_HLS_skip=YES", playlist(6, skipped=1), []),
        ("_HLS_skip=v2", playlist(7, skipped=9), []),
        ("_HLS_skip=YES", playlist(7), []),  # the first ends 6 s before the end
        (
            "_HLS_skip=YES",
            playlist(8),
            ["a delta update was asked for and the whole playlist came"],
        ),
        ("_HLS_skip=YES", playlist(8, ended=True), []),
        ("_HLS_skip=YES", playlist(5, skipped=1), ["a delta update lists 5.000 s only"]),
        ("_HLS_skip=NO", playlist(8), []),
        ("", playlist(8), []),
        ("", playlist(8, skipped=1), ["a delta update came without being asked for"]),
        (
            "_HLS_skip=YES",
            playlist(8, skipped=1, ended=True),
            ["a delta update came without being asked for"],
        ),
    ],
)
def test_what_is_older_than_the_skip_boundary_is_skipped(
    query: str, text: MediaText, expected: list[str]
) -> None:
    findings = Findings()
    check_skip(Fetch(url=f"{URL}?{query}", began=0, ended=1), text, findings.about("it"))
    assert findings.sentences == [f"it: {each} (6.2.5.1)" for each in expected]


def test_directives_are_no_part_of_an_address() -> None:
    url = f"{URL}?latency=normal&_HLS_msn=7&_HLS_part=2&_HLS_skip=YES"
    assert address_of(url) == f"{URL}?latency=normal"
    assert directives_of(url) == RequestedDirectives(7, 2, skip=True)
    assert directives_of(f"{URL}?_HLS_msn=x") == RequestedDirectives()
    assert address_of(URL) == URL
