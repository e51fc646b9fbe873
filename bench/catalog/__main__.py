"""The command `python -m bench.catalog`: rounds of each way in turn, two tables.

The status is 0; there is no target.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import uvloop

from bench.catalog.measure import Figures, measure
from bench.catalog.ways import WAYS

_VIDEOS: Final = 20_000


def main() -> int:
    """Measure, print the tables, return the exit status."""
    options = _options()
    with (
        TemporaryDirectory(prefix="headend-bench-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        figures = runner.run(
            measure(
                Path(folder),
                videos=options.videos,
                rounds=options.rounds,
                times=options.times,
            )
        )
    print(f"{options.videos} videos, {options.rounds} rounds of {options.times} in turn\n")
    print(costs(figures))
    print()
    print(waits(figures))
    return 0


def costs(figures: Figures) -> str:
    """Return what a transaction costs, as a table in Markdown."""
    lines = [
        f"| CPU us of a transaction, how many a CPU-second, of headend's | {' | '.join(WAYS)} |",
        "|---" * (1 + len(WAYS)) + "|",
    ]
    for operation, ways in figures.cpu_us.items():
        cells = [_cost(ways[way], ways[WAYS[0]]) for way in WAYS]
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cost(values: Sequence[float], baseline: Sequence[float]) -> str:
    median = statistics.median(values)
    # A busy machine lengthens both values of a round.
    ratio = statistics.median(value / base for value, base in zip(values, baseline, strict=True))
    return f"{median:.0f}, {1e6 / median:.0f}, {ratio:.2f}"


def waits(figures: Figures) -> str:
    """Return what waited while some searched, as a table in Markdown."""
    lines = [
        "| beside searches | longest hold-up of the loop, ms | most CPU of its thread meanwhile, ms"
        " | longest wait of a reader, ms |",
        "|---|---|---|---|",
    ]
    for way in WAYS:
        values = (figures.hold_up_ms[way], figures.turn_cpu_ms[way], figures.wait_ms[way])
        lines.append(f"| {way} | {' | '.join(_spread(each, 1) for each in values)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float], digits: int) -> str:
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.catalog", description=__doc__)
    parser.add_argument("--videos", type=int, default=_VIDEOS)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--times", type=int, default=20, help="of each transaction in each round")
    parser.add_argument("--quick", action="store_true", help="one round")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    return options


if __name__ == "__main__":
    sys.exit(main())
