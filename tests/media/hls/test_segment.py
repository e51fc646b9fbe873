import msgspec
import pytest

from media.hls.segment import InitSection, Part, Segment, SegmentStart

INIT = InitSection(rendition="720p", number=1, codecs="avc1.64001F", data=b"moov")
PART = Part(rendition="720p", sequence=7, index=0, duration=45_000, independent=True, data=b"moof")
START = SegmentStart(
    rendition="audio", sequence=7, epoch=1, start=900_000, init=1, discontinuity=False
)
SEGMENT = Segment(
    rendition="audio", sequence=7, epoch=1, start=900_000, duration=180_000, size=4, frames=94,
    parts=4, init=1, discontinuity=False,
)  # fmt: skip


@pytest.mark.parametrize(
    "value", [INIT, START, PART, SEGMENT], ids=["init", "start", "part", "segment"]
)
def test_an_engines_output_is_distinguished_by_its_tag(
    value: InitSection | SegmentStart | Part | Segment,
) -> None:
    decoded = msgspec.msgpack.decode(
        msgspec.msgpack.encode(value), type=InitSection | SegmentStart | Part | Segment
    )
    assert decoded == value


def test_a_segment_is_no_gap_by_default() -> None:
    assert not SEGMENT.gap
