"""Segments of a timeline: what grew with its parts equals what is made at once."""

import pytest

from media.hls.m3u8 import M3u8Error
from media.hls.playlist import PartialSegment, PlaylistSegment
from media.hls.timeline_segments import ClosedSegment, OpenSegment, SegmentPage
from tests.support.media.timelines import NOON_US, SEGMENT, part

PARTS = (part(7, 0), part(7, 1, gap=True))


def facts(msn: int, *, gap: bool = False, wall_us: int = NOON_US) -> PlaylistSegment:
    return PlaylistSegment(
        uri=f"{msn}.m4s", duration=SEGMENT, map_uri="init-0.mp4", wall_us=wall_us, gap=gap
    )


@pytest.mark.parametrize("gap", [False, True])
def test_a_segment_that_grew_is_the_one_made_at_once(gap: bool) -> None:
    opened = OpenSegment.of("init-0.mp4", discontinuity=False, wall_us=NOON_US)
    for each in PARTS:
        opened = opened.with_part(each)
    assert opened == OpenSegment.of("init-0.mp4", PARTS, discontinuity=False, wall_us=NOON_US)
    closed = ClosedSegment.of(facts(7, gap=gap), opened.parts)
    assert closed.parts == PARTS
    assert closed.without_parts() == ClosedSegment.of(facts(7, gap=gap))


def test_a_page_loses_its_oldest_segments() -> None:
    segments = [facts(number) for number in range(4)]
    page = SegmentPage.of(segments)
    rest = page.without(1)
    assert rest == SegmentPage.of(segments[1:])
    assert rest.without(2) == page.without(3)


def test_what_a_playlist_cannot_contain_is_refused() -> None:
    refused = (
        PlaylistSegment(uri="a b", duration=SEGMENT),
        PlaylistSegment(uri="a", duration=SEGMENT, map_uri='"'),
        facts(7, wall_us=10**18),
        facts(7, wall_us=-(10**18)),
    )
    for segment in refused:
        with pytest.raises(M3u8Error):
            ClosedSegment.of(segment)
    opened = OpenSegment.of("init-0.mp4", discontinuity=False, wall_us=NOON_US)
    with pytest.raises(M3u8Error):
        opened.with_part(PartialSegment("a b", SEGMENT, independent=True))
