"""The command `python -m bench.origin`: alternating rounds of both servers, one table, the targets.

The status is 0 if all targets are met, 1 if one is missed or a response is wrong, 2 if a tool is
missing.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.ingest.processes import NoAnswer
from bench.origin import parked
from bench.origin.load import KINDS, RequestKind, check, kinds, rounds_in_turn
from bench.origin.report import missed, table
from bench.origin.servers import nginx, ours
from bench.tools import ToolMissing, tool, verdict

Figures = dict[str, dict[str, list[float]]]


def main() -> int:
    """Run the command line, and return the exit status."""
    options = _options()
    try:
        if options.parked:
            return parked.report(options.parked)
        figures, compared = _measure(options)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    except NoAnswer as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n32 connections, {options.seconds} s each, {options.rounds} rounds in turn\n")
    print(table(figures, compared))
    return verdict(missed(figures, compared), "Every target that was measured is kept.")


def _measure(options: argparse.Namespace) -> tuple[Figures, list[RequestKind]]:
    tool("wrk", "wrk")
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        serving, without, published = stack.enter_context(ours(folder))
        servers = {"ours": serving}
        if options.asgi:
            servers["asgi"] = without
        if not options.only_ours:
            servers["nginx"] = stack.enter_context(nginx(folder / "nginx", published))
        compared = [kind for kind in kinds(published) if kind.name in (options.kinds or KINDS)]
        headers = {
            (server, kind.name): check(serving, kind, published)
            for server, serving in servers.items()
            for kind in compared
        }
        figures = rounds_in_turn(
            servers, compared, lambda server, kind: headers[server, kind.name], options
        )
        return figures, compared


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.origin", description=__doc__)
    parser.add_argument("--seconds", type=int, default=4, help="of each kind in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 1 s each")
    parser.add_argument("--only-ours", action="store_true", help="without nginx")
    parser.add_argument("--asgi", action="store_true", help="also ours without its fast path")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="only these")
    parser.add_argument(
        "--parked", type=int, metavar="COUNT", help="instead: so many blocking playlist requests"
    )
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 1, 3
    return options


if __name__ == "__main__":
    sys.exit(main())
