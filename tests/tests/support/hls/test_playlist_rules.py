"""A single playlist: a valid one has no findings, and each rule detects its violation."""

from typing import Final

import pytest

from tests.support.hls.findings import Findings
from tests.support.hls.playlist_rules import check_playlist
from tests.support.hls.strict_m3u8 import MediaText, read_playlist


def part(name: str, *flags: str) -> str:
    return ",".join([f'#EXT-X-PART:DURATION=0.5,URI="{name}.m4s"', *flags])


GOOD: Final = f"""#EXTM3U
#EXT-X-VERSION:9
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-TARGETDURATION:1
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.0,HOLD-BACK=3,PART-HOLD-BACK=1.5
#EXT-X-PART-INF:PART-TARGET=0.5
#EXT-X-MEDIA-SEQUENCE:1
#EXT-X-MAP:URI="init-0.mp4"
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:01.000Z
#EXTINF:1.25,
1.m4s
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:02.250Z
{part("2.0", "INDEPENDENT=YES")}
{part("2.1")}
#EXTINF:1.0,
2.m4s
#EXT-X-DISCONTINUITY
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:05.000Z
{part("3.0", "INDEPENDENT=YES")}
#EXT-X-PRELOAD-HINT:TYPE=PART,URI="3.1.m4s"
"""
FAR: Final = "".join(f"#EXTINF:1.0,\n{n}.m4s\n" for n in range(10, 15))


def check(text: str, *, low: bool | None = True) -> list[str]:
    findings = Findings()
    playlist = read_playlist(text.encode(), findings.about("it"))
    assert isinstance(playlist, MediaText)
    assert findings.sentences == [], "a fault of syntax"
    check_playlist(playlist, low=low, report=findings.about("it"))
    return [each.removeprefix("it: ") for each in findings.sentences]


def test_a_good_playlist_has_no_findings() -> None:
    assert check(GOOD) == []
    assert check(GOOD, low=None) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("EXTINF:1.25,", "EXTINF:1.5,", [
            "1 lasts 1.500 s, the target is 1 s (4.4.3.1)",
            "the date of 2 is -0.250 s off its predecessor's end (4.4.4.6)",
        ]),
        ('#EXT-X-MAP:URI="init-0.mp4"\n', "", [
            "1 has no EXT-X-MAP (3.1.2)", "2 has no EXT-X-MAP (3.1.2)",
        ]),
        ("PART-TARGET=0.5", "PART-TARGET=0.49", [
            "part 2.0 lasts 0.500000 s of a target of 0.490000 s (4.4.4.9)",
            "part 2.1 lasts 0.500000 s of a target of 0.490000 s (4.4.4.9)",
            "part 3.0 lasts 0.500000 s of a target of 0.490000 s (4.4.4.9)",
        ]),
        ("PART-TARGET=0.5", "PART-TARGET=0.59", [
            "PART-HOLD-BACK is 1.500 s, less than 1.770 s (4.4.3.8)",
            "part 2.0 lasts 0.500000 s, less than 85 % of 0.590000 s (4.4.4.9)",
        ]),
        ('"2.0.m4s",INDEPENDENT=YES', '"2.0.m4s"', ["part 2.0 is not INDEPENDENT (4.4.2.1)"]),
        ("EXTINF:1.0,\n2", "EXTINF:1.111,\n2", [
            "the parts of 2 last 1.000000 s, it lasts 1.111000 s (3.2)",
        ]),
        ("EXTINF:1.25,", "EXTINF:1.2,", [
            "the date of 2 is +0.050 s off its predecessor's end (4.4.4.6)",
        ]),
        ("12:00:05.000Z", "12:00:02.200Z", [
            "the date of 3 is ambiguous by -1.050 s (6.2.1)",
        ]),
        ("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-UNTIL=5.9", [
            "CAN-SKIP-UNTIL is 5.900 s, less than 6.000 s (4.4.3.8)",
        ]),
        ("HOLD-BACK=3,", "HOLD-BACK=2,", ["HOLD-BACK is 2.000 s, less than 3.000 s (4.4.3.8)"]),
        ("PART-HOLD-BACK=1.5", "PART-HOLD-BACK=1.4", [
            "PART-HOLD-BACK is 1.400 s, less than 1.500 s (4.4.3.8)",
        ]),
        (",PART-HOLD-BACK=1.5", "", ["there is EXT-X-PART-INF without PART-HOLD-BACK (4.4.3.8)"]),
        ("CAN-BLOCK-RELOAD=YES,", "", ["there is no CAN-BLOCK-RELOAD (B.1)"]),
        ("CAN-SKIP-UNTIL=6.0,", "", ["there is no CAN-SKIP-UNTIL (B.1)"]),
        ('#EXT-X-PRELOAD-HINT:TYPE=PART,URI="3.1.m4s"\n', "", [
            "there is no hint of the next part (B.1)",
        ]),
        ("#EXT-X-DISCONTINUITY\n", FAR + "#EXT-X-DISCONTINUITY\n", [
            "the parts of 2 are still listed, far from the end (6.2.2)",
        ]),
    ],
)  # fmt: skip
def test_a_rule_that_is_broken_is_found(old: str, new: str, expected: list[str]) -> None:
    assert old in GOOD
    assert sorted(check(GOOD.replace(old, new, 1))) == sorted(expected)


def test_dates_and_parts_are_demanded_for_low_latency_only() -> None:
    lines = [line for line in GOOD.splitlines() if "DATE-TIME" not in line and "PART" not in line]
    text = "\n".join([*lines[:-1], ""])  # the discontinuity of the open segment
    assert check(text, low=None) == []
    assert check(text) == [
        "there is no EXT-X-PART-INF (4.4.3.7)",
        "there is no CAN-BLOCK-RELOAD (B.1)",
        "there is no CAN-SKIP-UNTIL (B.1)",
        "there is no EXT-X-PROGRAM-DATE-TIME (B.1)",
    ]


def test_normal_latency_has_none_of_its_tags() -> None:
    assert check(GOOD, low=False) == [
        "EXT-X-PART, EXT-X-PART-INF, EXT-X-PRELOAD-HINT in a playlist of normal latency "
        "(decided for latency=normal)"
    ]
