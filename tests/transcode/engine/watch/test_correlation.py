"""Where two sounds agree, on features that are made up."""

import numpy as np
import pytest

from transcode.engine.watch.correlation import find, fine_lag
from transcode.engine.watch.onsets import RATE, Onsets

RANDOM = np.random.default_rng(7)


def onsets(rows: int) -> Onsets:
    return RANDOM.standard_normal((rows, 4)).astype("f4")


@pytest.mark.parametrize("behind", [-400, -1, 0, 1, 399, 400])
def test_the_newest_of_both_is_compared(behind: int) -> None:
    whole = onsets(1500)
    end = 1000
    found = find(whole[:end], whole[: end - behind], rows=300, reach=400)
    assert found is not None
    assert found.rows == behind
    assert found.correlation == pytest.approx(1, abs=1e-3)
    assert found.ratio > 3


def test_what_is_farther_away_is_not_found() -> None:
    whole = onsets(1500)
    found = find(whole[:1000], whole[:590], rows=300, reach=400)
    assert found is not None
    assert found.correlation < 0.3


def test_too_few_rows_are_not_compared() -> None:
    assert find(onsets(299), onsets(500), rows=300, reach=400) is None


def test_what_comes_twice_has_no_ratio() -> None:
    bar = onsets(100)
    found = find(np.tile(bar, (8, 1)), np.tile(bar, (8, 1)), rows=300, reach=400)
    assert found is not None
    assert found.correlation > 0.9
    assert found.ratio < 1.1


def test_silence_has_no_correlation() -> None:
    nothing = np.zeros((700, 4), np.float32)
    found = find(nothing, nothing, rows=300, reach=400)
    assert found is not None
    assert (found.correlation, found.ratio) == (0, 0)


@pytest.mark.parametrize("samples", [-160, -7, 0, 40, 160])
def test_waves_are_placed_to_the_sample(samples: int) -> None:
    whole = RANDOM.standard_normal(4 * RATE).astype("f4")
    first = whole[1000 : 1000 + 3 * RATE]
    # The other one is later, and upside down, as some mixers' outputs are.
    other = -whole[1000 - samples : 1000 - samples + 3 * RATE]
    assert fine_lag(first, other) == pytest.approx(samples / RATE)


def test_waves_of_something_else_have_no_place() -> None:
    assert fine_lag(*(RANDOM.standard_normal(3 * RATE).astype("f4") for _ in range(2))) is None
