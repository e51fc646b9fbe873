"""The source's own packets after an encoder has made their rung."""

import threading
from pathlib import Path

import pytest

from media.hls.fmp4 import Sample
from media.hls.segment import InitSection, Part, Segment
from tests.support.engine.sources import Source
from tests.support.engine.splices import source_to_splice
from tests.transcode.engine.live.test_source import source as live_source
from transcode.engine.live.own_packets import OwnPackets
from transcode.engine.output.segment_grid import Cut
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport

SECOND = 90_000


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return source_to_splice(folder)


def test_packets_wait_until_the_encoder_has_handed_the_segmenter_back(source: Source) -> None:
    reports: list[EngineReport] = []
    segmenter = LiveSegmenter("240p", SECOND, reports.append)
    segmenter.begin(epoch=0, part=SECOND)
    free = threading.Event()
    own = OwnPackets(segmenter, free)
    live = live_source(source.video)
    for number in range(3):
        at, picture = SECOND + number * 3_000, source.pictures[number]
        cut = Cut(sequence=4, at=SECOND) if number == 0 else None
        own.add(live, Sample(at, at, 0, picture.key, picture.data), cut)
    assert reports == []
    free.set()
    at = SECOND + 9_000
    own.add(live, Sample(at, at, 0, False, source.pictures[3].data), None)
    assert own.end() == SECOND + 12_000
    assert isinstance(reports[0], InitSection)
    (segment,) = (each for each in reports if isinstance(each, Segment))
    assert (segment.sequence, segment.frames) == (4, 4)


def test_pictures_ahead_of_others_that_do_not_come_are_not_sent(source: Source) -> None:
    reports: list[EngineReport] = []
    segmenter = LiveSegmenter("240p", SECOND, reports.append)
    segmenter.begin(epoch=0, part=SECOND)
    own = OwnPackets(segmenter)
    live = live_source(source.video)
    for number, place in enumerate((0, 1, 5, 3)):  # 2 and 4 have not come
        at, picture = SECOND + number * 3_000, source.pictures[number]
        cut = Cut(sequence=4, at=SECOND) if number == 0 else None
        own.add(live, Sample(at, SECOND + place * 3_000, 0, picture.key, picture.data), cut)
    assert own.pause(SECOND + 6_000) == 4 * 3_000
    (part,) = (each for each in reports if isinstance(each, Part))
    assert part.duration == 6_000
    assert own.pause(SECOND + 6_000) == 0


def test_what_waits_is_written_at_the_end(source: Source) -> None:
    reports: list[EngineReport] = []
    segmenter = LiveSegmenter("240p", SECOND, reports.append)
    segmenter.begin(epoch=0, part=SECOND)
    free = threading.Event()
    own = OwnPackets(segmenter, free)
    sample = Sample(SECOND, SECOND, 0, True, source.pictures[0].data)
    own.add(live_source(source.video), sample, Cut(sequence=0, at=SECOND))
    threading.Timer(0.05, free.set).start()
    own.end()
    assert [each.frames for each in reports if isinstance(each, Segment)] == [1]
