"""Reads the reports of one engine, and refuses what `transcode.protocol.report_bounds` forbids.

Sans-IO. A report is judged by its type and length before it is decoded, so that a short one cannot
become a large value. `OpenSegments` bounds what has no total: media, which callers store segment
by segment.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import AUDIO_RENDITION, BOX_NUMBERS
from media.ticks import VIDEO_SCALE
from transcode.protocol.messages import (
    EngineReport,
    EpochFinished,
    Prepared,
    Progress,
    WireError,
    WireReader,
)
from transcode.protocol.report_bounds import REPORT_BOUNDS, ReportBounds, longest_report

_NOTHING: Final = ReportBounds(most={})
_KEY: Final = b"\xa4type"  # where msgspec begins a tagged map, after one byte for its length
_MOST_TAG: Final = 31  # letters, in MessagePack's shortest form

# Of all renditions together, in segments that are not finished: the largest source that is copied
# and all rungs have 67 Mbit/s, which is 34 MB in a segment of 4 s. The store joins the parts of one
# rendition, so it holds twice as much for a moment.
_MOST_UNFINISHED_BYTES: Final = 128 << 20
# Parts of a segment: at worst one for each sample, of which 4 s have at most 960 (240 a second).
_MOST_UNFINISHED_REPORTS: Final = 4_096
# Callers remember each segment and init section. Segments last 2 s, except where a source ends; a
# longer one than this adds no more to the mean.
_SHORT_SEGMENTS: Final = 256
_LEAST_MEAN_TICKS: Final = VIDEO_SCALE
_MOST_COUNTED_TICKS: Final = 10 * VIDEO_SCALE
# An init section describes the segments that follow; a source may end before its first segment.
_SPARE_INITS: Final = 64
# Twice the longest file that is accepted.
_MOST_FILE_TICKS: Final = 48 * 3600 * VIDEO_SCALE
# Callers keep what they know by the names of renditions, and metrics show it.
_RENDITIONS: Final = frozenset({*BOX_NUMBERS, AUDIO_RENDITION})
# A live engine with nine renditions in parts of 0.2 s sends 60 reports about media a second, and
# ten seconds of a backlog at once. Clips are fed faster than they play.
_MEDIA_RATE, _MEDIA_BURST = 200.0, 20_000
# What is no media comes once a second for each purpose, with a few troubles; it is logged.
_NOTES_RATE, _NOTES_BURST = 20.0, 1_000
# Of a live engine, in bytes: three times a source of 160 Mbit/s, and what ten seconds of one and
# all rungs come to at once, twice.
_BYTE_RATE, _BYTE_BURST = 64.0 * (1 << 20), 512 << 20


class ReportReader(WireReader[EngineReport]):
    """Splits the output of an engine of a kind into reports.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        bounds = REPORT_BOUNDS.get(kind, _NOTHING)
        types = {_tag(each): each for each in bounds.most}
        super().__init__(EngineReport, longest=max(map(longest_report, bounds.most), default=0))
        self._kind = kind
        self._bounds = bounds
        self._types = types
        self._decoders = {each: msgspec.msgpack.Decoder(each) for each in bounds.most}
        self._counts: Counter[type[EngineReport]] = Counter()
        self._kept = 0
        self._segments = OpenSegments(None if bounds.live else _MOST_FILE_TICKS)
        self._media = _Allowance(_MEDIA_RATE, _MEDIA_BURST, clock)
        self._notes = _Allowance(_NOTES_RATE, _NOTES_BURST, clock)
        self._bytes = _Allowance(_BYTE_RATE, _BYTE_BURST, clock)

    def _decode(self, frame: memoryview) -> EngineReport:
        type_ = self._type(frame)
        self._count(type_, len(frame))
        report = self._decoders[type_].decode(frame)
        self._judge(report)
        if self._bounds.live:
            self._bytes.spend(len(frame))
        return report

    def _type(self, frame: memoryview) -> type[EngineReport]:
        """Return the type of an encoded report, without decoding the rest of it."""
        head = bytes(frame[: 1 + len(_KEY) + 1 + _MOST_TAG])
        tag = head[1 + len(_KEY) :]
        if not head[1:].startswith(_KEY) or not tag or tag[0] >> 5 != 0b101:
            raise WireError("a report without a type")
        name = tag[1 : 1 + (tag[0] & _MOST_TAG)]
        type_ = self._types.get(name)
        if type_ is None:
            raise WireError(f"a report {name!r} of an engine for {self._kind!r}")
        return type_

    def _count(self, type_: type[EngineReport], size: int) -> None:
        """Count a report against what the engine may send in its life."""
        bounds, name = self._bounds, type_.__name__
        if size > longest_report(type_):
            raise WireError(f"a {name} of {size} bytes, more than {longest_report(type_)}")
        most = bounds.most[type_]
        if most is not None:
            self._counts[type_] += 1
            if self._counts[type_] > most:
                raise WireError(f"more than {most} reports {name}")
        self._kept += size
        if bounds.kept is not None and self._kept > bounds.kept:
            raise WireError(f"reports of more than {bounds.kept} bytes in all")

    def _judge(self, report: EngineReport) -> None:
        match report:
            case InitSection() | SegmentStart() | GapStart() | Part() | Segment():
                _check_names((report.rendition,))
                self._segments.add(report)
                if self._bounds.live:
                    self._media.spend()
                return
            case Progress():
                _check_names(report.rung_cpu_ms)
            case EpochFinished():
                _check_names(report.frames_out)
            case Prepared():
                _check_names(report.names)
            case _:
                pass
        self._notes.spend()


class _UnfinishedSegment(msgspec.Struct):
    """What came of a rendition since its last segment was finished, and of it in all."""

    reports: int = 0
    size: int = 0
    segments: int = 0
    inits: int = 0
    ticks: int = 0  # of all segments, each up to `_MOST_COUNTED_TICKS`


class OpenSegments:
    """Bounds the segments of an engine, finished or not.

    `most_ticks` is how long all segments of a rendition may be, in ticks of 90 000 a second; None
    if it is live.
    """

    def __init__(self, most_ticks: int | None) -> None:
        self._most_ticks = most_ticks
        self._renditions: dict[str, _UnfinishedSegment] = {}
        self._size = 0

    def add(self, report: InitSection | SegmentStart | GapStart | Part | Segment) -> None:
        """Add a report.

        Raises:
            WireError: there are too many, or too large ones, for what they describe.
        """
        rendition = self._renditions.setdefault(report.rendition, _UnfinishedSegment())
        match report:
            case Segment():
                self._size -= rendition.size
                rendition.size = rendition.reports = 0
                self._finish(rendition, report)
                return
            case InitSection():
                rendition.inits += 1
                if rendition.inits > _SPARE_INITS + rendition.segments:
                    raise WireError(f"more init sections of {report.rendition} than segments")
            case Part():
                rendition.size += len(report.data)
                self._size += len(report.data)
                if self._size > _MOST_UNFINISHED_BYTES:
                    raise WireError(
                        f"unfinished segments of more than {_MOST_UNFINISHED_BYTES} bytes"
                    )
            case SegmentStart() | GapStart():
                pass
        rendition.reports += 1
        if rendition.reports > _MOST_UNFINISHED_REPORTS:
            raise WireError(f"a segment of {report.rendition} does not end")

    def _finish(self, rendition: _UnfinishedSegment, segment: Segment) -> None:
        rendition.segments += 1
        rendition.ticks += min(max(0, segment.duration), _MOST_COUNTED_TICKS)
        counted = rendition.segments - _SHORT_SEGMENTS
        if counted * _LEAST_MEAN_TICKS > rendition.ticks:
            raise WireError(f"too many short segments of {segment.rendition}")
        if self._most_ticks is not None and rendition.ticks > self._most_ticks:
            raise WireError(f"{segment.rendition} is longer than a file may be")


class _Allowance:
    """Allows `burst` reports, or bytes of them, at once, and `rate` a second on average."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._counted = clock()

    def spend(self, amount: int = 1) -> None:
        """Count an amount.

        Raises:
            WireError: it is too much.
        """
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._counted) * self._rate) - amount
        self._counted = now
        if self._left < 0:
            raise WireError(f"more than {self._burst} reports or bytes of them in a short time")


def _check_names(names: Iterable[str]) -> None:
    if not _RENDITIONS.issuperset(names):
        raise WireError("a rendition that no ladder has")


def _tag(type_: type[EngineReport]) -> bytes:
    """Return the tag of a type of report, as it is on the wire."""
    return str(type_.__struct_config__.tag).encode()
