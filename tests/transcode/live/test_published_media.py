from media.hls.segment import Part, Segment, SegmentStart
from transcode.live.published_media import PublishedMedia
from transcode.protocol.messages import Placed

SECOND = 90_000


def start(name: str, at: int) -> SegmentStart:
    return SegmentStart(
        rendition=name, sequence=0, epoch=0, start=at, init=0, discontinuity=False
    )  # fmt: skip


def part(name: str, duration: int) -> Part:
    return Part(
        rendition=name, sequence=0, index=0, duration=duration, independent=True, data=b""
    )  # fmt: skip


def gap(name: str) -> Segment:
    return Segment(
        rendition=name, sequence=0, epoch=0, start=0, duration=1, size=0, frames=0, parts=0,
        init=0, discontinuity=False, gap=True,
    )  # fmt: skip


def test_the_end_is_where_the_slowest_rendition_is_by_the_clock_of_the_source() -> None:
    media = PublishedMedia()
    assert media.source_end(0) is None
    media.place(Placed(epoch=0, offset=10 * SECOND))
    assert media.source_end(0) is None, "nothing was published"
    for name, duration in (("720p", SECOND), ("audio", SECOND // 2)):
        media.add(start(name, 12 * SECOND))
        media.add(part(name, duration))
    assert media.source_end(0) == 5 * SECOND // 2
    media.add(part("audio", SECOND))
    assert media.source_end(0) == 3 * SECOND
    assert media.source_end(1) is None, "of another source"


def test_a_rendition_that_is_not_made_does_not_count() -> None:
    media = PublishedMedia()
    media.place(Placed(epoch=0, offset=0))
    for name in ("720p", "480p", "360p"):
        media.add(start(name, SECOND))
    media.add(gap("360p"))
    media.add(part("720p", 4 * SECOND))
    assert media.source_end(0) == 5 * SECOND
