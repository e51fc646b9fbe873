"""Which frames are left out of a source with too many."""

from fractions import Fraction

import pytest

from transcode.engine.live.video_pipeline import Thinner


def kept(rate: float, *, told: Fraction | None = None, seconds: int = 3) -> list[int]:
    """How many frames of each second are kept, with stamps of whole milliseconds."""
    thinner = Thinner(told)
    counts = [0] * seconds
    for n in range(round(rate * seconds)):
        pts = int(n * 1000 / rate) * 90
        counts[pts // 90_000] += thinner.keeps(pts)
    return counts


@pytest.mark.parametrize("rate", [1, 24, 29.97, 30, 50, 59.94, 60])
def test_up_to_60_a_second_all_are_kept(rate: float) -> None:
    assert sum(kept(rate)) == round(rate * 3)


@pytest.mark.parametrize(("rate", "expected"), [(120, 60), (90, 45), (72, 36), (144, 48)])
def test_more_are_thinned_from_the_first_when_the_source_tells(rate: int, expected: int) -> None:
    counts = kept(rate, told=Fraction(rate))
    assert all(abs(count - expected) <= 1 for count in counts)


def test_more_are_thinned_after_a_second_when_it_does_not() -> None:
    counts = kept(120)
    assert counts[0] == 120
    assert all(abs(count - 60) <= 1 for count in counts[1:])


def test_frames_that_a_network_bunched_together_stay() -> None:
    thinner = Thinner(Fraction(30))
    assert all(thinner.keeps(n // 3 * 9_000 + n % 3 * 90) for n in range(90))
