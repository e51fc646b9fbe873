"""The command `python -m bench.vod`: transcodes films by each contender and prints two tables.

The status is 0 if all targets are met, 1 if one is missed, 2 if a tool is missing.
"""

import argparse
import os
import shutil
import sys
from typing import Final

from bench.ladder.clips import Clip, add_options, chosen
from bench.ladder.quality import vmaf
from bench.ladder.runs import RUNGS, in_turn
from bench.tools import verdict
from bench.vod.runs import CONTENDERS, VodRun, file_of, film, run
from bench.vod.verdict import VodResult, missed_targets, table

_QUICK_SECONDS: Final = 45
# VMAF compares every 25th frame: a film repeats its clip, so five minutes need no more than one.
_EVERY: Final = 25


def main() -> int:
    """Run the command line, and return the exit status."""
    options = _options()
    if shutil.which("ffmpeg") is None:
        print("ffmpeg is missing: apt-get install ffmpeg", file=sys.stderr)
        return 2
    results = [_result(clip, options) for clip in chosen(options.clips)]
    print(f"\n{options.seconds} s of 1080p30, {options.workers} workers, {options.rounds} rounds\n")
    print(table(results))
    return verdict(missed_targets(results), "Every target is met.")


def _result(clip: Clip, options: argparse.Namespace) -> VodResult:
    path = film(clip, options.seconds, options.folder)
    runs: dict[str, list[VodRun]] = {name: [] for name in CONTENDERS}
    places = {name: options.folder / f"{clip.name}-{name}" for name in CONTENDERS}
    for number in range(options.rounds):
        for name in in_turn(CONTENDERS, number):
            if name == "fixed" and number:
                continue  # only its quality matters, which is the same each time
            result = run(name, path, places[name], options.workers)
            runs[name].append(result)
            print(
                f"{clip.name}, round {number + 1}: {name} {result.cpu:.1f} s of CPU"
                f" in {result.wall:.1f} s, played after {result.played:.1f} s",
                flush=True,
            )
    files = {
        name: {rung: file_of(name, rung, places[name]) for rung, *_ in RUNGS} for name in CONTENDERS
    }
    scores = {name: vmaf(path, files[name], places[name], every=_EVERY) for name in CONTENDERS}
    rates = {
        name: {
            rung: file.stat().st_size * 8 / 1000 / options.seconds
            for rung, file in files[name].items()
        }
        for name in CONTENDERS
    }
    for place in places.values():
        shutil.rmtree(place)
    return VodResult(
        clip=clip.name, workers=options.workers, runs=dict(runs), vmaf=scores, rates=rates
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.vod", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long each film is")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help=f"films of {_QUICK_SECONDS} s")
    options = parser.parse_args()
    if options.quick:
        options.seconds = _QUICK_SECONDS
    return options


if __name__ == "__main__":
    sys.exit(main())
