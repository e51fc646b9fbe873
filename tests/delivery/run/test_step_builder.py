"""Reports put together to steps, without a disk: whole, in order, and closed after a death."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.run.run_state import Step
from delivery.run.step_builder import FinishedSegment, PublicationError, StepBuilder
from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import AUDIO_RENDITION
from media.ticks import VIDEO_SCALE
from tests.support.storage.engine_reports import (
    CODECS,
    LOW,
    NOON_US,
    ORIGIN,
    TOP,
    TWO,
    Report,
    ReportMaker,
)

SECOND_US = 1_000_000


def begun(maker: ReportMaker, *, last: Step | None = None) -> StepBuilder:
    """Return a builder that knows a maker's renditions and init sections."""
    builder = StepBuilder(0, {}, last, {})
    builder.prepare(maker.epoch, maker.renditions, NOON_US)
    for init in maker.begin():
        builder.add_init(init)
    return builder


def stored(epoch: int, origin_us: int = 0) -> Step:
    """Return the step with which a run was left."""
    return Step(sequence=-1, epoch=epoch, discontinuity=False, origin_us=origin_us, segments={})


def dates(steps: Iterable[Step]) -> list[int]:
    """Return the dates of the steps' pictures, in us from noon."""
    return [each.wall_us(each.segments[TOP.name].start) - NOON_US for each in steps]


def add(builder: StepBuilder, reports: Iterable[Report]) -> list[FinishedSegment]:
    finished: list[FinishedSegment] = []
    for report in reports:
        match report:
            case InitSection():
                builder.add_init(report)
            case SegmentStart():
                builder.start_segment(report)
            case Part():
                builder.add_part(report)
            case Segment():
                finished.append(builder.add_segment(report))
            case GapStart():
                builder.drop_parts(report)
    return finished


def of(name: str, reports: Iterable[Report]) -> list[Report]:
    return [report for report in reports if report.rendition == name]


def test_a_step_is_complete_once_every_rendition_has_reached_it() -> None:
    maker = ReportMaker(TOP, LOW)
    builder = begun(maker)
    steps = [maker.step(), maker.step()]
    for reports in steps:  # the largest runs ahead
        add(builder, of(TOP.name, reports))
    assert (list(builder.complete()), builder.opened, builder.next_sequence) == ([], 2, 0)
    add(builder, of(LOW.name, steps[0]))
    (sound,) = add(builder, of(AUDIO_RENDITION, steps[0]))
    (step,) = builder.complete()
    assert set(step.segments) == {TOP.name, LOW.name, AUDIO_RENDITION}
    assert (step.sequence, step.epoch, step.discontinuity) == (0, 0, False)
    assert step.origin_us == NOON_US - 10 * SECOND_US  # the first picture is 10 s after tick 0
    assert sound.data == b"".join(each.data for each in steps[0] if isinstance(each, Part)
                                  and each.rendition == AUDIO_RENDITION)  # fmt: skip
    assert builder.needed_codecs == CODECS
    assert list(builder.complete()) == []


def test_another_source_is_a_discontinuity_unless_it_is_the_first() -> None:
    def marks(epoch: int | None) -> list[bool]:
        maker = ReportMaker(TOP)
        last = stored(epoch) if epoch is not None else None
        builder = begun(maker, last=last)
        steps: list[Step] = []
        for number in range(2):
            maker.epoch = number
            builder.prepare(number, maker.renditions, NOON_US)
            for _ in range(2):
                add(builder, maker.step())
                steps += builder.complete()
        return [step.discontinuity for step in steps]

    assert marks(None) == [False, False, True, False]
    assert marks(7) == [True, False, True, False]


@pytest.mark.parametrize(
    ("came", "dated"), [(-3600.0, 4.0), (1.9, 4.0), (4.0, 4.0), (4.5, 4.5), (7.0, 7.0)]
)
def test_a_source_is_dated_by_its_coming_but_never_before_the_end_of_what_is_listed(
    came: float, dated: float
) -> None:
    """Its media may have been sent before, or its clock may have been set back."""
    maker = ReportMaker(TOP)
    builder = begun(maker)
    for _ in range(2):
        add(builder, maker.step())
    maker.epoch = 1
    builder.prepare(1, maker.renditions, NOON_US + round(came * SECOND_US))
    for _ in range(2):
        add(builder, maker.step())
    step = TWO * SECOND_US // VIDEO_SCALE
    first = round(dated * SECOND_US)
    assert dates(builder.complete()) == [0, step, first, first + step]


@pytest.mark.parametrize(("ahead", "dated"), [(-3600, 3600), (-1, 1), (0, 0), (5, 0)])
def test_a_run_that_is_continued_by_a_slow_clock_goes_on_from_its_end(
    ahead: int, dated: int
) -> None:
    """Another host's, or that of one that was set back while the process was away."""
    maker = ReportMaker(TOP)
    builder = begun(maker, last=stored(3, NOON_US - (10 + ahead) * SECOND_US))
    add(builder, maker.step())
    assert dates(builder.complete()) == [dated * SECOND_US]


def test_an_epoch_is_dated_by_the_first_packet_that_is_shown() -> None:
    """It was announced when its source began, but a keyframe came 7.75 s later only."""
    maker = ReportMaker(TOP)
    builder = begun(maker)
    came_us = NOON_US + 7_750_000
    builder.start_epoch(EpochStart(epoch=0, start=ORIGIN, came_us=came_us))
    builder.start_epoch(EpochStart(epoch=9, start=ORIGIN, came_us=1))  # was not announced
    maker.start += 900  # the first segment to come begins 10 ms after that picture
    add(builder, maker.step())
    builder.start_epoch(EpochStart(epoch=0, start=ORIGIN, came_us=1))  # too late
    maker.start += TWO  # a hole in the media is no hole in the dates
    add(builder, maker.step())
    first, second = dates(builder.complete())
    assert (first, second) == (7_760_000, 11_760_000)


@given(
    st.lists(
        st.tuples(st.integers(-(10**10), 10**10), st.integers(1, 4), st.integers(0, 900_000)),
        max_size=12,
    )
)
def test_dates_never_go_back_whatever_the_clock_does(
    sources: list[tuple[int, int, int]],
) -> None:
    maker = ReportMaker(TOP)
    builder = begun(maker, last=stored(0, NOON_US - 10 * SECOND_US))
    end_us = 0
    for number, (came_us, steps, hole) in enumerate(sources, 1):
        maker.epoch = number
        maker.start += hole
        builder.prepare(number, maker.renditions, NOON_US + came_us)
        for each in range(steps):
            add(builder, maker.step())
            (step,) = builder.complete()
            (date,) = dates([step])
            assert date >= end_us
            # Within an epoch they follow the media's own time.
            assert not each or date == end_us
            end_us = date + TWO * SECOND_US // VIDEO_SCALE


def test_what_a_dead_engine_sent_becomes_segments_and_gaps() -> None:
    maker = ReportMaker(TOP, LOW)
    builder = begun(maker)
    reports = maker.step()
    add(builder, of(TOP.name, reports))
    add(builder, of(LOW.name, reports)[:2])  # one of its two parts
    closed = {each.rendition: each for each in builder.close_open()}
    assert set(closed) == {LOW.name, AUDIO_RENDITION}
    low, sound = closed[LOW.name].facts, closed[AUDIO_RENDITION].facts
    assert (low.gap, low.start, low.duration, low.parts) == (False, ORIGIN, TWO // 2, 1)
    assert closed[LOW.name].data
    assert (sound.gap, sound.duration, sound.size) == (True, TWO, 0)
    (step,) = builder.complete()
    assert step.sequence == 0
    # The next engine continues the numbers.
    add(builder, maker.step())
    assert [step.sequence for step in builder.complete()] == [1]


def test_a_step_of_another_process_is_continued_after_it() -> None:
    """The next step is a discontinuity, dated later, though its source came before that step."""
    maker = ReportMaker(TOP)
    other = begun(maker)
    add(other, maker.step())
    add(other, maker.step())
    (_, seen) = other.complete()
    builder = StepBuilder(1, {TOP.name: 9}, stored(0), {})
    builder.continue_after(seen)
    assert (builder.next_sequence, builder.opened) == (2, 2)
    assert builder.next_inits == {TOP.name: 9, AUDIO_RENDITION: 1}
    assert builder.oldest_inits() == {TOP.name: 0, AUDIO_RENDITION: 0}
    builder.forget(seen.sequence)
    assert builder.oldest_inits() == {}
    maker.epoch = 1
    builder.prepare(1, maker.renditions, NOON_US)
    for init in maker.begin():
        builder.add_init(init)
    add(builder, maker.step())
    (step,) = builder.complete()
    assert (step.sequence, step.discontinuity) == (2, True)
    dates = [each.wall_us(each.segments[TOP.name].start) for each in (seen, step)]
    assert dates[1] - dates[0] == 2 * SECOND_US, "it continues from that step's end"


def test_init_sections_are_needed_until_their_steps_are_stored() -> None:
    maker = ReportMaker(TOP)
    builder = begun(maker)
    add(builder, maker.step())
    assert [step.sequence for step in builder.complete()] == [0]
    add(builder, [*maker.begin(TOP.name), *maker.step()])
    assert [step.sequence for step in builder.complete()] == [1]
    assert builder.oldest_inits() == {TOP.name: 0, AUDIO_RENDITION: 0}
    assert builder.next_inits == {TOP.name: 2, AUDIO_RENDITION: 1}
    builder.forget(0)
    assert builder.oldest_inits() == {TOP.name: 1, AUDIO_RENDITION: 0}
    builder.forget(1)
    assert builder.oldest_inits() == {}


def test_a_part_names_the_segment_that_it_belongs_to() -> None:
    maker = ReportMaker(TOP)
    builder = begun(maker)
    start, part, *_ = maker.step()
    assert isinstance(start, SegmentStart)
    assert isinstance(part, Part)
    with pytest.raises(PublicationError):
        builder.add_part(part)
    builder.start_segment(start)
    segment, step = builder.add_part(part)
    assert (segment, step.sequence, step.segments) == (start, 0, {})


def test_a_rendition_that_runs_away_from_the_others_is_refused() -> None:
    """Two minutes ahead is far enough: until the others follow, nothing leaves its playlist."""
    maker = ReportMaker(TOP, LOW)
    builder = begun(maker)
    for _ in range(64):
        add(builder, of(TOP.name, maker.step()))
    with pytest.raises(PublicationError, match="too far ahead"):
        add(builder, of(TOP.name, maker.step()))
