"""The command `python -m bench.window`: what a step costs at windows of a minute, an hour and 12 h.

Each window is measured in a process of its own, in a run of five renditions with low latency, 2 s
segments and parts of half a second. The status is 0 if the targets are met, 1 if one is missed.
"""

import argparse
import subprocess
import sys
from typing import Final

import msgspec

from bench.window.measure import WindowFigures

WINDOWS: Final = {"1 min": 60, "1 h": 3600, "12 h": 43_200}
# A step at 12 h costs at most so many times one at a minute: processors' caches matter.
MOST_GROWTH: Final = 1.5
_TIMEOUT: Final = 300.0


def main() -> int:
    """Measure, print a table, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.window", description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="measured at each window")
    options = parser.parse_args()
    windows = {name: measured(seconds, options.steps) for name, seconds in WINDOWS.items()}
    print(
        "| window | run, ms per step | viewers, ms per step | objects, bytes per step"
        " | resume | memory |"
    )
    print("|---|---|---|---|---|---|")
    for name, figures in windows.items():
        print(
            f"| {name} | {figures.step:.2f} | {figures.viewers:.2f}"
            f" | {figures.puts:.2f}, {figures.written:.0f}"
            f" | {figures.resume:.2f} s, CPU {figures.resume_cpu:.2f} s"
            f" | {figures.memory_mb:.0f} MB |"
        )
    print()
    print("| window | delta update, gzipped | whole playlist, gzipped | its first answer |")
    print("|---|---|---|---|")
    for name, figures in windows.items():
        print(
            f"| {name} | {figures.delta_bytes} B | {figures.full_bytes} B, {figures.full_gzipped} B"
            f" | {figures.full:.2f} ms |"
        )
    short, long = windows["1 min"], windows["12 h"]
    flat = all(
        now <= MOST_GROWTH * before
        for before, now in (
            (short.step, long.step),
            (short.viewers, long.viewers),
            (short.written, long.written),
        )
    )
    print("flat" if flat else f"not flat: 12 h costs more than {MOST_GROWTH} times a minute")
    return 0 if flat else 1


def measured(seconds: int, steps: int) -> WindowFigures:
    """Return the figures of a window, measured in another process."""
    command = [sys.executable, "-m", "bench.window.measure", str(seconds), str(steps)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=_TIMEOUT)
    return msgspec.json.decode(process.stdout, type=WindowFigures)


if __name__ == "__main__":
    sys.exit(main())
