"""The command `python -m bench.overload`: what each of a growing number of streams delivers.

For each number of streams a fresh service gets live 1080p30 publishers of 6 Mbit/s with the whole
ladder on. After `--seconds` it prints, for each stream, the rungs that are made, the lag behind the
publisher (the most, and at the end), and the packets dropped. The status is 1 if a stream dropped
packets, lost the rung of its source's own packets, or lags at the end.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.ingest.clip import make_clip
from bench.ingest.publishers import looping
from bench.service import bench_service, metrics
from bench.tools import verdict
from tests.support.e2e.service import ServiceProcess

_SAMPLE_SECONDS: Final = 1.0
_MAX_LAG_AT_END: Final = 3.0


class StreamResult(msgspec.Struct):
    """What one stream delivered."""

    made: dict[str, bool]
    max_lag: float = 0.0
    lag: float = 0.0
    dropped: int = 0
    sheds: int = 0

    @property
    def faults(self) -> list[str]:
        """What the stream failed to deliver."""
        wrong: list[str] = []
        if self.dropped:
            wrong.append(f"{self.dropped} packets dropped")
        if not self.made.get("1080p"):
            wrong.append("the source's own rung is gone")
        if self.lag > _MAX_LAG_AT_END:
            wrong.append(f"{self.lag:.1f} s late at the end")
        return wrong


def _measure(clip: Path, streams: int, seconds: float) -> list[StreamResult]:
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        running = stack.enter_context(bench_service(Path(name)))
        added = [running.add_stream(f"Stream {number}") for number in range(streams)]
        for each in added:
            stack.enter_context(looping(clip, f"{running.server}/{each['stream']}"))
        results = {str(each["hash"]): StreamResult({}) for each in added}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(_SAMPLE_SECONDS)
            _sample(running, results)
        return list(results.values())


def _sample(running: ServiceProcess, results: dict[str, StreamResult]) -> None:
    figures = metrics(running)
    for hash_, result in results.items():
        result.lag = figures.get(("headend_run_lag_seconds", hash_, ""), 0.0)
        result.max_lag = max(result.max_lag, result.lag)
        result.dropped = int(figures.get(("headend_run_dropped_packets_total", hash_, ""), 0))
        result.sheds = int(figures.get(("headend_run_rungs_shed_total", hash_, ""), 0))
        result.made = {
            rung: value == 1
            for (name, stream, rung), value in figures.items()
            if name == "headend_rung_made" and stream == hash_
        }


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each number: 60")
    options = parser.parse_args()
    faults: list[str] = []
    print(f"{os.cpu_count()} cores; live 1080p30 publishers of 6 Mbit/s, {options.seconds:g} s\n")
    print("| streams | stream | made at the end | sheds | most late | late at the end | dropped |")
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory(prefix="headend-bench-") as name:
        clip = make_clip(Path(name), 20)
        for streams in options.streams:
            for number, result in enumerate(_measure(clip.path, streams, options.seconds), 1):
                made = " ".join(rung for rung, on in result.made.items() if on) or "nothing"
                print(
                    f"| {streams} | {number} | {made} | {result.sheds} | {result.max_lag:.1f} s "
                    f"| {result.lag:.1f} s | {result.dropped} |",
                    flush=True,
                )
                faults += [
                    f"{streams} streams, number {number}: {fault}" for fault in result.faults
                ]
    return verdict(faults, "Every stream kept up, and nothing was dropped.")


if __name__ == "__main__":
    sys.exit(main())
