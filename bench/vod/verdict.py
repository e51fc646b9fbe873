"""From runs to tables and a verdict. Of several rounds the least CPU counts."""

from collections.abc import Sequence
from typing import Final

import msgspec

from bench.ladder.runs import RUNGS
from bench.vod.runs import Run

__all__ = ["Result", "missed", "table", "worst_eta"]

MOST_CPU: Final = 0.65  # of the ffmpeg command's
WORST_VMAF: Final = -0.5  # points against the ffmpeg command, on any rung
LEAST_CORES: Final = 0.9  # seconds of CPU in one of the clock, for each worker
LATEST_PLAY: Final = 0.10  # of the time that all of it takes
WORST_ETA: Final = 0.30  # of what was left, from the middle on
_LEAST_LEFT: Final = 5.0  # seconds: below it a rounded second is a large part


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One film: the runs, and VMAF and kbit/s by contender and rung; `workers` were at work."""

    clip: str
    workers: int
    runs: dict[str, Sequence[Run]]
    vmaf: dict[str, dict[str, float]]
    rates: dict[str, dict[str, float]]

    @property
    def ours(self) -> Run:
        """Our run with the least CPU."""
        return self.best("ours")

    def best(self, contender: str) -> Run:
        """A contender's run with the least CPU."""
        return min(self.runs[contender], key=lambda each: each.cpu)

    @property
    def cpu(self) -> float:
        """Our CPU by ffmpeg's."""
        return self.ours.cpu / self.best("ffmpeg").cpu

    @property
    def cores(self) -> float:
        """Seconds of CPU in one of the clock, at our best."""
        return max(each.cpu / each.wall for each in self.runs["ours"])

    @property
    def early(self) -> float:
        """When it first played, by when it was complete, at our best."""
        return min(each.played / each.wall for each in self.runs["ours"])


def worst_eta(run: Run) -> float:
    """Return how far the time that was said to be left was off, at worst, from the middle on."""
    worst = 0.0
    for at, percent, eta in run.looks:
        left = run.wall - at
        if 50 <= percent < 100 and left >= _LEAST_LEFT:
            worst = max(worst, abs(eta - left) / left)
    return worst


def table(results: Sequence[Result]) -> str:
    """Return tables in Markdown: what it costs, and how it looks at what rate."""
    lines = [
        "| film | CPU s: ours / ffmpeg | ratio | CPU per s of the clock | first plays / complete "
        "| share | worst ETA |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in results:
        lines.append(
            f"| {each.clip} | {each.ours.cpu:.1f} / {each.best('ffmpeg').cpu:.1f} | {each.cpu:.2f} "
            f"| {each.cores:.2f} of {each.workers} | {each.ours.played:.1f} / {each.ours.wall:.1f} "
            f"| {each.early:.3f} | {min(map(worst_eta, each.runs['ours'])):.0%} |"
        )
    lines += [
        "",
        "| film | rung | VMAF: ours / ffmpeg / fixed | against ffmpeg "
        "| kbit/s: ours / ffmpeg / fixed | bits saved against fixed |",
        "|---|---|---|---|---|---|",
    ]
    for each in results:
        for name, *_ in RUNGS:
            looks = [each.vmaf[contender][name] for contender in each.vmaf]
            rates = [each.rates[contender][name] for contender in each.rates]
            lines.append(
                f"| {each.clip} | {name} | {' / '.join(f'{look:.2f}' for look in looks)} "
                f"| {looks[0] - looks[1]:+.2f} | {' / '.join(f'{rate:.0f}' for rate in rates)} "
                f"| {1 - rates[0] / rates[-1]:.0%} |"
            )
    return "\n".join(lines)


def missed(results: Sequence[Result]) -> list[str]:
    """Return the targets that were missed, as sentences."""
    found: list[str] = []
    for each in results:
        least = LEAST_CORES * each.workers
        if each.cpu > MOST_CPU:
            found.append(f"{each.clip}: CPU is {each.cpu:.3f} of ffmpeg's, above {MOST_CPU:.2f}")
        if each.cores < least:
            found.append(f"{each.clip}: {each.cores:.2f} cores were used, below {least:.1f}")
        if each.early > LATEST_PLAY:
            found.append(f"{each.clip}: it played after {each.early:.0%} of the time")
        for name, *_ in RUNGS:
            gain = each.vmaf["ours"][name] - each.vmaf["ffmpeg"][name]
            if gain < WORST_VMAF:
                found.append(f"{each.clip}: {name} is {-gain:.2f} VMAF below ffmpeg's")
    return found
