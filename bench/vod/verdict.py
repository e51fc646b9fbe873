"""Tables and a verdict over runs; of several rounds the one with the least CPU counts."""

from collections.abc import Sequence
from typing import Final

import msgspec

from bench.ladder.runs import RUNGS
from bench.vod.runs import VodRun

MOST_CPU: Final = 0.65  # of the ffmpeg command's
WORST_VMAF: Final = -0.5  # points against the ffmpeg command, on any rung
LEAST_CORES: Final = 0.9  # seconds of CPU in one of the clock, for each worker
LATEST_PLAY: Final = 0.10  # of the time to completion
_LEAST_LEFT: Final = 5.0  # seconds: below it, rounding to seconds matters


class VodResult(msgspec.Struct, frozen=True, kw_only=True):
    """One film: the runs, and VMAF and kbit/s by contender and rung; `workers` were used."""

    clip: str
    workers: int
    runs: dict[str, Sequence[VodRun]]
    vmaf: dict[str, dict[str, float]]
    rates: dict[str, dict[str, float]]

    @property
    def ours(self) -> VodRun:
        """Our run with the least CPU."""
        return self.best("ours")

    def best(self, contender: str) -> VodRun:
        """A contender's run with the least CPU."""
        return min(self.runs[contender], key=lambda each: each.cpu)

    @property
    def cpu(self) -> float:
        """Our CPU time relative to ffmpeg's."""
        return self.ours.cpu / self.best("ffmpeg").cpu

    @property
    def cores(self) -> float:
        """CPU seconds in a second of the clock, at our best."""
        return max(each.cpu / each.wall for each in self.runs["ours"])

    @property
    def play_share(self) -> float:
        """The time to the first play relative to that to completion, at our best."""
        return min(each.played / each.wall for each in self.runs["ours"])


def worst_eta(run: VodRun) -> float:
    """Return the worst relative error of the reported remaining time, in the second half."""
    worst = 0.0
    for at, percent, eta in run.looks:
        remaining = run.wall - at
        if 50 <= percent < 100 and remaining >= _LEAST_LEFT:
            worst = max(worst, abs(eta - remaining) / remaining)
    return worst


def table(results: Sequence[VodResult]) -> str:
    """Return tables in Markdown: the cost, and the quality and bit rate."""
    lines = [
        "| film | CPU s: ours / ffmpeg | ratio | CPU per s of the clock | first plays / complete "
        "| share | worst ETA |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        lines.append(
            f"| {result.clip} | {result.ours.cpu:.1f} / {result.best('ffmpeg').cpu:.1f} "
            f"| {result.cpu:.2f} | {result.cores:.2f} of {result.workers} "
            f"| {result.ours.played:.1f} / {result.ours.wall:.1f} "
            f"| {result.play_share:.3f} | {min(map(worst_eta, result.runs['ours'])):.0%} |"
        )
    lines += [
        "",
        "| film | rung | VMAF: ours / ffmpeg / fixed | against ffmpeg "
        "| kbit/s: ours / ffmpeg / fixed | bits saved against fixed |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        for name, *_ in RUNGS:
            scores = [result.vmaf[contender][name] for contender in result.vmaf]
            rates = [result.rates[contender][name] for contender in result.rates]
            lines.append(
                f"| {result.clip} | {name} | {' / '.join(f'{score:.2f}' for score in scores)} "
                f"| {scores[0] - scores[1]:+.2f} | {' / '.join(f'{rate:.0f}' for rate in rates)} "
                f"| {1 - rates[0] / rates[-1]:.0%} |"
            )
    return "\n".join(lines)


def missed_targets(results: Sequence[VodResult]) -> list[str]:
    """Return the missed targets as sentences."""
    sentences: list[str] = []
    for result in results:
        least = LEAST_CORES * result.workers
        if result.cpu > MOST_CPU:
            sentences.append(
                f"{result.clip}: CPU is {result.cpu:.3f} of ffmpeg's, above {MOST_CPU:.2f}"
            )
        if result.cores < least:
            sentences.append(
                f"{result.clip}: {result.cores:.2f} cores were used, below {least:.1f}"
            )
        if result.play_share > LATEST_PLAY:
            sentences.append(f"{result.clip}: it played after {result.play_share:.0%} of the time")
        for name, *_ in RUNGS:
            gain = result.vmaf["ours"][name] - result.vmaf["ffmpeg"][name]
            if gain < WORST_VMAF:
                sentences.append(f"{result.clip}: {name} is {-gain:.2f} VMAF below ffmpeg's")
    return sentences
