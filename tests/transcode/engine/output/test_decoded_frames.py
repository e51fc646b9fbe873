"""Which frames are left out, which open segments, and which are repeated."""

from fractions import Fraction

import pytest

from transcode.engine.output.decoded_frames import FrameThinner, black_frame, split_due
from transcode.engine.output.segment_grid import HOLE, Cut


def kept_frames(rate: float, *, announced: Fraction | None = None, seconds: int = 3) -> list[int]:
    """How many frames of each second are kept, with stamps of whole milliseconds."""
    thinner = FrameThinner(announced)
    counts = [0] * seconds
    for n in range(round(rate * seconds)):
        pts = int(n * 1000 / rate) * 90
        counts[pts // 90_000] += thinner.keeps(pts)
    return counts


@pytest.mark.parametrize("rate", [1, 24, 29.97, 30, 50, 59.94, 60])
def test_up_to_60_a_second_all_are_kept(rate: float) -> None:
    assert sum(kept_frames(rate)) == round(rate * 3)


@pytest.mark.parametrize(("rate", "expected"), [(120, 60), (90, 45), (72, 36), (144, 48)])
def test_frames_are_thinned_from_the_first_when_the_source_declares_its_rate(
    rate: int, expected: int
) -> None:
    counts = kept_frames(rate, announced=Fraction(rate))
    assert all(abs(count - expected) <= 1 for count in counts)


def test_frames_are_thinned_after_a_second_when_the_source_declares_no_rate() -> None:
    counts = kept_frames(120)
    assert counts[0] == 120
    assert all(abs(count - 60) <= 1 for count in counts[1:])


def test_frames_that_a_network_bunched_together_stay() -> None:
    thinner = FrameThinner(Fraction(30))
    assert all(thinner.keeps(n // 3 * 9_000 + n % 3 * 90) for n in range(90))


FIRST, SECOND = Cut(sequence=0, at=90_000), Cut(sequence=1, at=180_000)


@pytest.mark.parametrize(
    ("due", "pts", "repeated", "opens"),
    [
        pytest.param([], 90_000, [], None, id="no cut"),
        pytest.param([FIRST], 90_000, [], FIRST, id="at the cut"),
        pytest.param([FIRST], 90_000 + HOLE, [], FIRST, id="a little late"),
        pytest.param([FIRST], 90_001 + HOLE, [FIRST], None, id="too late"),
        pytest.param([FIRST, SECOND], 180_000, [FIRST], SECOND, id="the newest of two"),
        pytest.param([FIRST, SECOND], 190_000 + HOLE, [FIRST, SECOND], None, id="after both"),
    ],
)
def test_a_picture_opens_the_newest_cut_unless_it_is_late(
    due: list[Cut], pts: int, repeated: list[Cut], opens: Cut | None
) -> None:
    assert split_due(due, pts) == (repeated, opens)


def test_the_black_picture_is_black_in_limited_range() -> None:
    frame = black_frame(64, 36)
    assert [set(bytes(plane)) for plane in frame.planes] == [{16}, {128}, {128}]
