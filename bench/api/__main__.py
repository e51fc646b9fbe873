"""The command `python -m bench.api`: alternating rounds of both servers, one table, the target.

The status is 0 if the target is met, 1 if it is missed or a response is wrong, 2 if a tool is
missing.
"""

import argparse
import asyncio
import json
import statistics
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.api.rows import VIDEOS, fill
from bench.ingest.processes import NoAnswer, child
from bench.origin.load import RequestKind, rounds_in_turn
from bench.origin.servers import ROOT, START_SECONDS, Broken, Serving
from bench.tools import ToolMissing, tool, verdict

# Headend's requests per CPU-second, relative to the handwritten server's.
LEAST: Final = 0.5
_SERVERS: Final = ("ours", "byhand")
_ANSWER_SECONDS: Final = 30.0

Figures = Mapping[str, Mapping[str, Sequence[float]]]


def main() -> int:
    """Run the command line, and return the exit status."""
    options = _options()
    try:
        figures = _measure(options)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    except NoAnswer as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{options.videos} videos, 32 connections, {options.rounds} rounds in turn\n")
    print(table(figures))
    return verdict(missed(figures), "The target is kept.")


def table(figures: Figures) -> str:
    """Return the figures as a table in Markdown."""
    lines = [
        "| requests per CPU-second | ours: median (least to most) | by hand: median (least to most)"
        " | ours / by hand | target |",
        "|---|---|---|---|---|",
    ]
    for page, values in figures["ours"].items():
        cells = [
            f"{statistics.median(each):.0f} ({min(each):.0f} to {max(each):.0f})"
            for each in (values, figures["byhand"][page])
        ]
        lines.append(f"| {page} | {' | '.join(cells)} | {_ratio(figures, page):.2f} | >= {LEAST} |")
    return "\n".join(lines)


def missed(figures: Figures) -> list[str]:
    """Return the targets that were missed, as sentences."""
    ratios = {page: _ratio(figures, page) for page in figures["ours"]}
    return [
        f"{page}: {ratio:.2f} of what it is by hand, less than {LEAST}"
        for page, ratio in ratios.items()
        if ratio < LEAST
    ]


def _ratio(figures: Figures, page: str) -> float:
    ours, by_hand = (statistics.median(figures[name][page]) for name in _SERVERS)
    return ours / by_hand


def _measure(options: argparse.Namespace) -> Figures:
    tool("wrk", "wrk")
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        location = Path(name) / "catalog.sqlite"
        project, token = asyncio.run(fill(location, options.videos))
        headers = {"Authorization": f"Bearer {token}"}
        servers = {server: stack.enter_context(_server(server, location)) for server in _SERVERS}
        kinds = [
            RequestKind("the first page", f"api/projects/{project}/videos"),
            RequestKind("the hundredth page", f"api/projects/{project}/videos?page=100"),
        ]
        for kind in kinds:
            _compare(servers, kind, headers)
        return rounds_in_turn(servers, kinds, lambda _server, _kind: headers, options)


@contextmanager
def _server(name: str, location: Path) -> Generator[Serving]:
    command = [sys.executable, "-m", f"bench.api.{name}", location]
    with child(command, location.with_name(f"{name}.log"), cwd=ROOT) as running:
        facts = running.wait("listening", START_SECONDS)
        yield Serving(int(facts["port"]), running.process.pid)


def _compare(servers: Mapping[str, Serving], kind: RequestKind, headers: Mapping[str, str]) -> None:
    """Check that both return the same JSON, key by key."""
    ours, by_hand = (_ask(servers[name], kind, headers) for name in _SERVERS)
    if ours != by_hand:
        raise Broken(f"{kind.name}: the answers differ")


def _ask(serving: Serving, kind: RequestKind, headers: Mapping[str, str]) -> object:
    url = f"http://127.0.0.1:{serving.port}/{kind.address}"
    request = urllib.request.Request(url, headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)
    except (OSError, urllib.error.URLError) as error:
        raise Broken(f"{kind.name}: no answer: {error}") from error


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument("--seconds", type=int, default=4, help="of each page in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--videos", type=int, default=VIDEOS)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 1 s each")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 1, min(options.rounds, 3)
    return options


if __name__ == "__main__":
    sys.exit(main())
