"""The figures of a watched period, and the targets that they miss."""

import pytest

from bench.latency.report import LatencyFigures, LatencyTarget, figures, missed, row
from bench.latency.viewer import Frame, Presented


def _watched(latencies: list[float], **changes: float) -> Presented:
    frames = [
        Frame(at=1000.0 + 100 * number, latency=1000 * latency, rate=1.0, height=720)
        for number, latency in enumerate(latencies)
    ]
    return Presented(frames=frames, stalls=[1500.0], longest=250, unread=2, errors=[], **changes)


def _figures() -> LatencyFigures:
    return figures(_watched([9.0] * 10 + [float(number) for number in range(1, 101)]), 1, 0.25, 0.1)


def test_the_first_seconds_are_not_measured() -> None:
    report = _figures()
    assert report.frames == 100
    assert report.median == 50.5
    assert report.p95 == 96
    assert report.most == 100
    assert (report.stalls, report.unread, report.longest) == (1, 2, 0.25)


def test_a_period_without_frames_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no frames to measure: 3"):
        figures(_watched([1.0] * 3), 10, 0.1, 0.1)
    with pytest.raises(ValueError, match="no frames to measure: 0"):
        figures(_watched([]), 10, 0.1, 0.1)


def test_renditions_are_listed_by_their_share() -> None:
    watched = _watched([1.0] * 5)
    watched.frames[:2] = [Frame(1000, 1000, 1.04, 360), Frame(1100, 1000, 1.0, 360)]
    report = figures(watched, 0, 0.1, 0.1)
    assert report.heights == [720, 360]
    assert report.rates == (1.0, 1.04)
    assert "| 1.00 to 1.04 | 720p, 360p |" in row("a", report, None)


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        (None, []),
        (LatencyTarget(50.5, 96, 1), []),
        (LatencyTarget(50.4), ["a: median 50.50 s, more than 50.4 s"]),
        (LatencyTarget(60, 95), ["a: p95 96.00 s, more than 95.0 s"]),
        (LatencyTarget(60, None, 0), ["a: 1 stalls, more than 0"]),
    ],
)
def test_each_missed_target_is_named(target: LatencyTarget | None, wrong: list[str]) -> None:
    assert missed([("a", _figures(), target)]) == wrong


def test_a_row_has_the_figures_and_the_target() -> None:
    line = row("a", _figures(), LatencyTarget(2.0, 2.5, 0))
    assert line.startswith("| a | 50.50 s | 96.00 s | 100.00 s | 1 | 0.25 s | 1.00 | 720p |")
    assert line.endswith("| 0.10 s | 0.25 s | <= 2.0 s, p95 <= 2.5 s, 0 stalls |")
