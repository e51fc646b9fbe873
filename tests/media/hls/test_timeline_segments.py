"""Segments of a timeline: text that grows with the parts equals text rendered at once."""

import pytest

from media.hls.m3u8 import M3u8Error, SegmentLines
from media.hls.playlist import PlaylistSegment
from media.hls.timeline_segments import ClosedSegment, OpenSegment, SegmentPage
from tests.support.media.timelines import NOON_US, SEGMENT, part

PARTS = (part(7, 0), part(7, 1, gap=True))


def facts(msn: int, *, gap: bool = False) -> PlaylistSegment:
    return PlaylistSegment(
        uri=f"{msn}.m4s", duration=SEGMENT, map_uri="init-0.mp4", wall_us=NOON_US, gap=gap
    )


@pytest.mark.parametrize("gap", [False, True])
def test_a_segment_that_grew_is_the_one_made_at_once(gap: bool) -> None:
    opened = OpenSegment.of("init-0.mp4", discontinuity=False, wall_us=NOON_US)
    for each in PARTS:
        opened = opened.with_part(each)
    assert opened == OpenSegment.of("init-0.mp4", PARTS, discontinuity=False, wall_us=NOON_US)
    closed = opened.closed(facts(7, gap=gap))
    assert closed == ClosedSegment.of(facts(7, gap=gap), PARTS)
    assert closed.parted is not None
    assert SegmentLines().join([closed.parted]).count("#EXT-X-PART:") == 2
    assert closed.without_parts() == ClosedSegment.of(facts(7, gap=gap))


def test_a_page_loses_its_oldest_segments_and_is_split_from_then_on() -> None:
    segments = [ClosedSegment.of(facts(number)) for number in range(4)]
    page = SegmentPage.of(segments)
    assert not page.is_split
    rest = page.without(1)
    assert rest == SegmentPage.of(segments[1:], split=True)
    assert rest.without(2) == page.without(3)
    texts = [SegmentLines().join(each.portions) for each in (rest, SegmentPage.of(segments[1:]))]
    assert texts[0] == texts[1]


def test_what_a_playlist_cannot_contain_is_refused() -> None:
    with pytest.raises(M3u8Error):
        ClosedSegment.of(PlaylistSegment(uri="a b", duration=SEGMENT))
