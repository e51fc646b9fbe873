"""What a rung that is not made borrows, and in which order it is published."""

from collections.abc import Iterable

import msgspec
import pytest

from delivery.run.borrowed_media import BorrowedMedia
from delivery.run.step_builder import PublicationError
from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import Rendition
from tests.support.storage.engine_reports import TWO

RUNGS = tuple(
    Rendition(name=name, width=width, height=height, rate=rate)
    for name, width, height, rate in (
        ("720p", 1280, 720, 2_800_000),
        ("480p", 854, 480, 1_400_000),
        ("360p", 640, 360, 800_000),
    )
)
Report = InitSection | SegmentStart | GapStart | Part | Segment


def init(name: str, number: int = 0) -> InitSection:
    data = f"{name} {number}".encode()
    return InitSection(rendition=name, number=number, codecs="avc1.64001F", data=data)


def start(name: str, sequence: int, number: int = 0) -> SegmentStart:
    return SegmentStart(
        rendition=name, sequence=sequence, epoch=0, start=0, init=number, discontinuity=False
    )


def part(name: str, sequence: int, index: int = 0) -> Part:
    return Part(
        rendition=name,
        sequence=sequence,
        index=index,
        duration=TWO,
        independent=index == 0,
        data=f"{name} {sequence}.{index}".encode(),
    )


def end(name: str, sequence: int, number: int = 0, *, gap: bool = False) -> Segment:
    return Segment(
        rendition=name,
        sequence=sequence,
        epoch=0,
        start=0,
        duration=TWO,
        size=0 if gap else 10,
        frames=0 if gap else 60,
        parts=0 if gap else 1,
        init=number,
        discontinuity=False,
        gap=gap,
    )


def gap(name: str, sequence: int) -> GapStart:
    return GapStart(rendition=name, sequence=sequence)


def whole(name: str, sequence: int, number: int = 0) -> tuple[Report, ...]:
    return start(name, sequence, number), part(name, sequence), end(name, sequence, number)


def missing(name: str, sequence: int) -> tuple[Report, ...]:
    return gap(name, sequence), end(name, sequence, gap=True)


INITS = tuple(init(rung.name) for rung in RUNGS)


def published(*reports: Report, replaces: bool = False) -> list[str]:
    """Return what is published of some reports, one word or two each."""
    following: dict[str, int] = {}
    borrowed = BorrowedMedia(following, replaces=replaces)
    borrowed.prepare(RUNGS)
    words: list[str] = []
    for report in reports:
        for each in borrowed.take(report):
            if isinstance(each, InitSection):
                # Numbers rise, as storing and expiry rely on.
                assert each.number >= following.get(each.rendition, 0)
                following[each.rendition] = each.number + 1
            words.append(word(each))
    return words


def word(report: Report) -> str:
    name = report.rendition
    match report:
        case InitSection():
            return f"{name} init {report.number}: {report.data.decode()}"
        case SegmentStart():
            lent = " lent" if report.borrowed else ""
            return f"{name} {report.sequence}: init {report.init}{lent}"
        case Part():
            return f"{name} {report.sequence}.{report.index}: {report.data.decode()}"
        case Segment():
            return f"{name} {report.sequence} {'gap' if report.gap else 'ends'}"
        case GapStart():
            return f"{name} {report.sequence} dropped"


def of(name: str, words: Iterable[str]) -> list[str]:
    return [each.removeprefix(f"{name} ") for each in words if each.startswith(name)]


def test_a_rung_that_is_shed_has_the_media_of_the_next_smaller_one_part_by_part() -> None:
    reports = (*INITS, *whole("480p", 0), gap("480p", 1), start("360p", 1), part("360p", 1))
    words = published(*reports)
    assert words[-5:] == [
        "360p 1: init 0",
        "480p init 1: 360p 0",
        "480p 1: init 1 lent",
        "360p 1.0: 360p 1.0",
        "480p 1.0: 360p 1.0",
    ]
    rest = published(*reports, end("360p", 1), end("480p", 1, gap=True))[len(words) :]
    assert rest == ["360p 1 ends", "480p 1 ends"], "its own gap is not published"


def test_one_that_is_late_gets_at_once_what_is_there() -> None:
    words = published(*INITS, *whole("360p", 0), *whole("360p", 1), *missing("480p", 0))
    assert of("480p", words)[1:] == ["init 1: 360p 0", "0: init 1 lent", "0.0: 360p 0.0", "0 ends"]


def test_without_a_smaller_rung_the_next_larger_one_lends() -> None:
    words = published(
        *INITS,
        gap("480p", 0),
        gap("360p", 0),
        *whole("720p", 0),
        end("480p", 0, gap=True),
        end("360p", 0, gap=True),
    )
    for name in ("480p", "360p"):
        assert of(name, words)[1:] == [
            "init 1: 720p 0",
            "0: init 1 lent",
            "0.0: 720p 0.0",
            "0 ends",
        ]


def test_a_lender_that_was_shed_at_low_latency_leaves_a_gap() -> None:
    words = published(
        *INITS,
        *missing("480p", 0),
        start("360p", 0),
        part("360p", 0),
        gap("360p", 0),
        end("360p", 0, gap=True),
    )
    assert of("480p", words)[2:] == ["0: init 1 lent", "0.0: 360p 0.0", "0 gap"]
    assert of("360p", words)[1:] == ["0: init 0", "0.0: 360p 0.0", "0 gap"]


def test_at_normal_latency_a_segment_that_was_begun_is_replaced() -> None:
    words = published(
        *INITS,
        *missing("480p", 0),
        start("360p", 0),
        part("360p", 0),
        *whole("720p", 0),
        *missing("360p", 0),
        replaces=True,
    )
    lent = ["0 dropped", "init {}: 720p 0", "0: init {} lent", "0.0: 720p 0.0", "0 ends"]
    assert of("480p", words)[4:] == [each.format(2) for each in lent]
    assert of("360p", words)[3:] == [each.format(1) for each in lent]


def test_a_rung_returns_behind_what_it_borrows_with_an_init_section_of_its_own() -> None:
    words = published(
        *INITS,
        *whole("480p", 0),
        *missing("480p", 1),
        *whole("480p", 2),  # the lender is later
        *whole("360p", 1),
        *whole("480p", 3),
        init("480p", 1),
        *whole("480p", 4, 1),
    )
    assert of("480p", words)[4:] == [
        "init 1: 360p 0",
        "1: init 1 lent",
        "1.0: 360p 1.0",
        "1 ends",
        "init 2: 480p 0",
        "2: init 2",
        "2.0: 480p 2.0",
        "2 ends",
        "3: init 2",
        "3.0: 480p 3.0",
        "3 ends",
        "init 3: 480p 1",
        "4: init 3",
        "4.0: 480p 4.0",
        "4 ends",
    ]


def test_segments_are_borrowed_one_after_the_other_from_different_rungs() -> None:
    words = published(
        *INITS,
        *missing("480p", 0),
        *missing("480p", 1),
        *missing("360p", 1),
        *whole("720p", 0),
        *whole("720p", 1),
        *whole("360p", 0),
    )
    # 360p has not told yet that it lends the first segment when 720p has the second.
    assert of("480p", words)[1:] == [
        "init 1: 360p 0",
        "0: init 1 lent",
        "0.0: 360p 0.0",
        "0 ends",
        "init 2: 720p 0",
        "1: init 2 lent",
        "1.0: 720p 1.0",
        "1 ends",
    ]


def test_sound_and_a_rung_without_a_lender_have_gaps() -> None:
    words = published(
        *INITS, *missing("audio", 0), *(each for r in RUNGS for each in missing(r.name, 0))
    )
    assert words[3:] == ["audio 0 gap", "720p 0 gap", "480p 0 gap", "360p 0 gap"]


def test_an_engine_that_never_completes_what_it_lends_is_at_fault() -> None:
    with pytest.raises(PublicationError, match="too far ahead"):
        published(*INITS, gap("480p", 0), *(gap("480p", number) for number in range(1, 65)))


def test_a_new_engine_begins_anew() -> None:
    borrowed = BorrowedMedia({"480p": 7}, replaces=False)
    borrowed.prepare(RUNGS)
    for report in (*INITS, gap("480p", 0), start("360p", 0)):
        list(borrowed.take(report))
    borrowed.begin(3)
    for report in whole("480p", 3):
        assert list(borrowed.take(report)) == [report]
    assert list(borrowed.take(gap("360p", 3))) == [], "it knows no init section to lend"
    assert list(borrowed.take(end("360p", 3, gap=True))) == [end("360p", 3, gap=True)]


def test_what_is_complete_is_forgotten_and_an_older_init_section_still_lent() -> None:
    following = {rung.name: 1 for rung in RUNGS}
    borrowed = BorrowedMedia(following, replaces=False)
    borrowed.prepare(RUNGS)
    for report in (*INITS, *whole("360p", 0), init("360p", 1), *whole("360p", 1, 1)):
        list(borrowed.take(report))
    lent = [each for each in borrowed.take(gap("480p", 0)) if isinstance(each, InitSection)]
    assert [msgspec.structs.replace(each, number=0, rendition="360p") for each in lent] == [
        init("360p")
    ]
    borrowed.forget(0)
    lent = [each for each in borrowed.take(gap("480p", 1)) if isinstance(each, InitSection)]
    assert [each.data for each in lent] == [b"360p 1"]
