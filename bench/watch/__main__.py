"""The command `python -m bench.watch`: CPU and memory of a watch engine with two encoders.

Ten minutes of each clip of `bench.ladder` at 1080p30 and 6 Mbit/s are watched by their sound, and
by sound and pictures. The status is 0 if the targets are met, 1 if one is missed.
"""

import argparse
import asyncio
import sys
from typing import Final

from bench.ladder.clips import add_options, chosen, make
from bench.watch.measure import WatchCost, watched
from bench.watch.two_encoders import CLIP_SECONDS, SentMedia

# CPU of the engine and of the service beside it, in ms a second, without and with pictures.
MOST_CPU_MS: Final = {False: 10.0, True: 25.0}


def main() -> int:
    """Measure, print a table, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.watch", description=__doc__)
    parser.add_argument("--minutes", type=int, default=10, help="of each clip")
    add_options(parser)
    options = parser.parse_args()
    print(
        "| clip, compared by | engine, ms of CPU per s | service | start | offset after; wrong by"
        " | memory: at most, at the end, of its own |"
    )
    print("|---|---|---|---|---|---|")
    met = True
    for clip in chosen(options.clips):
        path = make(clip, CLIP_SECONDS, options.folder)
        encoders = [SentMedia(number, path, 60 * options.minutes) for number in (0, 1)]
        for judges, most in MOST_CPU_MS.items():
            cost = asyncio.run(watched(encoders, judges=judges))
            met = met and cost.engine_ms + cost.service_ms <= most
            print(_row(f"{clip.name}, {'pictures too' if judges else 'sound'}", cost), flush=True)
    print("within the targets" if met else "a target is missed")
    return 0 if met else 1


def _row(name: str, cost: WatchCost) -> str:
    found = "never" if cost.found_after is None else f"{cost.found_after} s; {cost.wrong_ms:.0f} ms"
    return (
        f"| {name} | {cost.engine_ms:.2f} | {cost.service_ms:.2f} | {cost.start_ms:.0f} ms"
        f" | {found} | {cost.peak_mb:.0f}, {cost.memory_mb:.0f}, {cost.own_mb:.0f} MB |"
    )


if __name__ == "__main__":
    sys.exit(main())
