"""Pictures into segments: IDR pictures at the cuts, gaps, repeats, and decode times of spans."""

import os
from fractions import Fraction
from pathlib import Path

import pytest
from av.video.frame import VideoFrame

from media.hls.fmp4 import Sample
from media.hls.segment import InitSection, Part, Segment
from media.ladder import Rendition
from tests.support.engine.raw_images import flat
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.core.reports import ReportWriter
from transcode.engine.output.rendition_encoder import (
    Abandon,
    DecodeTimes,
    EncoderStage,
    Gap,
    RenditionEncoder,
    Repeat,
)
from transcode.engine.output.segment_grid import Cut
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport

FRAME = 3_000
SIZE = (128, 72)
RENDITION = Rendition(name="72p", width=SIZE[0], height=SIZE[1], rate=200_000)


def picture(number: int) -> VideoFrame:
    frame = flat(60 + number, size=SIZE)
    frame.pts, frame.time_base = number * FRAME, TIME_BASE
    return frame


def cut(number: int, at: int) -> Cut:
    return Cut(sequence=number, at=at * FRAME)


class Encoded:
    """A stage with one encoder on the calling thread, and what it reported."""

    def __init__(self, tmp_path: Path) -> None:
        self.reports: list[EngineReport] = []
        segmenter = LiveSegmenter("72p", 90_000, self.reports.append)
        segmenter.begin(epoch=0, part=45_000)
        troubles = ReportWriter(os.open(tmp_path / "reports", os.O_WRONLY | os.O_CREAT))
        self.encoder = RenditionEncoder(RENDITION, segmenter, troubles, Fraction(30))
        self.stage = EncoderStage("test", [self.encoder], depth=0)

    @property
    def segments(self) -> list[Segment]:
        return [each for each in self.reports if isinstance(each, Segment)]


@pytest.fixture
def encoded(tmp_path: Path) -> Encoded:
    return Encoded(tmp_path)


def test_a_picture_with_a_cut_opens_a_segment_with_an_idr_picture(encoded: Encoded) -> None:
    for number in range(20):
        due = cut(number // 10, number) if number % 10 == 0 else None
        encoded.stage.put(([picture(number)], due))
    encoded.stage.finish()
    assert [each.start for each in encoded.segments] == [0, 10 * FRAME]
    assert [each.frames for each in encoded.segments] == [10, 10]
    firsts = [each for each in encoded.reports if isinstance(each, Part) and each.index == 0]
    assert [each.independent for each in firsts] == [True, True]
    assert sum(isinstance(each, InitSection) for each in encoded.reports) == 1
    assert encoded.encoder.end == 20 * FRAME
    assert encoded.encoder.segmenter.cpu_ns > 0


def test_the_newest_picture_is_encoded_again(encoded: Encoded) -> None:
    encoded.stage.put(Repeat(0, cut(0, 0)))
    encoded.stage.put(([picture(0)], cut(0, 0)))
    for number in range(1, 5):
        encoded.stage.put(Repeat(number * FRAME, None))
    encoded.stage.finish()
    assert [each.frames for each in encoded.segments] == [5]


def test_a_gap_ends_where_the_next_picture_with_a_cut_begins(encoded: Encoded) -> None:
    for number in range(5):
        encoded.stage.put(([picture(number)], cut(0, 0) if number == 0 else None))
    encoded.stage.put(Gap(cut(1, 5), 5 * FRAME))
    encoded.stage.put(([picture(10)], cut(2, 10)))
    encoded.stage.finish()
    assert [(each.gap, each.start) for each in encoded.segments] == [
        (False, 0), (True, 5 * FRAME), (False, 10 * FRAME),
    ]  # fmt: skip


def test_what_is_abandoned_becomes_a_gap_that_stays_open(encoded: Encoded) -> None:
    for number in range(12):
        encoded.stage.put(([picture(number)], cut(number, number) if number in (0, 8) else None))
    encoded.stage.put(Abandon())
    encoded.stage.finish()
    assert encoded.encoder.segmenter.is_gap
    assert encoded.encoder.end is None
    encoded.encoder.segmenter.end(12 * FRAME)
    assert [(each.sequence, each.gap, each.frames) for each in encoded.segments] == [
        (0, True, 0), (8, True, 0),
    ]  # fmt: skip


def test_decode_times_of_a_span_are_those_of_the_pictures_before() -> None:
    times = DecodeTimes(700)
    for pts in (1_000, 1_300, 1_500):
        times.expect(pts)
    samples = [Sample(0, pts, 0, False, b"") for pts in (1_000, 1_500, 1_300)]
    stamped = [times.stamp(each) for each in samples]
    assert [(each.dts, each.pts, each.duration) for each in stamped if each] == [
        (700, 1_000, 300), (1_000, 1_500, 300), (1_300, 1_300, 200),
    ]  # fmt: skip


def test_the_last_picture_of_an_asset_lasts_to_its_end() -> None:
    times = DecodeTimes(0, 2_000)
    for pts in (300, 1_900):
        times.expect(pts)
    first = times.stamp(Sample(0, 300, 0, True, b""))
    times.close()
    last = times.stamp(Sample(0, 1_900, 0, False, b""))
    assert [each and (each.dts, each.duration) for each in (first, last)] == [(0, 300), (300, 100)]


def test_a_segment_after_a_picture_that_stands_is_decoded_when_it_begins() -> None:
    """So its samples last as long as it; a P picture that follows B-frames must come earlier."""
    times = DecodeTimes(0, 9_990_000)
    for pts, entry in ((300, True), (900_000, True), (1_800_000, False), (9_900_000, True)):
        times.expect(pts, entry=entry)
    times.close()
    samples = [Sample(0, pts, 0, False, b"") for pts in (300, 900_000, 1_800_000, 9_900_000)]
    stamped = [each for each in map(times.stamp, samples) if each is not None]
    assert [(each.dts, each.dts + each.duration) for each in stamped] == [
        (0, 896_400), (896_400, 900_000), (900_000, 9_896_400), (9_896_400, 9_986_400),
    ]  # fmt: skip


def test_a_span_ends_where_the_next_one_is_decoded() -> None:
    one, other = DecodeTimes(0, following=900_000), DecodeTimes(3_000)
    one.expect(3_000, entry=True)
    one.close()
    other.expect(900_000, entry=True)
    last, first = (
        times.stamp(Sample(0, pts, 0, True, b"")) for times, pts in ((one, 3_000), (other, 900_000))
    )
    assert last is not None
    assert first is not None
    assert last.dts + last.duration == first.dts == 900_000 - 3_600


def test_a_sample_with_a_time_that_no_picture_had_gets_no_decode_time() -> None:
    times = DecodeTimes(0)
    times.expect(300)
    assert times.stamp(Sample(0, 301, 0, False, b"")) is None
    assert times.stamp(Sample(0, 300, 0, False, b"")) is not None
