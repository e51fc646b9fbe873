"""Reports judged before and after they are decoded, with a clock of the test."""

from collections.abc import Iterable

import pytest

from media.hls.segment import InitSection, Part, Segment, SegmentStart
from media.ladder import AUDIO_RENDITION, BOXES
from transcode.protocol.file_messages import Surveyed
from transcode.protocol.messages import (
    EngineReport,
    EpochFinished,
    Poster,
    Prepared,
    Progress,
    Refused,
    Trouble,
    WireError,
    pack,
)
from transcode.protocol.report_reader import OpenSegments, ReportReader

DAY = 24 * 3600
SECOND = 90_000
NAMES = [*(box.label for box in BOXES), AUDIO_RENDITION]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def init(name: str, number: int = 0) -> InitSection:
    return InitSection(rendition=name, number=number, codecs="avc1.64001F", data=bytes(700))


def part(name: str, size: int = 4) -> Part:
    data = bytes(size)
    return Part(rendition=name, sequence=0, index=0, duration=1, independent=True, data=data)


def segment(name: str, duration: int = 2 * SECOND) -> Segment:
    return Segment(
        rendition=name, sequence=0, epoch=0, start=0, duration=duration, size=4, frames=1, parts=1,
        init=0, discontinuity=False,
    )  # fmt: skip


def begun(name: str) -> SegmentStart:
    return SegmentStart(
        rendition=name, sequence=0, epoch=0, start=0, init=0, discontinuity=False
    )  # fmt: skip


def step(parts: int = 10) -> list[InitSection | SegmentStart | Part | Segment]:
    """Return two seconds of all renditions."""
    return [
        report for name in NAMES for report in (begun(name), *[part(name)] * parts, segment(name))
    ]


def progress(names: Iterable[str] = NAMES) -> Progress:
    spent = dict.fromkeys(names, 1 << 40)
    return Progress(
        epoch=0, taken=0, made=0, frames=0, cpu_ms=1 << 40, memory_bytes=1 << 40, rung_cpu_ms=spent
    )


def test_reports_arrive_byte_by_byte_as_they_were_sent() -> None:
    sent: list[EngineReport] = [*map(init, NAMES), *step(), progress(), Surveyed(reason="x")]
    reader = ReportReader("asset", Clock())
    reports: list[EngineReport] = []
    for byte in b"".join(map(pack, sent)):
        reports += reader.feed(bytes([byte]))
    assert reports == sent


def test_a_live_engine_works_for_a_day_at_its_most() -> None:
    """Nine renditions in parts of 0.2 s, progress and five troubles a second."""
    clock = Clock()
    reader = ReportReader("live", clock)
    reader.feed(b"".join(map(pack, map(init, NAMES))))
    notes: list[EngineReport] = [progress(), *[Trouble(what="x", detail="y" * 200)] * 5]
    data = b"".join(map(pack, [*notes, *notes, *step()]))
    # Ten seconds come at once, and then as many hours as this test is to take.
    for number in range(5 + 2_000):
        clock.now += 2.0 if number >= 5 else 0.0
        reader.feed(data)


def test_a_slow_flood_of_a_live_engine_ends_it() -> None:
    """Twice as many reports as are allowed on average, for as long as it takes."""
    for report, rate in ((progress(), 20), (begun("720p"), 200)):
        clock = Clock()
        reader = ReportReader("live", clock)
        data = pack(report) if isinstance(report, Progress) else pack(segment("720p"))
        with pytest.raises(WireError, match="short time"):
            for _ in range(DAY):
                clock.now += 0.5 / rate
                reader.feed(data)
        assert clock.now < 600


def test_an_engine_that_works_slowly_may_report_progress_for_weeks() -> None:
    clock = Clock()
    reader = ReportReader("span", clock)
    data = pack(progress())
    for _ in range(20_000):
        clock.now += 1.0
        reader.feed(data)


def test_the_one_report_too_many_comes_after_all_others_were_read() -> None:
    reader = ReportReader("still", Clock())
    poster = Poster(label="720p", width=2, height=2, data=b"x")
    reader.add(pack(poster) * 9)
    assert [reader.next() for _ in range(8)] == [poster] * 8
    with pytest.raises(WireError, match="more than 8 reports Poster"):
        reader.next()


def test_a_report_has_one_type_and_begins_with_it() -> None:
    body = pack(Refused(reason="x"))[4:]
    twice = b"\x83" + body[1:] + b"\xa4type\xa6poster"
    late = b"\x82" + b"\xa6reason\xa1x" + b"\xa4type\xa7refused"
    for frame, words in ((twice, "Invalid value 'poster'"), (late, "without a type")):
        with pytest.raises(WireError, match=words):
            ReportReader("probe", Clock()).feed(len(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize(
    "report",
    [
        progress(["721p"]),
        segment("721p"),
        EpochFinished(epoch=0, end=0, frames_in=0, frames_out={"": 1}),
        Prepared(epoch=0, names=("720p", "sound"), reused=None),
    ],
)
def test_renditions_have_the_names_of_boxes(report: EngineReport) -> None:
    """By these names a run keeps what it knows, from one engine to the next."""
    with pytest.raises(WireError, match="a rendition that no ladder has"):
        ReportReader("live", Clock()).feed(pack(report))


def test_a_day_of_segments_is_no_flood() -> None:
    segments = OpenSegments(48 * 3600 * SECOND)
    for name in ("1080p", AUDIO_RENDITION):
        reports = (init(name), part(name, 30 << 20), segment(name))
        for _ in range(DAY // 2):
            for report in reports:
                segments.add(report)


def test_a_file_of_three_days_is_too_long() -> None:
    segments = OpenSegments(48 * 3600 * SECOND)
    with pytest.raises(WireError, match="longer than a file may be"):
        for _ in range(3 * DAY // 2):
            segments.add(segment("720p"))


def test_a_long_segment_does_not_pay_for_many_short_ones() -> None:
    segments = OpenSegments(None)
    segments.add(segment("720p", 1 << 60))
    with pytest.raises(WireError, match="short segments"):
        for _ in range(300):
            segments.add(segment("720p", 0))


def test_sources_that_end_at_once_are_no_flood() -> None:
    """Each of two hundred makes an init section, half of them a segment of a frame."""
    segments = OpenSegments(None)
    for number in range(100):
        segments.add(init("720p", number))
        segments.add(part("720p"))
        segments.add(segment("720p", 3_000))
    for number in range(64):
        segments.add(init("720p", number))


def test_unfinished_segments_share_one_bound() -> None:
    segments = OpenSegments(None)
    with pytest.raises(WireError, match="unfinished"):
        for name in NAMES:
            segments.add(part(name, 15 << 20))
    segments, large = OpenSegments(None), part("720p", 100 << 20)
    for _ in range(100):
        segments.add(large)
        segments.add(segment("720p"))
