"""What it costs a host to relay encoders to the owner of their streams, and the owner to get them.

python -m bench.relay [--streams 20] [--seconds 20] [--rounds 3]

The same encoders send to a host that owns their streams, and to one that relays them over TLS to an
owner in another process. See docs/benches-hosts.md.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.ingest.processes import Child, child, cpu_ns

TARGET_MS: Final = 2.0  # of CPU for each second of a stream, at the relaying host
_SETTLE_SECONDS: Final = 4.0  # rings and buffers fill
_WAIT_SECONDS: Final = 60.0
WHERE: Final = ("nowhere", "here", "relayed")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one run cost, in ms of CPU for each second of a stream, and its packets.

    `host` is the process with the encoders, and makes their packets; `owner` is another process.
    """

    host: float
    owner: float
    sent: int
    taken: int


@contextmanager
def _running(folder: Path, *arguments: str) -> Generator[Child, None, None]:
    command = [sys.executable, "-m", "bench.relay.host", *arguments]
    with child(command, folder / f"{arguments[0]}.log") as running:
        yield running


def measure(
    where: str, *, streams: int, bits: int, seconds: float, read_seconds: float, settle: float
) -> Cost:
    """Return what streams cost whose encoders send to `where` (see `bench.relay.host`)."""
    with (
        TemporaryDirectory(prefix="headend-bench-") as name,
        _running(Path(name), "owner") as owner,
    ):
        port = owner.wait("listening", _WAIT_SECONDS)["port"]
        options = (where, str(streams), str(bits), str(read_seconds), str(port))
        with _running(Path(name), *options) as host:
            host.wait("sending", _WAIT_SECONDS)
            time.sleep(settle)
            pids = host.process.pid, owner.process.pid
            began, before = time.monotonic(), [cpu_ns(pid) for pid in pids]
            time.sleep(seconds)
            spent = [cpu_ns(pid) - start for pid, start in zip(pids, before, strict=True)]
            stream_seconds = streams * (time.monotonic() - began)
            host.process.terminate()
            sent = host.wait("closed", _WAIT_SECONDS)
            owner.process.terminate()
            taken = owner.wait("closed", _WAIT_SECONDS)["taken"]
    return Cost(
        host=spent[0] / 1e6 / stream_seconds,
        owner=spent[1] / 1e6 / stream_seconds,
        sent=sent["sent"],
        taken=taken if where == "relayed" else sent["taken"],
    )


def main() -> int:
    """Measure, print, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.relay")
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--kilobits", type=int, default=6000, help="a second, of each stream")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round that count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--read-seconds", type=float, default=0.05, help="between reads of the encoders"
    )
    options = parser.parse_args()
    costs: dict[str, list[Cost]] = {where: [] for where in WHERE}
    for _ in range(options.rounds):
        for where in WHERE:
            cost = measure(
                where,
                streams=options.streams,
                bits=options.kilobits * 1000,
                seconds=options.seconds,
                read_seconds=options.read_seconds,
                settle=_SETTLE_SECONDS,
            )
            costs[where].append(cost)
            print(f"  {where}: {cost}", file=sys.stderr)
            if where != "nowhere" and cost.taken != cost.sent:
                print(f"{where}: {cost.sent} packets were sent, {cost.taken} came into runs")
                return 1
    return _report(costs)


def _report(costs: dict[str, list[Cost]]) -> int:
    making = statistics.median(each.host for each in costs["nowhere"])
    idle = statistics.median(each.owner for each in costs["nowhere"])
    attached = [each.host - making for each in costs["here"]]
    host = [each.host - making for each in costs["relayed"]]
    owner = [each.owner - idle for each in costs["relayed"]]
    print("| | ms CPU per stream-second: median (least to most) | target |")
    print("|---|---|---|")
    print(f"| attached at the owner itself | {_figures(attached)} | |")
    print(f"| relayed: the relaying host | {_figures(host)} | <= {TARGET_MS:g} |")
    print(f"| relayed: the owner | {_figures(owner)} | |")
    ratio = (statistics.median(host) + statistics.median(owner)) / statistics.median(attached)
    print(f"relayed / attached: {ratio:.1f}; making packets: {making:.2f}")
    return 0 if statistics.median(host) <= TARGET_MS else 1


def _figures(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
