"""Where a film's segments begin and which are made apart: pure."""

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcode.engine.output.segment_grid import SLACK
from transcode.engine.vod.span_planner import (
    LONGEST_SEGMENT_TICKS,
    SEGMENT_TICKS,
    cuts_at_keyframes,
    cuts_by_clock,
    plan_spans,
)

SECOND = 90_000


def ticks(*seconds: float) -> tuple[int, ...]:
    return tuple(round(each * SECOND) for each in seconds)


@pytest.mark.parametrize(
    ("keys", "end", "cuts"),
    [
        pytest.param((0, 2, 4, 6), 8, (0, 2, 4, 6), id="every 2 s"),
        pytest.param((0, 1, 2, 3, 4), 5, (0, 2, 4), id="every second"),
        pytest.param((0, 3.9, 7.8), 10, (0, 3.9, 7.8), id="every 3.9 s"),
        pytest.param((0, 1.9, 4.4), 6, (0, 1.9, 4.4), id="one early, as the next comes too late"),
        pytest.param((0, 5), 6, None, id="too far apart"),
        pytest.param((0,), 4, (0,), id="one is enough for 4 s"),
        pytest.param((0,), 4.5, None, id="a long end"),
        pytest.param((1, 3), 5, None, id="it begins without one"),
        pytest.param((), 3, None, id="none"),
        pytest.param((0, 2, 4), 4.2, (0, 2), id="no stub at the end"),
    ],
)
def test_a_films_own_keyframes_cut_it_where_they_bound_every_segment(
    keys: tuple[float, ...], end: float, cuts: tuple[float, ...] | None
) -> None:
    keyframe_cuts = cuts_at_keyframes(ticks(*keys), 0, round(end * SECOND))
    assert keyframe_cuts == (None if cuts is None else ticks(*cuts))


def test_the_clock_cuts_every_two_seconds_as_far_as_pictures_go() -> None:
    assert cuts_by_clock(100, 100) == (100,)
    assert cuts_by_clock(0, 5 * SECOND) == (
        0,
        SEGMENT_TICKS - SLACK,
        2 * SEGMENT_TICKS - SLACK,
    )


def film(seconds: float, rate: int = 25) -> tuple[list[int], int]:
    return [index * SECOND // rate for index in range(round(seconds * rate))], round(
        seconds * SECOND
    )


@pytest.mark.parametrize(
    ("seconds", "count"),
    [(3, 1), (15, 1), (24, 2), (60, 2), (100, 3), (300, 14), (3600, 66)],
)
def test_long_films_are_cut_into_stretches(seconds: float, count: int) -> None:
    times, end = film(seconds)
    keys = ticks(*range(0, int(seconds), 2))
    cuts = cuts_at_keyframes(keys, 0, end)
    assert cuts is not None
    spans = plan_spans(cuts, times, keys, end)
    assert len(spans) == count
    assert all(each.key == cuts[each.first] for each in spans)


def test_stretches_grow_shorter_towards_the_end_so_that_workers_end_together() -> None:
    times, end = film(300)
    keys = ticks(*range(0, 300, 2))
    cuts = cuts_at_keyframes(keys, 0, end)
    assert cuts is not None
    spans = plan_spans(cuts, times, keys, end)
    lengths = [(each.end - cuts[each.first]) / SECOND for each in spans]
    assert max(lengths) == 30
    assert max(lengths[-4:]) <= 10
    assert min(lengths) >= 5


def test_stretches_begin_where_the_keyframe_before_is_near() -> None:
    times, end = film(120)
    keys = ticks(0, 33.5, 61, 93)
    spans = plan_spans(cuts_by_clock(0, times[-1]), times, keys, end)
    begun = [times[bisect_left(times, cuts_by_clock(0, times[-1])[each.first])] for each in spans]
    early = [(start - each.key) / SECOND for start, each in zip(begun, spans, strict=True)]
    assert len(spans) == 3
    assert max(early) < 1.1


def test_a_film_with_one_keyframe_is_one_stretch() -> None:
    times, end = film(240)
    assert len(plan_spans(cuts_by_clock(0, times[-1]), times, [0], end)) <= 2
    # A stretch that begins farther than its length behind a keyframe costs too much decoding.
    assert all(each.pictures for each in plan_spans(cuts_by_clock(0, times[-1]), times, [0], end))


@given(
    gaps=st.lists(st.integers(1_000, 200_000), min_size=1, max_size=1_500),
    every=st.integers(1, 400),
)
def test_stretches_hold_every_picture_once_and_follow_each_other(
    gaps: list[int], every: int
) -> None:
    times = [900_000]
    for gap in gaps:
        times.append(times[-1] + gap)
    end = times[-1] + 3_000
    keys = times[::every]
    cuts = cuts_at_keyframes(keys, times[0], end) or cuts_by_clock(times[0], times[-1])
    assert all(a < b for a, b in pairwise(cuts))
    spans = plan_spans(cuts, times, keys, end)
    assert (spans[0].first, spans[-1].last, spans[0].before) == (0, len(cuts), None)
    assert sum(each.pictures for each in spans) == len(times)
    for one, other in pairwise(spans):
        assert one.last == other.first
        first = times[bisect_left(times, cuts[other.first])]
        assert one.end == first
        assert other.before is not None
        assert other.before < cuts[other.first] <= first
        assert other.key <= first
        # Decode times follow from the pictures' times: the two before the seam are real ones.
        assert (
            bisect_left(times, cuts[other.first]) - bisect_left(times, cuts[other.first - 1]) >= 2
        )
    assert spans[-1].end == end


def test_segments_at_keyframes_are_within_the_longest() -> None:
    keys = ticks(0, 3, 5, 8.5, 12, 13, 17)
    cuts = cuts_at_keyframes(keys, 0, 20 * SECOND)
    assert cuts is not None
    assert all(b - a <= LONGEST_SEGMENT_TICKS for a, b in pairwise((*cuts, 20 * SECOND)))
