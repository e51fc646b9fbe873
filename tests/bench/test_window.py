"""A step of a live run costs the same at any length of its window."""

import pytest

from bench.window.__main__ import MOST_GROWTH, measured
from tests.conftest import Proof


def test_neither_bytes_nor_delta_updates_grow_with_the_window() -> None:
    short, long = measured(60, 16), measured(3600, 16)
    assert long.full_bytes > 20 * short.full_bytes
    assert long.written < 1.1 * short.written
    assert long.delta_bytes < 1.1 * short.delta_bytes


def test_a_step_writes_its_segments_its_playlists_a_state_and_a_page_now_and_then() -> None:
    renditions, steps_of_a_page = 5, 16
    assert measured(60, 16).puts == 2 * renditions + 1 + 1 / steps_of_a_page


@pytest.mark.prove
def test_a_step_in_a_window_of_twelve_hours_costs_little_more_than_in_one_of_a_minute(
    proof: Proof,
) -> None:
    pairs = [(measured(60, 100), measured(43_200, 100)) for _ in range(2)]
    growth = min((long.step + long.viewers) / (short.step + short.viewers) for short, long in pairs)
    proof("CPU of a step at 12 h / at 1 min", f"{growth:.2f}", f"<= {MOST_GROWTH}")
    assert growth <= MOST_GROWTH
