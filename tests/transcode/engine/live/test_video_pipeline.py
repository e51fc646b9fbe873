"""Pictures, cuts, holds and slates through the live video pipeline, decoded by a stand-in."""

import os
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from av.video.frame import VideoFrame

from media.hls.segment import Segment
from media.ladder import Rendition
from tests.support.engine.raw_images import flat
from transcode.engine.codec.decode import TIME_BASE, AudioDecoder
from transcode.engine.core.reports import ReportWriter
from transcode.engine.live.video_pipeline import HoldUntil, StartSlate, VideoPipeline
from transcode.engine.output.rendition_encoder import EncoderStage, HandBack, RenditionEncoder
from transcode.engine.output.segment_grid import Cut
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import EngineReport, Trouble, WireReader

FRAME = 3_000
SECOND = 90_000
RENDITIONS = (
    Rendition(name="72p", width=128, height=72, rate=200_000),
    Rendition(name="36p", width=64, height=36, rate=100_000),
)


class RawDecoder:
    """Returns a grey frame for each packet, or none where the data is empty."""

    aspect: Fraction | None = Fraction(1)

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        if not data:
            return []
        frame = flat(data[0])
        frame.pts, frame.time_base = pts, TIME_BASE
        return [frame]

    def drain(self) -> list[VideoFrame]:
        return []

    def video(self) -> "RawDecoder":
        return self

    def audio(self) -> AudioDecoder:
        raise LookupError("no sound")


class Pipeline:
    """A pipeline with two renditions, and what it reported once it was finished."""

    def __init__(self, path: Path, *, reuses: bool = False) -> None:
        self._path = path
        self._sent: list[EngineReport] = []
        self._troubles = ReportWriter(os.open(path, os.O_WRONLY | os.O_CREAT))
        self._encoders: list[RenditionEncoder] = []
        for each in RENDITIONS:
            segmenter = LiveSegmenter(each.name, SECOND, self._sent.append)
            segmenter.begin(epoch=0, part=SECOND)
            self._encoders.append(RenditionEncoder(each, segmenter, self._troubles, Fraction(30)))
        stages = [EncoderStage(each.rendition.name, [each], depth=4) for each in self._encoders]
        self.pipeline = VideoPipeline(
            None,
            stages=stages[1:] if reuses else stages,
            successor=stages[0] if reuses else None,
            reports=self._troubles,
            part=SECOND,
            decoders=RawDecoder(),
        )

    def pictures(self, first: int, last: int, *, lost: bool = False) -> None:
        for number in range(first, last):
            data = b"" if lost else bytes([60 + number])
            self.pipeline.put((data, number * FRAME, number * FRAME))

    def cut(
        self, sequence: int, at: int, *, off: frozenset[str] = frozenset(), takeover: bool = False
    ) -> None:
        self.pipeline.put(Cut(sequence=sequence, at=at * FRAME, off=off, takeover=takeover))

    def finish(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return number, start and frames of each rendition's segments; gaps have no frames."""
        self.pipeline.finish()
        for each in self._encoders:
            each.segmenter.end(20 * FRAME)
        frames: dict[str, list[tuple[int, int, int]]] = {}
        for each in self._sent:
            if isinstance(each, Segment):
                assert each.gap is not bool(each.frames)
                frames.setdefault(each.rendition, []).append(
                    (each.sequence, each.start // FRAME, each.frames)
                )
        return frames

    def troubles(self) -> set[str]:
        self._troubles.flush_troubles()
        reader: WireReader[EngineReport] = WireReader(EngineReport)
        reports = reader.feed(self._path.read_bytes())
        return {each.what for each in reports if isinstance(each, Trouble)}


@pytest.fixture
def new_pipeline(tmp_path: Path) -> Callable[[], Pipeline]:
    return lambda: Pipeline(tmp_path / "reports")


def test_every_rendition_has_each_picture_in_its_segment(
    new_pipeline: Callable[[], Pipeline],
) -> None:
    of = new_pipeline()
    of.cut(0, 0)
    of.pictures(0, 10)
    of.cut(1, 10)
    of.pictures(10, 16)
    expected = [(0, 0, 10), (1, 10, 6)]
    assert of.finish() == {"72p": expected, "36p": expected}
    assert of.troubles() == set()


def test_a_segment_without_a_picture_begins_with_the_last_one_again(
    new_pipeline: Callable[[], Pipeline],
) -> None:
    of = new_pipeline()
    of.cut(0, 0)
    of.pictures(0, 5)
    of.cut(1, 5)
    of.pictures(5, 10, lost=True)
    of.cut(2, 10)
    of.pictures(10, 12)
    assert of.finish()["36p"] == [(0, 0, 5), (1, 5, 1), (2, 10, 2)]
    assert of.troubles() == {"picture missing"}


def test_a_held_picture_is_repeated_ten_times_a_second(
    new_pipeline: Callable[[], Pipeline],
) -> None:
    of = new_pipeline()
    of.cut(0, 0)
    of.pictures(0, 1)
    of.pipeline.put(HoldUntil(SECOND))
    assert of.finish()["72p"] == [(0, 0, 11)]


def test_a_slate_follows_the_last_picture(new_pipeline: Callable[[], Pipeline]) -> None:
    of = new_pipeline()
    of.cut(0, 0)
    of.pictures(0, 3)
    of.pipeline.put(StartSlate(4 * FRAME, None))
    of.cut(1, 15)
    of.pipeline.put(HoldUntil(15 * FRAME))
    assert [each[:2] for each in of.finish()["72p"]] == [(0, 0), (1, 15)]
    assert of.troubles() == set(), "a cut during the slate lacks nothing"


def test_a_rendition_that_a_cut_leaves_out_has_a_gap(
    new_pipeline: Callable[[], Pipeline],
) -> None:
    of = new_pipeline()
    of.cut(0, 0)
    of.pictures(0, 5)
    of.cut(1, 5, off=frozenset({"72p"}))
    of.pictures(5, 10)
    of.cut(2, 10)
    of.pictures(10, 12)
    assert of.finish() == {
        "72p": [(0, 0, 5), (1, 5, 0), (2, 10, 2)],
        "36p": [(0, 0, 5), (1, 5, 5), (2, 10, 2)],
    }


def test_what_is_abandoned_is_a_gap_until_the_cut_that_brings_it_back(
    new_pipeline: Callable[[], Pipeline],
) -> None:
    of = new_pipeline()
    of.pipeline.abandon(frozenset({"72p"}), 1, reuses=False)
    of.cut(0, 0)
    of.pictures(0, 5)
    of.cut(1, 5)
    of.pictures(5, 8)
    assert of.finish() == {"72p": [(0, 0, 0), (1, 5, 3)], "36p": [(0, 0, 5), (1, 5, 3)]}


def test_what_is_abandoned_does_not_keep_the_top_rung_from_being_taken_over(
    tmp_path: Path,
) -> None:
    """Decoding is behind: the only encoder is abandoned before the takeover reaches it."""
    of = Pipeline(tmp_path / "reports", reuses=True)
    of.pipeline.abandon(frozenset({"36p"}), 2, reuses=False)
    of.cut(0, 0)
    of.pictures(0, 3)
    of.cut(1, 5, takeover=True)
    of.pictures(3, 8)
    assert of.finish() == {"72p": [(1, 5, 3)], "36p": [(0, 0, 0), (1, 5, 0)]}


def test_what_is_abandoned_after_the_bridge_does_not_begin_it_without_its_cut(
    tmp_path: Path,
) -> None:
    """Decoding is behind: the source's own packets make the top rung again when it is told."""
    of = Pipeline(tmp_path / "reports", reuses=True)
    of.pipeline.abandon(frozenset({"36p"}), 3, reuses=True)
    of.cut(0, 0)
    of.pictures(0, 3)
    of.cut(1, 5, takeover=True)
    of.pictures(3, 8)
    of.pipeline.put(HandBack(threading.Event()))
    of.pipeline.put(Cut(sequence=2, at=8 * FRAME, off=frozenset({"36p"}), decoded=False))
    assert of.finish() == {"72p": [(1, 5, 3)], "36p": [(0, 0, 0), (1, 5, 0), (2, 8, 0)]}
