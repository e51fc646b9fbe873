"""What was watched, as a table, and the targets that it missed."""

import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from bench.latency.viewer import Presented


class LatencyTarget(msgspec.Struct, frozen=True):
    """The target latency in seconds; `stalls` is None if they are only counted."""

    median: float
    p95: float | None = None
    stalls: int | None = None


class LatencyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One measured period.

    Latencies and times are seconds. `stalls` counts the times at which a playing video had to wait
    since its first frame, those before the measured period too; `rates` are the lowest and the
    highest playback rate, `heights` the renditions' heights in the order of their share of frames.
    """

    median: float
    p95: float
    most: float
    frames: int
    unread: int
    stalls: int
    longest: float
    rates: tuple[float, float]
    heights: list[int]
    start: float
    cpu: float
    encoder: float


HEADINGS: Final = (
    "| watched | median | p95 | most | stalls | longest frame | rate | renditions | first frame "
    "after | encoder's delay | server's CPU per s | target |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def figures(watched: Presented, settle: float, cpu: float, encoder: float) -> LatencyFigures:
    """Return the figures of what was presented, without its first `settle` seconds.

    `cpu` is the server's CPU seconds for a second of the measured period, `encoder` the median of
    the seconds from drawing a picture to sending it.

    Raises:
        ValueError: fewer than two frames are left.
    """
    since = watched.frames[0].at + settle * 1000 if watched.frames else 0
    frames = [frame for frame in watched.frames if frame.at >= since]
    if len(frames) < 2:
        raise ValueError(f"no frames to measure: {len(watched.frames)} presented")
    latencies = sorted(frame.latency / 1000 for frame in frames)
    heights = [frame.height for frame in frames]
    return LatencyFigures(
        median=statistics.median(latencies),
        p95=latencies[len(latencies) * 95 // 100],
        most=latencies[-1],
        frames=len(frames),
        unread=watched.unread,
        stalls=len(watched.stalls),
        longest=watched.longest / 1000,
        rates=(min(frame.rate for frame in frames), max(frame.rate for frame in frames)),
        heights=sorted(set(heights), key=heights.count, reverse=True),
        start=watched.start,
        cpu=cpu,
        encoder=encoder,
    )


def row(name: str, measured: LatencyFigures, target: LatencyTarget | None) -> str:
    """Return a row of the table."""
    low, high = measured.rates
    rate = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    cells = [
        name,
        *(f"{value:.2f} s" for value in (measured.median, measured.p95, measured.most)),
        str(measured.stalls),
        f"{measured.longest:.2f} s",
        rate,
        ", ".join(f"{height}p" for height in measured.heights),
        f"{measured.start:.1f} s",
        f"{measured.encoder:.2f} s",
        f"{measured.cpu:.2f} s",
        _target_text(target),
    ]
    return f"| {' | '.join(cells)} |"


def _target_text(target: LatencyTarget | None) -> str:
    if target is None:
        return ""
    limits = [f"<= {target.median:.1f} s"]
    if target.p95 is not None:
        limits.append(f"p95 <= {target.p95:.1f} s")
    if target.stalls is not None:
        limits.append(f"{target.stalls} stalls")
    return ", ".join(limits)


def missed(results: Sequence[tuple[str, LatencyFigures, LatencyTarget | None]]) -> list[str]:
    """Return the targets that were missed, each as a sentence."""
    sentences: list[str] = []
    for name, measured, target in results:
        if target is None:
            continue
        if measured.median > target.median:
            sentences.append(
                f"{name}: median {measured.median:.2f} s, more than {target.median:.1f} s"
            )
        if target.p95 is not None and measured.p95 > target.p95:
            sentences.append(f"{name}: p95 {measured.p95:.2f} s, more than {target.p95:.1f} s")
        if target.stalls is not None and measured.stalls > target.stalls:
            sentences.append(f"{name}: {measured.stalls} stalls, more than {target.stalls}")
    return sentences
