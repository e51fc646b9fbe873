"""The command `python -m bench.ingest`: rounds of all servers in turn, one table, the targets.

The status is 0 if all targets are met, 1 if one is missed or a server lost data, 2 if a tool is
missing.
"""

import argparse
import datetime
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from bench.ingest.clip import make_clip
from bench.ingest.core import core_table
from bench.ingest.measure import (
    MARGIN_SECONDS,
    IngestLoad,
    MeasurementFailed,
    Overloaded,
    RoundCost,
    measure,
)
from bench.ingest.report import missed, table
from bench.ingest.servers import SERVERS, BenchServer, TlsFiles
from bench.tools import ToolMissing, verdict
from headend.install.certificates import ensure_local_certificates

RETRIES = 2
COMPARED = ("ours", "nginx", "nms", "pyrtmp")


def main() -> int:
    """Run the bench with the options of the command line and return the exit status."""
    options = _options()
    # SIGTERM too lets every context manager clean up.
    signal.signal(signal.SIGTERM, _end)
    if options.core:
        print(core_table())
        return 0
    servers = [SERVERS[name] for name in options.only or COMPARED]
    try:
        for server in servers:
            server.prepare(options.tls)
        runs = _rounds(servers, options)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    except MeasurementFailed as error:
        print(error, file=sys.stderr)
        return 1
    scheme = "RTMPS" if options.tls else "RTMP"
    print(
        f"\n{options.publishers} live publishers over {scheme}, {options.seconds:g} s, "
        f"{options.rounds} rounds in turn; 1080p30, 6 Mbit/s, AAC 160 kbit/s\n"
    )
    print(table(runs, {server.name: server.about for server in servers}))
    return verdict(missed(runs), "Every target that was measured is kept.")


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _rounds(
    servers: Sequence[BenchServer], options: argparse.Namespace
) -> dict[str, list[RoundCost]]:
    runs: dict[str, list[RoundCost]] = {server.name: [] for server in servers}
    with TemporaryDirectory(prefix="headend-bench-") as name:
        folder = Path(name)
        clip = make_clip(folder, round(options.seconds) + MARGIN_SECONDS)
        load = IngestLoad(clip, options.publishers, options.seconds)
        now = datetime.datetime.now(datetime.UTC)
        files = ensure_local_certificates(folder / "tls", ["localhost", "127.0.0.1"], now)
        tls = TlsFiles(files.leaf, files.leaf_key) if options.tls else None
        for number in range(options.rounds):
            # Each round begins with another server, so that none always follows the same one.
            first = number % len(servers)
            for server in (*servers[first:], *servers[:first]):
                figures = _once(server, load, tls)
                runs[server.name].append(figures)
                print(
                    f"round {number + 1}: {server.name} {figures.cost:.2f} ms/s, "
                    f"{figures.peak_bytes / 1e6:.0f} MB, {figures.growth_bytes / 1e6:+.1f} MB",
                    flush=True,
                )
    return runs


def _once(server: BenchServer, load: IngestLoad, tls: TlsFiles | None) -> RoundCost:
    """Measure, and repeat if other load disturbed the measurement."""
    for _ in range(RETRIES):
        try:
            return measure(server, load, tls)
        except Overloaded as error:
            print(f"{server.name}: {error}; once more", flush=True)
    return measure(server, load, tls)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("--publishers", type=int, help="8")
    parser.add_argument("--seconds", type=float, help="the stretch that is measured: 30")
    parser.add_argument("--rounds", type=int, help="5")
    parser.add_argument("--tls", action="store_true", help="RTMPS in place of RTMP")
    parser.add_argument("--quick", action="store_true", help="1 round, 10 s, 4 publishers")
    servers, compared = ", ".join(SERVERS), ", ".join(COMPARED)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SERVERS,
        metavar="SERVER",
        help=f"of {servers}; without it {compared}",
    )
    parser.add_argument("--core", action="store_true", help="only decoding, in ms per MB")
    options = parser.parse_args()
    options.publishers = options.publishers or (4 if options.quick else 8)
    options.seconds = options.seconds or (10 if options.quick else 30)
    options.rounds = options.rounds or (1 if options.quick else 5)
    return options


if __name__ == "__main__":
    sys.exit(main())
