"""Where segments begin."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from transcode.engine.grid import SLACK, Cut, Grid

SECOND = 90_000
FRAME = 3_000  # 30 a second
START = 900_000


def grid(*, reuse: bool = True, discontinuity: bool = False) -> Grid:
    return Grid(
        sequence=7,
        discontinuity=discontinuity,
        cut=2 * SECOND,
        longest=4 * SECOND,
        reuse=reuse,
    )


def cuts(of: Grid, times: Iterable[tuple[int, bool]]) -> list[Cut]:
    return [cut for pts, idr in times if (cut := of.offer(pts, idr=idr)) is not None]


def steady(seconds: int, gop: int, first: int = START) -> list[tuple[int, bool]]:
    """Frames in order, 30 a second, every `gop`-th an IDR picture."""
    return [(first + n * FRAME, n % gop == 0) for n in range(seconds * 30)]


def test_the_first_picture_opens_the_first_segment() -> None:
    assert cuts(grid(discontinuity=True), [(START, True)]) == [
        Cut(sequence=7, at=START, discontinuity=True)
    ]


def test_keyframes_every_two_seconds_are_the_cuts() -> None:
    found = cuts(grid(), steady(7, 60))
    assert [cut.at - START for cut in found] == [0, 2 * SECOND, 4 * SECOND, 6 * SECOND]
    assert [cut.sequence for cut in found] == [7, 8, 9, 10]
    assert not any(cut.discontinuity or cut.takeover for cut in found)


def test_keyframes_that_come_more_often_are_passed_over() -> None:
    found = cuts(grid(), steady(7, 25))
    assert [(cut.at - START) // FRAME for cut in found] == [0, 75, 150]


def test_a_keyframe_a_millisecond_early_is_in_time_for_its_cut() -> None:
    times = [(START, True), (START + FRAME, False), (START + 2 * SECOND - 90, True)]
    assert [cut.at for cut in cuts(grid(), times)] == [START, START + 2 * SECOND - 90]


def test_a_keyframe_at_the_longest_is_still_in_time() -> None:
    assert not any(cut.takeover for cut in cuts(grid(), steady(9, 120)))


def test_without_a_keyframe_in_time_the_encoder_takes_over_for_good() -> None:
    of = grid()
    found = cuts(of, steady(11, 240))
    assert [cut.takeover for cut in found] == [False, True, False, False, False]
    assert [cut.discontinuity for cut in found] == [False, True, False, False, False]
    assert found[1].at == START + 4 * SECOND + 1
    assert not of.reuses
    # From the frame after the last one that was copied, two seconds each.
    assert [round((cut.at - START) / FRAME) for cut in found] == [0, 120, 180, 240, 300]


def test_a_takeover_comes_after_all_that_was_shown_and_copied() -> None:
    # B-frames: 4.1 is coded before 4.0333 and 4.0667, which belong to the new segment.
    coded = [*steady(4, 240), (START + 120 * FRAME, False), (START + 123 * FRAME, False)]
    coded += [(START + 121 * FRAME, False), (START + 122 * FRAME, False)]
    found = cuts(grid(), coded)
    assert [cut.at for cut in found] == [START, START + 120 * FRAME + 1]


def test_a_picture_below_one_that_came_makes_no_cut() -> None:
    of = grid()
    cuts(of, steady(3, 240))
    assert of.offer(START + 2 * SECOND, idr=True) is None


def test_without_reuse_the_clock_cuts() -> None:
    found = cuts(grid(reuse=False), steady(7, 240))
    assert [round((cut.at - START) / FRAME) for cut in found] == [0, 60, 120, 180]
    assert all(cut.at <= START + n * 2 * SECOND for n, cut in enumerate(found))
    assert all(cut.at > START + n * 2 * SECOND - SLACK - 1 for n, cut in enumerate(found))


def test_stamps_of_whole_milliseconds_move_no_cut_to_another_frame() -> None:
    stamps = [START + (n * 1000 // 30) * 90 for n in range(300)]
    found = cuts(grid(reuse=False), [(pts, False) for pts in stamps])
    firsts = [next(n for n, pts in enumerate(stamps) if pts >= cut.at) for cut in found]
    assert firsts == [0, 60, 120, 180, 240]


def test_a_hole_is_spanned_by_one_segment() -> None:
    times = [(START + n * FRAME, False) for n in (*range(60), *range(400, 500))]
    found = cuts(grid(reuse=False), times)
    assert [round((cut.at - START) / FRAME) for cut in found] == [0, 60, 420, 480]


@given(
    st.lists(st.tuples(st.integers(-300_000, 900_000), st.booleans()), min_size=1, max_size=200),
    st.booleans(),
)
def test_cuts_rise_and_each_has_a_picture_of_its_own(
    moves: list[tuple[int, bool]], reuse: bool
) -> None:
    times: list[tuple[int, bool]] = []
    place = START
    for move, idr in moves:
        place += move
        times.append((place, idr))
    found = cuts(grid(reuse=reuse), times)
    assert [cut.sequence for cut in found] == list(range(7, 7 + len(found)))
    edges = [cut.at for cut in found]
    assert edges == sorted(set(edges))
    for low, high in zip(edges, [*edges[1:], max(edges) + 10**9], strict=True):
        assert any(low <= pts < high for pts, _ in times)
    assert sum(cut.takeover for cut in found) <= 1
