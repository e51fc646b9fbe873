"""The history of one track's packets: its bounds, and the drift of arrivals."""

import pytest

from ingest.report.packet_window import DRIFT_SECONDS, PacketHistory

NONE = PacketHistory()
KEPT = 4096  # packets


def filled(packets: int, *, every: float = 0.01, speed: float = 1.0) -> PacketHistory:
    """Return a history of packets that arrive on time, by a clock that runs at `speed`."""
    history = PacketHistory()
    for number in range(packets):
        now = number * every
        history.append(now, round(1000 * now * speed), 0, 2 * number, NONE)
    return history


def test_a_window_holds_the_packets_from_a_moment_on_column_by_column() -> None:
    other = PacketHistory()
    other.append(0.0, 900, 0, 0, NONE)
    history = PacketHistory()
    history.append(1.0, 1000, 40, 2 * 500 + 1, NONE)
    history.append(2.0, 2000, 0, 2 * 100, other)
    assert history.newest == 2000
    whole, newest = history.window_since(0.0), history.window_since(1.5)
    assert (len(whole), whole.arrivals, whole.stamps) == (2, [1.0, 2.0], [1000, 2000])
    assert (whole.offsets, whole.sizes, whole.distances) == ([40, 0], [1001, 200], [0, 1100])
    assert (len(newest), newest.stamps, newest.distances) == (1, [2000], [1100])


@pytest.mark.parametrize("packets", [KEPT - 1, KEPT, KEPT + 1, 3 * KEPT + 7])
def test_the_newest_packets_are_kept_in_order(packets: int) -> None:
    history = filled(packets)
    window = history.window_since(0.0)
    first = max(0, packets - KEPT)
    assert window.sizes == [2 * number for number in range(first, packets)]
    assert window.arrivals == sorted(window.arrivals)
    assert history.complete_since == (0.0 if packets < KEPT else pytest.approx(first * 0.01))


@pytest.mark.parametrize(("speed", "ppm"), [(1.0, 0), (1.0005, 500), (0.9998, -200)])
def test_drift_is_how_much_faster_the_encoders_clock_runs(speed: float, ppm: int) -> None:
    drift, seconds = filled(30_000, speed=speed).drift()
    assert drift == pytest.approx(ppm, abs=15)
    assert seconds == pytest.approx(298, abs=3)


def test_a_short_time_shows_no_drift() -> None:
    drift, seconds = filled(1000).drift()
    assert drift is None
    assert 0 < seconds < DRIFT_SECONDS


def test_a_cleared_history_is_as_new() -> None:
    history = filled(100)
    history.clear()
    assert (history.count, len(history.window_since(0.0)), history.drift()) == (0, 0, (None, 0.0))
