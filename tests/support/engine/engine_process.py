"""A real engine process, driven through its pipes, and its parsed output."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import AUDIO_RENDITION, Ladder, ladder_for
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from tests.support.engine.engine_forks import run_engine
from tests.support.engine.sources import Source, thinned
from transcode.protocol.messages import (
    Begin,
    EngineOrder,
    EngineReport,
    EpochFinished,
    Finish,
    Prepared,
    Trouble,
    WireReader,
    pack,
)

ORIGIN = ORIGIN_SECONDS * VIDEO_SCALE
LABELS = frozenset({"1080p", "720p", "480p", "360p"})
FRAME = VIDEO_SCALE // 30
AAC_FRAME = 1_920
_SECONDS = 60  # far longer than any test takes, so that a hang does not block the tests

T = TypeVar("T")


class EngineOutput:
    """The reports of one engine, by kind and rendition."""

    def __init__(self, reports: list[EngineReport], status: int, complaints: str) -> None:
        self.reports = reports
        self.status = status
        self.complaints = complaints

    def of(self, kind: type[T]) -> list[T]:
        return [report for report in self.reports if isinstance(report, kind)]

    @property
    def troubles(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for trouble in self.of(Trouble):
            counts[trouble.what] = counts.get(trouble.what, 0) + trouble.count
        return counts

    @property
    def names(self) -> list[str]:
        return sorted({segment.rendition for segment in self.of(Segment)})

    def segments(self, name: str) -> list[Segment]:
        return [segment for segment in self.of(Segment) if segment.rendition == name]

    def parts(self, name: str) -> list[Part]:
        return [part for part in self.of(Part) if part.rendition == name]

    def inits(self, name: str) -> list[InitSection]:
        return [init for init in self.of(InitSection) if init.rendition == name]

    def data(self, segment: Segment) -> bytes:
        """The bytes of a segment: its parts joined, without those of an abandoned one."""
        if segment.gap:
            return b""
        return b"".join(
            part.data for part in self.parts(segment.rendition) if part.sequence == segment.sequence
        )

    @property
    def finished(self) -> EpochFinished:
        """The totals of the only epoch."""
        (last,) = self.of(EpochFinished)
        return last

    def starts(self, name: str) -> list[int]:
        return [segment.start for segment in self.segments(name)]

    def _outline(self) -> dict[str, list[tuple[int, int, int, bool]]]:
        """Number, start, length and gap of each segment, for assertion messages."""
        return {
            name: [
                (segment.sequence, segment.start, segment.duration, segment.gap)
                for segment in self.segments(name)
            ]
            for name in self.names
        }

    def in_step(self) -> bool:
        """Return whether all renditions have the same segments, times and discontinuities."""
        pictures = [name for name in self.names if name != AUDIO_RENDITION]
        first = self.segments(pictures[0])
        self._announced()
        self._parts_obey()
        for name in self.names:
            segments = self.segments(name)
            numbers = [each.sequence for each in segments]
            assert numbers == [each.sequence for each in first], (name, self._outline())
            assert [each.discontinuity for each in segments] == [
                each.discontinuity for each in first
            ]
            most = FRAME + AAC_FRAME if name == AUDIO_RENDITION else 0
            for segment, reference in zip(segments, first, strict=True):
                # An abandoned segment begins at its cut, others with the first picture after it.
                slack = max(most, FRAME if segment.gap or reference.gap else 0)
                assert abs(segment.start - reference.start) <= slack
        return True

    def _announced(self) -> None:
        """Assert that each segment was announced before its first part, with the same values.

        A gap is announced as well, when its rendition has no more of it.
        """
        starts: dict[tuple[str, int], SegmentStart] = {}
        gaps: set[tuple[str, int]] = set()
        for report in self.reports:
            match report:
                case SegmentStart():
                    starts[report.rendition, report.sequence] = report
                case GapStart():
                    assert (report.rendition, report.sequence) not in gaps
                    gaps.add((report.rendition, report.sequence))
                case Part():
                    assert (report.rendition, report.sequence) in starts
                    assert (report.rendition, report.sequence) not in gaps
                case Segment() if report.gap:
                    assert (report.rendition, report.sequence) in gaps
                case Segment():
                    start = msgspec.structs.asdict(starts[report.rendition, report.sequence])
                    assert not start.pop("borrowed")
                    assert start.items() <= msgspec.structs.asdict(report).items()
                case _:
                    pass

    def _parts_obey(self) -> None:
        """Assert that parts last 85 to 100 % of their epoch's target, the last of a segment up to
        it (RFC 8216bis, 4.4.4.9).
        """
        targets = {prepared.epoch: prepared.part for prepared in self.of(Prepared)}
        if not targets:  # the segments of a file consist of one part each
            return
        starts = self.of(SegmentStart)
        epochs = {(start.rendition, start.sequence): start.epoch for start in starts}
        parts = self.of(Part)
        last = {(part.rendition, part.sequence): part.index for part in parts}
        for part in parts:
            key = (part.rendition, part.sequence)
            target = targets[epochs[key]]
            assert part.duration <= target
            assert part.duration >= 0.85 * target or part.index == last[key]

    def files(self, name: str) -> list[bytes]:
        """Return one file per init section: the init section and its segments."""
        joined: dict[int, bytes] = {init.number: init.data for init in self.inits(name)}
        for segment in self.segments(name):
            if not segment.gap:
                joined[segment.init] += self.data(segment)
        return list(joined.values())


def begin(
    source: Source,
    *,
    ladder: Ladder | None = None,
    epoch: int = 0,
    start: int = ORIGIN,
    sequence: int = 0,
    inits: dict[str, int] | None = None,
    discontinuity: bool = False,
    reuse: bool = True,
) -> Begin:
    """Return the order for a source, by default with the standard ladder."""
    video = source.video
    if ladder is None and video is not None:
        ladder = thinned(ladder_for(video.width, video.height, LABELS))
    return Begin(
        epoch=epoch,
        video=video,
        audio=source.audio,
        ladder=ladder,
        start=start,
        sequence=sequence,
        inits=inits or {},
        discontinuity=discontinuity,
        reuse=reuse,
    )


def orders(source: Source, order: Begin) -> list[EngineOrder]:
    """Return the orders of a whole epoch."""
    return [order, *source.packets, Finish()]


def run(*epochs: Iterable[EngineOrder]) -> EngineOutput:
    """Send orders to a new engine, close its input, and wait for its end."""
    return run_raw(b"".join(pack(order) for epoch in epochs for order in epoch))


def run_with_pauses(*pieces: Iterable[EngineOrder], pause: float) -> EngineOutput:
    """Do the same, and wait so many seconds after each piece of the orders."""
    packed = [b"".join(map(pack, piece)) for piece in pieces]
    return _output_of(run_engine(("live", "test"), packed, seconds=_SECONDS, pause=pause))


def run_raw(data: bytes, *arguments: str) -> EngineOutput:
    """Send any bytes to a new engine."""
    return _output_of(run_engine(arguments or ("live", "test"), [data], seconds=_SECONDS))


def _output_of(ended: tuple[int, bytes, bytes]) -> EngineOutput:
    status, output, complaints = ended
    reader: WireReader[EngineReport] = WireReader(EngineReport)
    return EngineOutput(reader.feed(output), status, complaints.decode())
