"""Where segments begin."""

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcode.engine.output.segment_grid import HOLE, SLACK, Cut, SegmentGrid

SECOND = 90_000
FRAME = 3_000  # 30 a second
START = 900_000


def grid(*, reuse: bool = True, discontinuity: bool = False) -> SegmentGrid:
    return SegmentGrid(
        sequence=7,
        discontinuity=discontinuity,
        cut=2 * SECOND,
        longest=4 * SECOND,
        reuse=reuse,
    )


def cuts(of: SegmentGrid, times: Iterable[tuple[int, bool]]) -> list[Cut]:
    return [cut for pts, idr in times for cut in of.add_picture(pts, idr=idr)]


def steady(seconds: int, gop: int, first: int = START) -> list[tuple[int, bool]]:
    """Frames in order, 30 a second, every `gop`-th an IDR picture."""
    return [(first + n * FRAME, n % gop == 0) for n in range(seconds * 30)]


def test_the_first_picture_opens_the_first_segment() -> None:
    assert cuts(grid(discontinuity=True), [(START, True)]) == [
        Cut(sequence=7, at=START, expected=2 * SECOND, discontinuity=True)
    ]


def test_keyframes_every_two_seconds_are_the_cuts() -> None:
    placed_cuts = cuts(grid(), steady(7, 60))
    assert [cut.at - START for cut in placed_cuts] == [0, 2 * SECOND, 4 * SECOND, 6 * SECOND]
    assert [cut.sequence for cut in placed_cuts] == [7, 8, 9, 10]
    assert not any(cut.discontinuity or cut.takeover for cut in placed_cuts)


@pytest.mark.parametrize("gop", [15, 25, 60, 90, 120])
def test_a_cut_foretells_the_length_of_a_steady_sources_segment(gop: int) -> None:
    placed = cuts(grid(), steady(20, gop))
    lengths = [after.at - cut.at for cut, after in itertools.pairwise(placed)]
    assert [cut.expected for cut in placed[1:-1]] == lengths[1:]


def test_by_the_clock_every_cut_foretells_the_next() -> None:
    placed = cuts(grid(reuse=False), steady(9, 45))
    assert [cut.at + cut.expected for cut in placed[:-1]] == pytest.approx(
        [cut.at for cut in placed[1:]], abs=SLACK
    )


def test_keyframes_that_come_more_often_are_passed_over() -> None:
    placed_cuts = cuts(grid(), steady(7, 25))
    assert [(cut.at - START) // FRAME for cut in placed_cuts] == [0, 75, 150]


def test_a_keyframe_a_millisecond_early_is_in_time_for_its_cut() -> None:
    times = [(START, True), (START + FRAME, False), (START + 2 * SECOND - 90, True)]
    assert [cut.at for cut in cuts(grid(), times)] == [START, START + 2 * SECOND - 90]


def test_a_keyframe_at_the_longest_is_still_in_time() -> None:
    assert not any(cut.takeover for cut in cuts(grid(), steady(9, 120)))


def test_without_a_keyframe_in_time_the_encoder_takes_over_for_good() -> None:
    of = grid()
    placed_cuts = cuts(of, steady(11, 240))
    assert [cut.takeover for cut in placed_cuts] == [False, True, False, False, False]
    assert not any(cut.discontinuity for cut in placed_cuts)
    assert placed_cuts[1].at == START + 4 * SECOND + 1
    assert not of.reuses
    # From the frame after the last one that was copied, two seconds each.
    assert [round((cut.at - START) / FRAME) for cut in placed_cuts] == [0, 120, 180, 240, 300]


def test_a_takeover_comes_after_all_that_was_shown_and_copied() -> None:
    # B-frames: 4.1 is coded before 4.0333 and 4.0667, which belong to the new segment.
    coded = [*steady(4, 240), (START + 120 * FRAME, False), (START + 123 * FRAME, False)]
    coded += [(START + 121 * FRAME, False), (START + 122 * FRAME, False)]
    placed_cuts = cuts(grid(), coded)
    assert [cut.at for cut in placed_cuts] == [START, START + 120 * FRAME + 1]


def test_a_picture_below_one_that_came_makes_no_cut() -> None:
    of = grid()
    cuts(of, steady(3, 240))
    assert not of.add_picture(START + 2 * SECOND, idr=True)


def test_without_reuse_the_clock_cuts() -> None:
    placed_cuts = cuts(grid(reuse=False), steady(7, 240))
    assert [round((cut.at - START) / FRAME) for cut in placed_cuts] == [0, 60, 120, 180]
    assert all(cut.at <= START + n * 2 * SECOND for n, cut in enumerate(placed_cuts))
    assert all(cut.at > START + n * 2 * SECOND - SLACK - 1 for n, cut in enumerate(placed_cuts))


def test_sound_is_sent_as_far_as_its_picture_is_shown() -> None:
    of = grid()
    cuts(of, steady(1, 60))
    newest = START + 29 * FRAME
    assert newest < of.settled(FRAME) < newest + FRAME
    assert of.settled(0) == newest


def test_sound_is_not_sent_beyond_a_cut_that_the_clock_will_make() -> None:
    of = grid(reuse=False)
    cuts(of, steady(2, 60))
    (due,) = of.add_picture(START + 2 * SECOND, idr=False)
    before = grid(reuse=False)
    cuts(before, steady(2, 60))
    assert before.settled(2 * FRAME) == due.at - 1


def test_stamps_of_whole_milliseconds_move_no_cut_to_another_frame() -> None:
    stamps = [START + (n * 1000 // 30) * 90 for n in range(300)]
    placed_cuts = cuts(grid(reuse=False), [(pts, False) for pts in stamps])
    firsts = [next(n for n, pts in enumerate(stamps) if pts >= cut.at) for cut in placed_cuts]
    assert firsts == [0, 60, 120, 180, 240]


def test_a_hole_is_cut_as_if_there_were_pictures() -> None:
    times = [(START + n * FRAME, False) for n in (*range(60), *range(400, 500))]
    placed_cuts = cuts(grid(reuse=False), times)
    assert [round((cut.at - START) / FRAME) for cut in placed_cuts] == [*range(0, 481, 60)]


@pytest.mark.parametrize(
    ("seconds", "idr", "expected"),
    [
        pytest.param(3.9, True, [0, 3.9], id="a keyframe in time"),
        pytest.param(3.9, False, [0], id="shorter than a segment may be"),
        pytest.param(6.5, False, [0, 4, 6], id="no keyframe at all"),
        pytest.param(6.5, True, [0, 4, 6], id="a keyframe after it"),
        pytest.param(19.0, True, [0, *range(4, 19, 2)], id="as long as holes get"),
    ],
)
def test_a_hole_in_the_sources_own_pictures_is_taken_over_at_the_longest(
    seconds: float, idr: bool, expected: list[float]
) -> None:
    of = grid()
    placed_cuts = cuts(of, [(START, True), (START + round(seconds * SECOND), idr)])
    at = [(cut.at - START) / SECOND for cut in placed_cuts]
    assert at == pytest.approx(expected, abs=0.02)
    assert [cut.takeover for cut in placed_cuts] == [n == 1 and seconds > 4 for n in range(len(at))]
    assert of.reuses is (seconds < 4)


def audio_cuts(of: SegmentGrid, seconds: Iterable[float]) -> list[Cut]:
    return [cut for second in seconds for cut in of.cut_until(START + round(second * SECOND))]


def test_sound_that_continues_takes_the_top_rung_from_a_frozen_picture() -> None:
    of = grid()
    cuts(of, steady(1, 60))
    assert not audio_cuts(of, [0.5, 1.5, 2.5, 3.5, 4.0])
    assert not of.holds_picture
    assert of.newest == START + 29 * FRAME, "an IDR picture may still cut anywhere after it"
    cut_times = audio_cuts(of, [4.1, 5.0, 6.0, 6.1])
    assert [(cut.at - START) / SECOND for cut in cut_times] == pytest.approx([4, 6], abs=0.02)
    assert [cut.takeover for cut in cut_times] == [True, False]
    assert not any(cut.discontinuity for cut in cut_times)
    assert of.holds_picture
    assert of.newest == START + round(6.1 * SECOND)


def test_sound_cuts_by_the_clock_where_the_source_is_not_reused() -> None:
    of = grid(reuse=False)
    cuts(of, steady(1, 60))
    cut_times = audio_cuts(of, [1.5, 1.99, 2.0, 3.0, 4.0])
    assert [(cut.at - START) / SECOND for cut in cut_times] == pytest.approx([2, 4], abs=0.02)
    assert of.holds_picture


def test_the_picture_moves_again_with_the_second_picture_in_a_row() -> None:
    of = grid(reuse=False)
    cuts(of, steady(1, 60))
    audio_cuts(of, [2.5])
    assert not of.add_picture(START + 2 * SECOND, idr=False), "too late to cut"
    assert of.holds_picture
    assert not of.add_picture(START + 3 * SECOND, idr=False)
    assert of.holds_picture, "a slide show"
    assert not of.add_picture(START + 3 * SECOND + FRAME, idr=False)
    assert not of.holds_picture


def test_before_the_first_picture_there_is_nothing_to_give_up() -> None:
    of = grid()
    assert not audio_cuts(of, [100.0])
    assert cuts(of, [(START, True)]) == [Cut(sequence=7, at=START, expected=2 * SECOND)]


def test_a_picture_of_another_form_is_the_encoders() -> None:
    of = grid()
    cuts(of, steady(3, 60))
    (cut,) = of.add_picture(START + 90 * FRAME, idr=True, own=False)
    assert (cut.at, cut.takeover, cut.discontinuity) == (START + 90 * FRAME, True, False)
    assert [round((cut.at - START) / FRAME) for cut in cuts(of, steady(6, 60))] == [150]


def test_a_picture_of_another_form_after_a_hole_makes_no_longer_segment() -> None:
    of = grid()
    cuts(of, [(START, True)])
    new_cuts = of.add_picture(START + 5 * SECOND, idr=True, own=False)
    assert [(cut.at - START) / SECOND for cut in new_cuts] == [4]


def test_a_first_picture_of_another_form_is_the_encoders_too() -> None:
    of = grid()
    (cut,) = of.add_picture(START, idr=True, own=False)
    assert (cut.at, cut.takeover, cut.discontinuity) == (START, True, False)
    assert not of.reuses


Offers = list[tuple[str, int]]


def played(of: SegmentGrid, offers: Offers) -> tuple[list[Cut], list[int]]:
    """Return the cuts, and after each packet how long the open segment is, in ticks."""
    place = heard_to = START
    cuts_made: list[Cut] = []
    open_: list[int] = []
    for kind, move in offers:
        if kind == "sound":
            heard_to += abs(move)
            cuts_made += of.cut_until(heard_to)
        else:
            place += move
            cuts_made += of.add_picture(place, idr=kind != "picture", own=kind != "another")
        if cuts_made:
            open_.append(of.newest - cuts_made[-1].at)
    return cuts_made, open_


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["picture", "picture", "picture", "idr", "another", "sound"]),
            st.integers(-300_000, 900_000) | st.integers(1_000, 9_000),
        ),
        max_size=200,
    ),
    st.booleans(),
)
def test_cuts_rise_and_no_segment_grows_beyond_the_longest_and_a_frame(
    offers: Offers, reuse: bool
) -> None:
    cuts_made, open_ = played(grid(reuse=reuse), offers)
    assert [cut.sequence for cut in cuts_made] == list(range(7, 7 + len(cuts_made)))
    assert sum(cut.takeover for cut in cuts_made) <= reuse
    edges = [cut.at for cut in cuts_made]
    longest = 4 * SECOND + SLACK + HOLE
    for one, other in itertools.pairwise(edges):
        assert one < other <= one + longest
    assert all(length <= longest for length in open_)


# -- splices --------------------------------------------------------------------------------------


def follow(of: SegmentGrid, seconds: float, gop: int) -> list[Cut]:
    """Offer another source's frames, right behind the newest one."""
    of.splice()
    return cuts(of, steady_for(seconds, gop, of.newest + FRAME))


def steady_for(seconds: float, gop: int, first: int = START) -> list[tuple[int, bool]]:
    return [(first + n * FRAME, n % gop == 0) for n in range(round(seconds * 30))]


def test_a_splice_inside_a_segment_brings_no_cut() -> None:
    of = grid()
    cuts(of, steady_for(3.5, 30))
    cuts_made = follow(of, 4, 30)
    assert [round((cut.at - START) / SECOND, 1) for cut in cuts_made] == [4.5, 6.5]
    assert not any(cut.discontinuity or cut.takeover for cut in cuts_made)


def test_a_splice_before_a_keyframe_that_would_come_too_late_ends_the_segment() -> None:
    of = grid()
    cuts(of, steady_for(5.5, 120))
    cuts_made = follow(of, 9, 120)
    assert [round((cut.at - START) / SECOND, 1) for cut in cuts_made] == [5.5, 9.5, 13.5]
    assert of.reuses


def test_a_splice_on_the_clocks_grid_changes_nothing() -> None:
    of = grid(reuse=False)
    cuts(of, steady_for(3.5, 30))
    cuts_made = follow(of, 4, 30)
    assert [round((cut.at - START) / SECOND, 1) for cut in cuts_made] == [4.0, 6.0]


@given(
    st.lists(st.tuples(st.floats(0.2, 6), st.integers(6, 120)), min_size=2, max_size=8),
    st.booleans(),
)
def test_no_segment_is_too_long_or_empty_over_any_splices(
    sources: list[tuple[float, int]], reuse: bool
) -> None:
    of = grid(reuse=reuse)
    cuts_made = cuts(of, steady_for(*sources[0]))
    for seconds, gop in sources[1:]:
        cuts_made += follow(of, seconds, gop)
    ends = [*(cut.at for cut in cuts_made[1:]), of.newest]
    lengths = [end - cut.at for cut, end in zip(cuts_made, ends, strict=True)]
    assert all(length >= FRAME for length in lengths[:-1])
    assert all(length <= 4 * SECOND + SLACK + FRAME for length in lengths)
    assert [cut.sequence for cut in cuts_made] == list(range(7, 7 + len(cuts_made)))


# -- nobody ---------------------------------------------------------------------------------------


def test_a_source_that_leaves_ends_the_segment_where_the_encoder_takes_over() -> None:
    of = grid()
    cuts(of, steady_for(3.5, 30))
    end = of.newest + FRAME
    (cut,) = of.leave_source(end)
    assert (cut.at, cut.discontinuity, cut.takeover, cut.still) == (end, True, True, True)
    new_cuts = of.cut_until(end + 5 * SECOND)
    # To the tick: the last picture of a segment is held up to them.
    assert [cut.at - end for cut in new_cuts] == [2 * SECOND, 4 * SECOND]
    assert not any(cut.discontinuity or cut.still for cut in new_cuts)


def test_a_source_that_leaves_right_after_a_cut_leaves_room_for_a_frame_of_sound() -> None:
    of = grid()
    cuts(of, steady_for(2, 30))
    (opening,) = of.add_picture(START + 2 * SECOND, idr=True)
    (cut,) = of.leave_source(of.newest + 1)
    assert cut.at - opening.at >= FRAME


def test_a_source_that_leaves_does_not_change_the_clocks_grid() -> None:
    of = grid(reuse=False)
    cuts(of, steady_for(3.5, 30))
    assert list(of.leave_source(of.newest + FRAME)) == []
    new_cuts = of.cut_until(START + 9 * SECOND)
    assert [round((cut.at - START) / SECOND, 1) for cut in new_cuts] == [4.0, 6.0, 8.0]


def test_the_first_segment_opens_without_a_source() -> None:
    of = grid()
    (cut,) = of.leave_source(START)
    assert (cut.at, cut.discontinuity, cut.takeover, cut.still) == (START, False, True, True)
    new_cuts = of.cut_until(START + 5 * SECOND)
    assert [cut.at - START for cut in new_cuts] == [2 * SECOND, 4 * SECOND]


# -- a source that is shown from a picture after its keyframe -------------------------------------


def test_a_bridge_lasts_from_the_cut_to_the_next_keyframe() -> None:
    of = grid()
    cuts(of, steady(3, 60))
    of.splice()
    cut = of.bridge(START + 90 * FRAME)
    assert (cut.at, cut.sequence) == (START + 90 * FRAME, 9)
    assert (cut.takeover, cut.discontinuity, of.reuses) == (True, False, False)
    rest = [(START + n * FRAME, n in (190, 250)) for n in range(90, 260)]
    assert [(each.at - START) // FRAME for each in cuts(of, rest)] == [190, 250]
    assert of.reuses


def test_a_bridge_begins_and_ends_where_segments_hold_some_sound() -> None:
    of = grid()
    cuts(of, steady(2, 60))
    cuts(of, [(START + 60 * FRAME, True)])
    cut = of.bridge(START + 60 * FRAME + FRAME // 2)
    assert cut.at == START + 61 * FRAME
    assert cuts(of, [(cut.at + FRAME // 2, True)]) == [], "the next keyframe ends it"
    (end,) = cuts(of, [(cut.at + FRAME, True)])
    assert (end.at, of.reuses) == (cut.at + FRAME, True)


def test_a_bridge_without_a_keyframe_in_time_goes_on_by_the_clock() -> None:
    of = grid()
    cuts(of, steady(3, 60))
    of.bridge(START + 90 * FRAME)
    rest = [(START + n * FRAME, n == 250) for n in range(90, 360)]
    assert [round((each.at - START) / FRAME) for each in cuts(of, rest)] == [210, 270, 330]
    assert not of.reuses


def test_keyframes_of_another_form_end_no_bridge() -> None:
    of = grid()
    cuts(of, steady(3, 60))
    of.bridge(START + 90 * FRAME)
    assert not of.add_picture(START + 120 * FRAME, idr=True, own=False)
    assert not of.reuses
    assert of.add_picture(START + 150 * FRAME, idr=True)


def test_the_slate_ends_a_bridge_without_a_cut() -> None:
    of = grid()
    cuts(of, steady(3, 60))
    of.bridge(START + 90 * FRAME)
    assert of.leave_source(START + 100 * FRAME) == ()
    assert not cuts(of, [(START + 110 * FRAME, True)])


def test_an_epoch_may_begin_with_a_bridge() -> None:
    of = grid(discontinuity=True)
    cut = of.bridge(START)
    assert (cut.sequence, cut.at, cut.discontinuity, cut.takeover) == (7, START, True, True)
    early = [(START, False), (START + FRAME, True)]
    assert cuts(of, early) == [], "some players wait for a first segment that is so short"
    (end,) = cuts(of, [(START + SECOND, True)])
    assert (end.at, end.takeover, of.reuses) == (START + SECOND, False, True)


# -- the source's own packets again ---------------------------------------------------------------


def test_the_sources_own_packets_are_cut_at_the_keyframe_that_is_awaited() -> None:
    of = grid()
    cuts(of, steady(11, 240))
    assert not of.reuses
    of.await_entry()
    (cut,) = cuts(of, [(START + 11 * SECOND, True)])
    assert (cut.at, cut.takeover, cut.discontinuity) == (START + 11 * SECOND, False, False)
    assert of.reuses
    assert cuts(of, [(START + 12 * SECOND, True), (START + 13 * SECOND, False)]) == []


def test_no_keyframe_is_awaited_for_longer_than_a_segment_may_last() -> None:
    of = grid(reuse=False)
    cuts(of, steady(3, 300))
    of.await_entry()
    rest = [(START + n * FRAME, n == 200) for n in range(90, 210)]
    assert [(each.at - START) // FRAME for each in cuts(of, rest)] == [180]
    assert not of.reuses
