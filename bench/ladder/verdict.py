"""Tables and a verdict over runs.

Of several rounds the lowest CPU time counts, because other load can only add to it. Memory is the
highest peak of all rounds.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from bench.ladder.runs import RUNGS, Run

MOST_CPU: Final = 0.65  # of the ffmpeg command's
MOST_PEAK: Final = 0.80
MOST_EQUAL: Final = 0.92  # of ffmpeg's CPU at the engine's own settings
WORST_VMAF: Final = -0.5  # points against the ffmpeg command, on any rung


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One clip: the runs of each contender, and VMAF and kbit/s by rung of ours and ffmpeg's."""

    clip: str
    ours: Sequence[Run]
    ffmpeg: Sequence[Run]
    equal: Sequence[Run]
    vmaf: tuple[dict[str, float], dict[str, float]]
    rates: tuple[dict[str, float], dict[str, float]]

    @property
    def cpu(self) -> float:
        """Our CPU time relative to ffmpeg's."""
        return _cpu(self.ours) / _cpu(self.ffmpeg)

    @property
    def cpu_equal(self) -> float:
        """Our CPU time relative to ffmpeg's with the command's preset and scaler."""
        return _cpu(self.equal) / _cpu(self.ffmpeg)

    @property
    def peak(self) -> float:
        """The peak memory of our engine relative to ffmpeg's."""
        return _peak(self.ours) / _peak(self.ffmpeg)

    @property
    def gains(self) -> dict[str, float]:
        """Our VMAF minus ffmpeg's, by rendition."""
        ours, ffmpeg = self.vmaf
        return {name: ours[name] - ffmpeg[name] for name in ours}


def _cpu(runs: Sequence[Run]) -> float:
    return min(each.cpu for each in runs)


def _peak(runs: Sequence[Run]) -> float:
    return max(each.peak for each in runs)


def table(results: Sequence[Result]) -> str:
    """Return two tables in Markdown: cost and quality."""
    lines = [
        "| clip | CPU s: ours (of it the parent) / ffmpeg | ratio | ours at its preset | ratio "
        "| peak MiB: ours / ffmpeg | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        feeding = min(run.feeding for run in result.ours)
        lines.append(
            f"| {result.clip} "
            f"| {_cpu(result.ours):.2f} ({feeding:.2f}) / {_cpu(result.ffmpeg):.2f} "
            f"| {result.cpu:.2f} | {_cpu(result.equal):.2f} | {result.cpu_equal:.2f} "
            f"| {_peak(result.ours):.0f} / {_peak(result.ffmpeg):.0f} | {result.peak:.2f} |"
        )
    lines += [
        "",
        "| clip | rung | VMAF: ours / ffmpeg | difference | kbit/s: ours / ffmpeg |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        for name, *_ in RUNGS:
            vmaf, rates = [[by[name] for by in pair] for pair in (result.vmaf, result.rates)]
            lines.append(
                f"| {result.clip} | {name} | {vmaf[0]:.2f} / {vmaf[1]:.2f} "
                f"| {vmaf[0] - vmaf[1]:+.2f} | {rates[0]:.0f} / {rates[1]:.0f} |"
            )
    return "\n".join(lines)


def missed(results: Sequence[Result]) -> list[str]:
    """Return the targets that were missed, as sentences."""
    sentences: list[str] = []
    for result in results:
        for figure, ratio, most in (
            ("CPU", result.cpu, MOST_CPU),
            ("CPU at equal preset", result.cpu_equal, MOST_EQUAL),
            ("memory at its peak", result.peak, MOST_PEAK),
        ):
            if ratio > most:
                sentences.append(
                    f"{result.clip}: {figure} is {ratio:.3f} of ffmpeg's, above {most:.2f}"
                )
        for name, gain in result.gains.items():
            if gain < WORST_VMAF:
                sentences.append(f"{result.clip}: {name} is {-gain:.2f} VMAF below ffmpeg's")
    return sentences
