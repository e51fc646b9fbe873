"""Timelines: how a live rendition grows and is trimmed, and answers blocking requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.playlist import TARGET_SECONDS, PartialSegment, PlaylistSegment, RenditionReport
from media.hls.timeline import PAGE_SEGMENTS, Timeline
from media.ticks import VIDEO_SCALE
from tests.support.media.timelines import (
    NOON_US,
    PART,
    SEGMENT,
    TimelineRun,
    extended,
    part,
    render_timeline,
    timeline_runs,
    with_closed,
)

HELD = 3 * TARGET_SECONDS * VIDEO_SCALE


def whole(msn: int, *, duration: int = SEGMENT, discontinuity: bool = False) -> PlaylistSegment:
    return PlaylistSegment(
        uri=f"{msn}.m4s", duration=duration, map_uri="init-0.mp4", discontinuity=discontinuity
    )


# -- the part target ------------------------------------------------------------------------------


def test_a_part_target_grows_at_once_and_shrinks_once_no_longer_part_is_listed() -> None:
    timeline = extended(Timeline(part_target=PART), 3).open("init-0.mp4")
    assert timeline.with_part_target(PART) is timeline
    assert timeline.with_part_target(2 * PART).part_target == 2 * PART
    # The parts are of PART: a shorter target would be wrong for them, a longer one is not.
    assert timeline.with_part_target(PART // 2).part_target == PART
    longer = timeline.with_part_target(2 * PART)
    assert longer.with_part_target(PART).part_target == PART
    assert longer.with_part_target(PART // 2).part_target == 2 * PART
    opened = Timeline(part_target=PART).open("init-0.mp4")
    assert opened.with_part_target(PART // 2).part_target == PART // 2
    assert opened.with_part(part(0, 0)).with_part_target(PART // 2).part_target == PART


def test_parts_of_segments_that_are_listed_without_them_do_not_count() -> None:
    timeline = extended(Timeline(part_target=PART), 3)
    for number in range(3, 30):
        timeline = timeline.with_segment(whole(number)).with_part_target(PART // 2)
        listed = any("EXT-X-PART:" in line for line in rendered(timeline))
        assert timeline.part_target == (PART if listed else PART // 2)
    assert timeline.part_target == PART // 2


def rendered(timeline: Timeline) -> list[str]:
    return render_timeline(timeline, low_latency=True).splitlines()


# -- blocking requests ----------------------------------------------------------------------------


def open_with(parts: int, *, msn: int = 10) -> Timeline:
    """A timeline whose segments up to `msn` have four parts, and `parts` of the next one."""
    timeline = extended(Timeline(part_target=PART, sequence=msn - 3), 3).open("init-0.mp4")
    for index in range(parts):
        timeline = timeline.with_part(part(msn, index))
    return timeline


@pytest.mark.parametrize(
    ("msn", "index", "expected"),
    [
        pytest.param(9, None, True, id="closed segment"),
        pytest.param(10, None, False, id="a segment is waited for until it is closed"),
        pytest.param(3, None, True, id="no longer listed"),
        pytest.param(3, 70, True, id="part of one no longer listed"),
        pytest.param(9, 3, True, id="last part of a closed segment"),
        pytest.param(9, 4, True, id="beyond the last part: part 0 of the next"),
        pytest.param(10, 1, True, id="newest part"),
        pytest.param(10, 2, False, id="next part"),
        pytest.param(11, 0, False, id="next segment"),
        pytest.param(11, None, False, id="the segment after the open one"),
    ],
)
def test_a_blocking_request_waits_for_its_segment_or_part(
    msn: int, index: int | None, expected: bool
) -> None:
    assert open_with(2).has(msn, index) is expected


@pytest.mark.parametrize("parts", [0, None])
def test_a_part_beyond_a_closed_segment_waits_for_the_first_one_of_the_next(
    parts: int | None,
) -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 3)
    if parts is not None:
        timeline = timeline.open("init-0.mp4")
    assert timeline.has(9, 3)
    assert not timeline.has(9, 4)
    assert not timeline.has(9, 1000)
    assert not timeline.has(10, 0)


def test_a_gap_without_parts_answers_a_request_for_its_first_part() -> None:
    timeline = open_with(0).close("10.m4s", SEGMENT, gap=True)
    assert timeline.has(10, None)
    assert timeline.has(10, 0)
    assert not timeline.has(10, 1)
    assert not timeline.has(11, 0)


def test_an_ended_timeline_answers_every_request() -> None:
    timeline = open_with(0).end()
    assert timeline.has(10**9, None)
    assert timeline.has(10, 0)
    assert not timeline.is_too_far(10**9, 10**9)


def test_a_new_timeline_answers_no_request() -> None:
    timeline = Timeline(part_target=PART, sequence=7)
    assert not timeline.has(7, None)
    assert not timeline.has(7, 0)
    assert timeline.newest is None
    assert not timeline.open(None).has(7, 0)


@pytest.mark.parametrize(
    ("msn", "index", "expected"),
    [
        pytest.param(11, None, False, id="last segment plus two"),
        pytest.param(12, None, True, id="last segment plus three"),
        pytest.param(12, 0, True, id="its first part"),
        # Parts 0 and 1 are listed; parts of 0.5 s may be six ahead.
        pytest.param(10, 7, False, id="as many parts ahead as three seconds have"),
        pytest.param(10, 8, True, id="more parts ahead"),
        pytest.param(11, 5, False, id="parts of the segment after the open one"),
        pytest.param(11, 6, True, id="too many of them"),
        pytest.param(9, 1000, False, id="part 0 of the next"),
        pytest.param(2, 1000, False, id="long ago"),
    ],
)
def test_a_request_too_far_ahead_is_recognized(msn: int, index: int | None, expected: bool) -> None:
    assert open_with(2).is_too_far(msn, index) is expected


@pytest.mark.parametrize(
    ("part_target", "most"),
    [
        (VIDEO_SCALE // 5, 15),  # 3 / 0.2 s
        (VIDEO_SCALE * 4 // 5, 3),  # 3 / 0.8 s is 3.75: the fourth exceeds it
        (VIDEO_SCALE, 3),
        (2 * VIDEO_SCALE, 3),
        (0, 3),  # no parts
    ],
)
def test_the_advance_part_limit_is_three_seconds_of_parts_or_three(
    part_target: int, most: int
) -> None:
    timeline = Timeline(part_target=part_target, sequence=7)
    assert not timeline.is_too_far(7, most - 1)
    assert timeline.is_too_far(7, most)


# -- growth ---------------------------------------------------------------------------------------


def test_the_newest_part_or_segment_is_known() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 2)
    assert timeline.newest == (8, 3)
    assert timeline.open(None).newest == (8, 3)
    assert timeline.open(None).with_part(part(9, 0)).newest == (9, 0)
    assert timeline.with_segment(whole(9)).newest == (9, None)


def test_the_end_of_what_is_listed_has_a_date() -> None:
    """It is that of the newest part, or of the newest segment, which may have no date."""
    timeline = Timeline()
    assert timeline.end_us is None
    timeline = extended(timeline, 2)
    assert timeline.end_us == NOON_US + 4_000_000
    opened = timeline.open("init-0.mp4", wall_us=NOON_US + 4_000_000)
    assert opened.end_us == NOON_US + 4_000_000
    assert opened.with_part(part(2, 0)).end_us == NOON_US + 4_500_000
    assert timeline.open("init-0.mp4").with_part(part(2, 0)).end_us is None


def test_a_segment_with_parts_is_added_as_if_it_had_grown() -> None:
    grown = extended(Timeline(), 1)
    (closed,) = grown.recent
    added = Timeline().with_segment(closed.segment, parts=closed.parts, hint=grown.hint)
    assert added == grown


def test_a_report_names_the_newest_part() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 2)
    assert timeline.report("a") == RenditionReport(uri="a", last_msn=8, last_part=3)
    opened = timeline.open(None).with_part(part(9, 0))
    assert opened.report("a") == RenditionReport(uri="a", last_msn=9, last_part=0)


def test_a_report_passes_over_a_gap_as_long_as_older_parts_are_listed() -> None:
    timeline = extended(Timeline(part_target=PART, sequence=7), 2)
    gaps = timeline.with_segment(PlaylistSegment(uri="9.m4s", duration=SEGMENT, gap=True))
    assert gaps.report("a") == RenditionReport(uri="a", last_msn=8, last_part=3)
    for msn in range(10, 20):
        gaps = gaps.with_segment(PlaylistSegment(uri=f"{msn}.m4s", duration=SEGMENT, gap=True))
    assert gaps.report("a") == RenditionReport(uri="a", last_msn=19, last_part=None)


def test_a_timeline_without_segments_has_nothing_to_report() -> None:
    with pytest.raises(ValueError, match="nothing is listed"):
        Timeline().open(None).report("a")


def test_only_an_open_segment_takes_parts_and_is_closed() -> None:
    timeline = Timeline()
    with pytest.raises(ValueError, match="no segment is open"):
        timeline.with_part(part(0, 0))
    with pytest.raises(ValueError, match="no segment is open"):
        timeline.close("0.m4s", SEGMENT)


def test_a_segment_begins_where_the_previous_one_is_closed() -> None:
    timeline = Timeline().open(None)
    with pytest.raises(ValueError, match="is open"):
        timeline.open(None)
    with pytest.raises(ValueError, match="is open"):
        timeline.with_segment(whole(0))


def test_an_ended_timeline_takes_no_segment() -> None:
    timeline = Timeline().with_segment(whole(0)).open(None).end()
    assert timeline.opened is None
    with pytest.raises(ValueError, match="ended"):
        timeline.open(None)
    with pytest.raises(ValueError, match="ended"):
        timeline.with_segment(whole(1))


def test_listed_parts_are_closed_before_the_end() -> None:
    timeline = Timeline(part_target=PART).open(None).with_part(part(0, 0))
    with pytest.raises(ValueError, match="has parts"):
        timeline.end()
    assert timeline.close("0.m4s", PART).end().ended


@pytest.mark.parametrize("uri", ["", "a b", 'a"', "a\nb", "#a"])
def test_a_uri_that_would_break_the_text_is_refused(uri: str) -> None:
    opened = Timeline().open(None)
    with pytest.raises(ValueError, match="no URI"):
        Timeline().open(uri)
    with pytest.raises(ValueError, match="no URI"):
        Timeline().open(None, hint=uri)
    with pytest.raises(ValueError, match="no URI"):
        opened.with_part(PartialSegment(uri, PART, independent=True))
    with pytest.raises(ValueError, match="no URI"):
        opened.close(uri, SEGMENT)


@pytest.mark.parametrize(
    ("duration", "fits"),
    [
        (TARGET_SECONDS * VIDEO_SCALE + VIDEO_SCALE // 2 - 1, True),
        (TARGET_SECONDS * VIDEO_SCALE + VIDEO_SCALE // 2, False),
    ],
)
def test_a_segment_fits_when_its_rounded_length_is_within_the_target(
    duration: int, fits: bool
) -> None:
    assert Timeline().fits(duration) is fits


def test_parts_are_kept_for_three_target_durations_from_the_end() -> None:
    timeline = extended(Timeline(part_target=PART), 20)
    parts = [len(one.parts) for one in timeline.recent]
    # The end of the seventh segment from the end is 12 s away, which is not more.
    assert parts == [0] * 13 + [4] * 7


# -- trimming -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(30, 85, id="30 s"),
        pytest.param(31, 84, id="no fewer than asked for"),
        pytest.param(1, 94, id="three target durations at least"),
        pytest.param(200, 0, id="all"),
        pytest.param(1000, 0, id="more than there is"),
    ],
)
def test_the_rest_of_a_window_lasts_as_long_as_asked_for(seconds: int, expected: int) -> None:
    assert with_closed(100).surplus(seconds * VIDEO_SCALE) == expected


def test_a_window_that_lost_its_end_is_shorter_at_both_ends() -> None:
    whole_window = with_closed(100)
    surplus = whole_window.surplus(30 * VIDEO_SCALE)
    rest = with_closed(98)
    assert rest.surplus(30 * VIDEO_SCALE) < surplus
    assert rest.surplus(30 * VIDEO_SCALE, lost=4 * VIDEO_SCALE) == surplus


def test_trimming_counts_segments_and_discontinuities_alike() -> None:
    timeline = Timeline(sequence=5)
    for number in range(8):
        timeline = timeline.with_segment(whole(5 + number, discontinuity=number in {1, 3}))
    trimmed = timeline.trimmed(2)
    assert (trimmed.sequence, trimmed.discontinuities, trimmed.count) == (7, 1, 6)
    # The tag at the first segment is still listed, so it does not count.
    assert trimmed.trimmed(1).discontinuities == 1
    assert trimmed.trimmed(2).discontinuities == 2
    assert trimmed.next_msn == timeline.next_msn


@pytest.mark.parametrize("count", [-1, 4])
def test_more_than_there_is_cannot_be_trimmed(count: int) -> None:
    with pytest.raises(ValueError, match="to remove"):
        with_closed(3).trimmed(count)


@pytest.mark.parametrize("first", [0, 1, 63, 64, 100])
def test_old_segments_are_gathered_in_pages_that_all_renditions_share(first: int) -> None:
    timeline = with_closed(1000, first=first)
    assert PAGE_SEGMENTS <= len(timeline.recent) < 2 * PAGE_SEGMENTS
    ends = [timeline.sequence + len(timeline.pages[0].segments)]
    for page in timeline.pages[1:]:
        ends.append(ends[-1] + len(page.segments))
    assert {end % PAGE_SEGMENTS for end in ends} == {0}
    assert [int(one.uri[:-4]) for one in timeline.segments] == [*range(first, first + 1000)]


@given(st.lists(st.integers(0, 150), max_size=6), st.integers(0, 200))
def test_trimming_pages_is_trimming_segments(counts: list[int], first: int) -> None:
    timeline = with_closed(400, first=first)
    expected = [*timeline.segments]
    for count in counts:
        gone = min(count, timeline.count)
        timeline = timeline.trimmed(gone)
        expected = expected[gone:]
    assert [*timeline.segments] == expected
    assert timeline.count == len(expected)
    assert timeline.duration == sum(one.duration for one in expected)
    assert timeline.discontinuities + sum(one.discontinuity for one in expected) == sum(
        one.discontinuity for one in with_closed(400, first=first).segments
    )
    again = Timeline(sequence=timeline.sequence, discontinuities=timeline.discontinuities)
    for segment in expected:
        again = again.with_segment(segment)
    assert render_timeline(timeline, low_latency=False) == render_timeline(again, low_latency=False)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 400])
@pytest.mark.parametrize("first", [0, 1, 63])
def test_a_timeline_of_many_segments_is_one_that_gained_them_one_by_one(
    count: int, first: int
) -> None:
    segments = [
        PlaylistSegment(
            uri=f"{first + number}.m4s",
            duration=SEGMENT + number,
            map_uri=f"init-{number // 100}.mp4",
            discontinuity=number > 0 and number % 100 == 0,
            gap=number % 7 == 3,
        )
        for number in range(count)
    ]
    expected = Timeline(part_target=PART, sequence=first, discontinuities=2)
    for segment in segments:
        expected = expected.with_segment(segment)
    rebuilt = Timeline.of(segments, part_target=PART, sequence=first, discontinuities=2)
    for low_latency in (False, True):
        texts = [render_timeline(one, low_latency=low_latency) for one in (rebuilt, expected)]
        assert texts[0] == texts[1]
    assert (rebuilt.count, rebuilt.duration) == (expected.count, expected.duration)
    assert [len(page.segments) for page in rebuilt.pages] == [
        len(page.segments) for page in expected.pages
    ]


def test_a_part_or_segment_does_not_change_older_text() -> None:
    before = with_closed(1000)
    opened = before.open("init-0.mp4").with_part(part(1000, 0))
    assert opened.pages is before.pages
    assert opened.recent is before.recent
    closed = opened.close("1000.m4s", SEGMENT)
    assert closed.pages is before.pages
    pairs = zip(closed.recent, before.recent, strict=False)
    assert all(after is now for after, now in pairs)
    assert closed.trimmed(0) is closed
    shorter = closed.trimmed(70)
    assert len(shorter.pages) == len(closed.pages) - 1
    pairs = zip(shorter.pages[1:], closed.pages[2:], strict=True)
    assert all(after is now for after, now in pairs)
    assert shorter.recent is closed.recent


# -- any order of operations ----------------------------------------------------------------------


def position(timeline: Timeline) -> tuple[int, int]:
    """The numbers of the newest part or segment, as far as they can be compared."""
    msn, index = timeline.newest or (-1, None)
    return msn, -1 if index is None else index


@given(timeline_runs())
def test_numbers_never_fall_and_what_was_listed_is_final(run: TimelineRun) -> None:
    numbers: dict[str, tuple[int, int]] = {}
    before = run.timelines[0]
    for after in run.timelines[1:]:
        assert after.sequence >= before.sequence
        assert after.discontinuities >= before.discontinuities
        assert after.next_msn >= before.next_msn
        assert position(after) >= position(before)
        assert after.duration == sum(one.duration for one in after.segments)
        discontinuities = after.discontinuities
        for msn, segment in enumerate(after.segments, after.sequence):
            discontinuities += segment.discontinuity
            listed = (msn, discontinuities)
            assert numbers.setdefault(segment.uri, listed) == listed
        before = after


@given(timeline_runs())
def test_a_request_that_can_be_answered_stays_answerable(run: TimelineRun) -> None:
    last = run.timelines[-1].next_msn + 3
    requests = [
        (msn, index) for msn in range(max(last - 12, 0), last) for index in (None, *range(7))
    ]
    answerable: set[tuple[int, int | None]] = set()
    for timeline in run.timelines:
        now = {one for one in requests if timeline.has(*one)}
        assert answerable <= now
        # What can be answered is not refused, and neither is the next part or segment.
        assert not any(timeline.is_too_far(*one) for one in now)
        assert not timeline.is_too_far(timeline.next_msn, len(timeline.parts))
        assert not timeline.is_too_far(timeline.next_msn, None)
        answerable = now


@given(timeline_runs())
def test_parts_are_listed_within_three_target_durations_of_the_end(run: TimelineRun) -> None:
    for timeline in run.timelines:
        after = 0
        for one in reversed(timeline.recent):
            assert not one.parts or after <= HELD
            after += one.segment.duration
