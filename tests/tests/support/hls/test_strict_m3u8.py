"""Playlists are parsed exactly, and violations of the standard are found."""

from fractions import Fraction
from typing import Final

import pytest

from tests.support.hls.findings import Findings
from tests.support.hls.strict_m3u8 import (
    Control,
    Hint,
    ListedSegment,
    MediaText,
    MultivariantText,
    StrictPart,
    StrictReport,
    read_playlist,
)

HALF: Final = Fraction(1, 2)
MEDIA: Final = """#EXTM3U
#EXT-X-VERSION:9
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-TARGETDURATION:1
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.0,HOLD-BACK=3,PART-HOLD-BACK=1.5
#EXT-X-PART-INF:PART-TARGET=0.5
#EXT-X-MEDIA-SEQUENCE:7
#EXT-X-DISCONTINUITY-SEQUENCE:2
#EXT-X-SKIP:SKIPPED-SEGMENTS=3
#EXT-X-MAP:URI="init-0.mp4"
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:00.250Z
#EXTINF:1.0,
10.m4s
#EXT-X-DISCONTINUITY
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:01.250Z
#EXT-X-PART:DURATION=0.5,URI="11.0.m4s",INDEPENDENT=YES
#EXT-X-PART:DURATION=0.5,URI="11.1.m4s",GAP=YES
#EXT-X-GAP
#EXTINF:1.0,
11.m4s
#EXT-X-PART:DURATION=0.5,URI="12.0.m4s"
#EXT-X-PRELOAD-HINT:TYPE=PART,URI="12.1.m4s"
#EXT-X-RENDITION-REPORT:URI="../audio/index.m3u8",LAST-MSN=12,LAST-PART=0
"""
VARIANTS: Final = """#EXTM3U
#EXT-X-VERSION:7
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="Sound",AUTOSELECT=YES,URI="audio/index.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=1000,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=64x36,AUDIO="a"
360p/index.m3u8
"""


def read(text: str | bytes) -> tuple[MediaText | MultivariantText | None, list[str]]:
    findings = Findings()
    body = text if isinstance(text, bytes) else text.encode()
    playlist = read_playlist(body, findings.about("it"))
    return playlist, [each.removeprefix("it: ") for each in findings.sentences]


def test_a_media_playlist_is_read() -> None:
    text, findings = read(MEDIA)
    assert findings == []
    assert isinstance(text, MediaText)
    assert (text.version, text.target, text.sequence, text.discontinuities) == (9, 1, 7, 2)
    assert (text.skipped, text.part_target, text.ended) == (3, HALF, False)
    assert text.control == Control(
        can_skip_until=Fraction(6),
        hold_back=Fraction(3),
        part_hold_back=Fraction(3, 2),
        can_block_reload=True,
    )
    wall = Fraction(1_769_860_800) + Fraction(1, 4)
    assert text.all == (
        ListedSegment(uri="10.m4s", duration=Fraction(1), map_uri="init-0.mp4", wall=wall),
        ListedSegment(
            uri="11.m4s",
            duration=Fraction(1),
            discontinuity=True,
            wall=wall + 1,
            gap=True,
            parts=(
                StrictPart(uri="11.0.m4s", duration=HALF, independent=True),
                StrictPart(uri="11.1.m4s", duration=HALF, gap=True),
            ),
        ),
        ListedSegment(map_uri="init-0.mp4", parts=(StrictPart(uri="12.0.m4s", duration=HALF),)),
    )
    assert text.last == (12, 0)
    assert text.hints == (Hint("PART", "12.1.m4s"),)
    assert text.reports == (StrictReport("../audio/index.m3u8", 12, 0),)


def test_a_multivariant_playlist_is_read() -> None:
    text, findings = read(VARIANTS)
    assert findings == []
    assert isinstance(text, MultivariantText)
    assert text.uris == ("360p/index.m3u8", "audio/index.m3u8")
    (variant,) = text.variants
    assert (variant.bandwidth, variant.size, variant.audio) == (1000, (64, 36), "a")
    assert variant.codecs == ("avc1.64001f", "mp4a.40.2")


def test_lines_may_end_with_a_carriage_return_and_a_line_feed() -> None:
    assert read(MEDIA.replace("\n", "\r\n"))[1] == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("#EXTM3U\n", "", "the first line is not #EXTM3U (4.4.1.1)"),
        (
            "#EXTM3U\n",
            "\ufeff#EXTM3U\n",
            "the text begins with a byte order mark (4.1)|the first line is not #EXTM3U (4.4.1.1)",
        ),
        ("#EXTM3U\n", "#EXTM3U\n#EXTM3U\n", "#EXTM3U is there twice (4.4.1.1)"),
        ("LAST-PART=0\n", "LAST-PART=0", "the last line has no end (4.1)"),
        (
            "#EXT-X-PART-INF",
            "# a\rb\n#EXT-X-PART-INF",
            "a line ends with a carriage return alone (4.1)",
        ),
        ("#EXT-X-PART-INF", "# a \n#EXT-X-PART-INF", "white space surrounds '# a ' (4.1)"),
        ("\n10.m4s", "\n10>.m4s", "'10>.m4s' is no URI (4.1)"),
        ("1.0,\n10", "1.0,\x01\n10", "a control character is in '#EXTINF:1.0,\\x01' (4.1)"),
        ("VERSION:9\n", "VERSION:9\n#EXT-X-VERSION:9\n", "EXT-X-VERSION is there twice (4.4)"),
        ("VERSION:9", "VERSION:8", "EXT-X-SKIP needs version 9, the text says 8 (8)"),
        (
            "#EXT-X-PART-INF",
            "#EXT-X-OTHER:1\n#EXT-X-PART-INF",
            "the tag EXT-X-OTHER is unknown here (4.4)",
        ),
        (
            "#EXT-X-PART-INF",
            "#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-PART-INF",
            "the tag EXT-X-PLAYLIST-TYPE is unknown here (4.4)",
        ),
        ("#EXT-X-GAP", "#EXT-X-GAP:YES", "'#EXT-X-GAP:YES' has a value (4.4)"),
        ("#EXT-X-TARGETDURATION:1\n", "", "there is no EXT-X-TARGETDURATION (4.4.3.1)"),
        (
            "TARGETDURATION:1",
            "TARGETDURATION:1.5",
            "EXT-X-TARGETDURATION has '1.5' for a number (4.2)",
        ),
        (
            "PART-TARGET=0.5",
            "PART-TARGET=0.5,MORE=1",
            "EXT-X-PART-INF has the unknown attribute MORE (4.2)",
        ),
        (
            "PART-TARGET=0.5",
            "PART-TARGET=0.5,PART-TARGET=0.5",
            "EXT-X-PART-INF has PART-TARGET twice (4.2)",
        ),
        ("PART-TARGET=0.5", "PART-TARGET=0.5,", "EXT-X-PART-INF has no attribute list at '' (4.2)"),
        (
            "CAN-BLOCK-RELOAD=YES,",
            'CAN-BLOCK-RELOAD="YES",',
            'EXT-X-SERVER-CONTROL has CAN-BLOCK-RELOAD="YES", which is no enumerated value (4.2)',
        ),
        (
            "LAST-MSN=12",
            "LAST-MSN=-1",
            "LAST-MSN=-1, which is no integer value (4.2)|no LAST-MSN (4.4)",
        ),
        (',URI="12.0.m4s"', "", "EXT-X-PART has no URI (4.4)"),
        (
            "2026-01-31T12:00:00.250Z",
            "2026-01-31T12:00:00Z",
            "EXT-X-PROGRAM-DATE-TIME has '2026-01-31T12:00:00Z' (4.4.4.6)",
        ),
        (
            "2026-01-31T12:00:00.250Z",
            "2026-02-31T12:00:00.250Z",
            "EXT-X-PROGRAM-DATE-TIME has '2026-02-31T12:00:00.250Z' (4.4.4.6)",
        ),
        ("#EXTINF:1.0,\n10", "#EXTINF:1.0\n10", "EXTINF:1.0 has no comma (4.4.4.1)"),
        (
            "#EXTINF:1.0,\n10",
            "#EXTINF:1e0,\n10",
            "EXTINF has '1e0' for a number (4.2)|10.m4s has no EXTINF (4.4.4.1)",
        ),
        (
            "#EXTINF:1.0,\n10",
            "#EXTINF:1.0,\n#EXTINF:1.0,\n10",
            "a segment has two EXTINF (4.4.4.1)",
        ),
        ("#EXTINF:1.0,\n10", "10", "10.m4s has no EXTINF (4.4.4.1)"),
        (
            '\n11.m4s\n#EXT-X-PART:DURATION=0.5,URI="12.0.m4s"',
            "",
            "the last EXTINF or EXT-X-GAP has no URI (4.4.4.1)",
        ),
        (
            '#EXT-X-PART:DURATION=0.5,URI="12',
            '#EXT-X-DISCONTINUITY\n#EXT-X-DISCONTINUITY\n#EXT-X-PART:DURATION=0.5,URI="12',
            "a segment has two EXT-X-DISCONTINUITY (4.4.4.3)",
        ),
        (
            "#EXT-X-GAP",
            '#EXT-X-MAP:URI="init-1.mp4"\n#EXT-X-GAP',
            "EXT-X-MAP comes after a part of its segment (4.4.4.9)",
        ),
        (
            "#EXTINF:1.0,\n11",
            '#EXTINF:1.0,\n#EXT-X-PART:DURATION=0.5,URI="x"\n11',
            "a part comes after the EXTINF of its segment (4.4.4.9)",
        ),
        (
            "#EXT-X-PART-INF:PART-TARGET=0.5\n",
            "",
            "there are parts without EXT-X-PART-INF (4.4.3.7)",
        ),
        (
            "10.m4s\n",
            "10.m4s\n#EXT-X-SKIP:SKIPPED-SEGMENTS=3\n",
            "EXT-X-SKIP is there twice (4.4)|EXT-X-SKIP comes after a segment (4.4.5.2)",
        ),
        ("#EXT-X-MEDIA-SEQUENCE:7\n", "", ""),
        (
            "LAST-PART=0\n",
            "LAST-PART=0\n#EXT-X-MEDIA-SEQUENCE:7\n",
            "EXT-X-MEDIA-SEQUENCE is there twice (4.4)|"
            "EXT-X-MEDIA-SEQUENCE comes after a segment (4.4.3.2)",
        ),
        (
            "\n10.m4s\n",
            "\n10.m4s\n#EXT-X-DISCONTINUITY-SEQUENCE:2\n",
            "EXT-X-DISCONTINUITY-SEQUENCE is there twice (4.4)|"
            "EXT-X-DISCONTINUITY-SEQUENCE comes after a segment (4.4.3.3)",
        ),
        (
            "#EXT-X-PRELOAD",
            '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="x.m4s"\n#EXT-X-PRELOAD',
            "there are two hints of the type PART (6.2.6)",
        ),
        ("../audio", "/audio", "the report of /audio/index.m3u8 has no relative URI (4.4.5.4)"),
        (
            '#EXT-X-PART:DURATION=0.5,URI="12.0.m4s"\n',
            "#EXT-X-ENDLIST\n",
            "EXT-X-ENDLIST and EXT-X-PRELOAD-HINT are both there (4.4.5.3)",
        ),
        (
            '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="12.1.m4s"',
            "#EXT-X-ENDLIST",
            "EXT-X-ENDLIST is there while a segment is open (4.4.3.4)",
        ),
    ],
)
def test_what_a_media_playlist_must_not_be(old: str, new: str, expected: str) -> None:
    assert old in MEDIA
    _, findings = read(MEDIA.replace(old, new, 1))
    wanted = expected.split("|") if expected else []
    assert len(findings) == len(wanted), findings
    assert all(part in each for each, part in zip(findings, wanted, strict=True)), findings


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("360p/index.m3u8\n", "", "the last EXT-X-STREAM-INF has no URI (4.4.6.2)"),
        (
            "360p",
            "#\n360p",
            "EXT-X-STREAM-INF is not followed by a URI (4.4.6.2)|"
            "360p/index.m3u8 has no EXT-X-STREAM-INF (4.4.6.2)",
        ),
        ("BANDWIDTH=1000,", "", "EXT-X-STREAM-INF has no BANDWIDTH (4.4)"),
        ('CODECS="avc1.64001f,mp4a.40.2",', "", "a variant has no CODECS (4.4.6.2)"),
        ('AUDIO="a"', 'AUDIO="b"', "360p/index.m3u8 names the missing group b (4.4.6.2)"),
        (
            "64x36",
            "64*36",
            "EXT-X-STREAM-INF has RESOLUTION=64*36, which is no resolution value (4.2)",
        ),
        (
            "#EXT-X-VERSION:7\n",
            "#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n",
            "the tag EXT-X-TARGETDURATION is unknown here (4.4)",
        ),
        (
            "#EXT-X-STREAM",
            '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="Sound"\n#EXT-X-STREAM',
            "two renditions of a group share a name (4.4.6.1.1)",
        ),
    ],
)
def test_what_a_multivariant_playlist_must_not_be(old: str, new: str, expected: str) -> None:
    assert old in VARIANTS
    assert read(VARIANTS.replace(old, new, 1))[1] == expected.split("|")


def test_what_is_no_text_is_no_playlist() -> None:
    assert read(b"\xff\xfe") == (
        None,
        ["the text is not UTF-8 (4.1)", "the first line is not #EXTM3U (4.4.1.1)"],
    )
