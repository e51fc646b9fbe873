"""What a low-latency playlist lists, and how old its parts' pictures were."""

import pytest

from bench.latency.parts import (
    ListedPart,
    NoParts,
    ReadPart,
    newest_parts,
    stages,
    top_rendition,
)

AT = "http://host/live/a/index.m3u8"
MULTIVARIANT = """#EXTM3U
#EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360,CODECS="avc1.64001e"
run/360p/index.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=3000000,RESOLUTION=1280x720,CODECS="avc1.64001f"
run/720p/index.m3u8
"""
MEDIA = """#EXTM3U
#EXT-X-MEDIA-SEQUENCE:7
#EXT-X-MAP:URI="init-1.mp4"
#EXTINF:2.0,
7.m4s
#EXT-X-PART:DURATION=0.5,URI="8.0.m4s",INDEPENDENT=YES
#EXTINF:0.5,
8.m4s
#EXT-X-PART:URI="9.0.m4s",DURATION=0.4
#EXT-X-PRELOAD-HINT:TYPE=PART,URI="9.1.m4s"
"""


def test_the_largest_variant_is_read() -> None:
    assert top_rendition(MULTIVARIANT, AT) == "http://host/live/a/run/720p/index.m3u8"
    with pytest.raises(NoParts):
        top_rendition("#EXTM3U\n", AT)


def test_parts_have_their_numbers_and_the_next_one_is_known() -> None:
    parts, following = newest_parts(MEDIA, "http://host/b/index.m3u8")
    init = "http://host/b/init-1.mp4"
    assert parts == [
        ListedPart(8, 0, 0.5, "http://host/b/8.0.m4s", init),
        ListedPart(9, 0, 0.4, "http://host/b/9.0.m4s", init),
    ]
    assert following == (9, 1)
    closed = MEDIA.replace("#EXT-X-PRELOAD", "#EXTINF:0.4,\n9.m4s\n#EXT-X-PRELOAD")
    assert newest_parts(closed, AT)[1] == (10, 0)


def _part(listed: float, fetched: float, *pictures: int) -> ReadPart:
    part = ListedPart(1, 0, 0.5, "", "")
    return ReadPart(part=part, listed=listed, fetched=fetched, pictures=pictures)


def test_ages_are_of_the_newest_picture() -> None:
    clocks = {0: 1000, 1: 1100, 2: 1200, 3: 1300}
    parts = [_part(1.3, 1.35, 0, 1), _part(1.6, 1.75, 2, 3), _part(9.0, 9.0, 4)]
    ages = stages(parts, clocks)
    assert ages is not None
    assert ages.parts == 2, "a part whose pictures have no clock is left out"
    assert ages.duration == 0.5
    assert ages.listed == pytest.approx(0.25)
    assert ages.late == pytest.approx(0.3)
    assert ages.fetched == pytest.approx(0.35)
    assert stages([], clocks) is None
