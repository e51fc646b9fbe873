"""The table of a run: medians, ratios, and the targets that Headend misses."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from bench.ingest.measure import RoundCost

# What Headend may cost at most, as a multiple of each peer.
TARGETS: Final = {"nginx": 2.5, "nms": 0.55, "pyrtmp": 1 / 6}
# What an allocator may retain; each stream passes 0.77 MB/s.
FLAT_BYTES: Final = 2 << 20

Runs = Mapping[str, Sequence[RoundCost]]


def cost(figures: Sequence[RoundCost]) -> float:
    return statistics.median(each.cost for each in figures)


def growth(figures: Sequence[RoundCost]) -> float:
    return statistics.median(each.growth_bytes for each in figures)


def table(runs: Runs, about: Mapping[str, str]) -> str:
    """Return the figures of each server as a table in Markdown."""
    lines = [
        "| server | ms CPU per stream-second: median (least to most) | ours / it | target "
        "| RSS at most | RSS growth |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in runs.items():
        costs = sorted(each.cost for each in figures)
        ratio = f"{cost(runs['ours']) / cost(figures):.2f}" if "ours" in runs else ""
        target = f"<= {TARGETS[name]:.2f}" if name in TARGETS else ""
        peak = max(each.peak_bytes for each in figures) / 1e6
        lines.append(
            f"| {about[name]} | {cost(figures):.2f} ({costs[0]:.2f} to {costs[-1]:.2f}) | {ratio} "
            f"| {target} | {peak:.0f} MB | {growth(figures) / 1e6:+.1f} MB |"
        )
    return "\n".join(lines)


def missed(runs: Runs) -> list[str]:
    """Return the targets that were missed, as sentences."""
    if "ours" not in runs:
        return []
    own_cost = cost(runs["ours"])
    sentences = [
        f"ours costs {own_cost / cost(runs[name]):.2f} of {name}, more than {most:.2f}"
        for name, most in TARGETS.items()
        if name in runs and own_cost > most * cost(runs[name])
    ]
    if (growth_bytes := growth(runs["ours"])) > FLAT_BYTES:
        sentences.append(f"the memory of ours grew by {growth_bytes / 1e6:.1f} MB during a stretch")
    return sentences
