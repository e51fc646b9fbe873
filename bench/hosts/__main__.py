"""The command `python -m bench.hosts`: what several hosts cost, and how much more they do than one.

Four measurements, each a minute or a few: `machine` says how much more two cores do than one
without Headend; `owner` compares the CPU of a stream's host on SQLite, a folder and memory with
that on PostgreSQL, S3 and Redis; `transcode` and `api` one host with two, each pinned to a core.
The status is 1 if a target is missed.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

from bench.hosts.cores import pinned
from bench.hosts.machine import measure_machine, works
from bench.hosts.owner import PLACES, OwnerCost, measure_owner
from bench.hosts.report import show_loads, show_machine, show_owners, show_queues
from bench.hosts.serving import ServedLoad, asked_of, measure_load
from bench.hosts.transcoding import QueueFigures, measure_queue
from bench.ingest.clip import make_clip
from bench.ladder.clips import CLIPS
from bench.vod.runs import film
from tests.support.e2e.hosts import HostProcesses, SharedEngines, running_engines
from tests.support.e2e.service import ServiceProcess
from tests.support.e2e.uploaded_videos import completed, get_json, upload

_CLIP_SECONDS: Final = 20
_COUNTS: Final = (1, 2)
_NO_LIMIT: Final = {"HEADEND_API__REQUESTS_PER_MINUTE": "0"}


def _machine(options: argparse.Namespace, folder: Path, stack: ExitStack) -> bool:
    """Let one core work, and then two."""
    del folder, stack  # nothing of Headend runs
    seconds = {
        name: [measure_machine(command, count) for count in _COUNTS]
        for name, command in works(_film(options)).items()
    }
    show_machine(seconds)
    return True


def _owner(options: argparse.Namespace, folder: Path, stack: ExitStack) -> bool:
    """Measure the owner of a stream in both places in turn."""
    costs: dict[str, list[OwnerCost]] = {name: [] for name in PLACES}
    clip = make_clip(folder, _CLIP_SECONDS).path
    places = {
        name: stack.enter_context(open_place(_below(folder, str(number))))
        for number, (name, open_place) in enumerate(PLACES.items())
    }
    for number in range(options.rounds):
        # Each round begins with the other one.
        for name in list(places) if number % 2 == 0 else list(reversed(places)):
            costs[name].append(measure_owner(places[name], clip, options.seconds))
            print(f"  {name}: {costs[name][-1]}", file=sys.stderr)
    return show_owners(costs)


def _transcode(options: argparse.Namespace, folder: Path, stack: ExitStack) -> bool:
    """Let one transcoding host work a queue of films off, and then two."""
    engines, hosts = _hosts(folder, stack)
    api, path = hosts.api().running, _film(options)
    figures: list[QueueFigures] = []
    for count in _COUNTS:
        figures.append(measure_queue(hosts, api, engines, path, films=options.films, count=count))
        print(f"  {figures[-1]}", file=sys.stderr)
    return show_queues(figures, films=options.films, seconds=options.film_seconds)


def _api(options: argparse.Namespace, folder: Path, stack: ExitStack) -> bool:
    """Send requests to one API host, and then to two."""
    engines, hosts = _hosts(folder, stack)

    def start(name: str) -> ServiceProcess:
        return hosts.api(name).running

    starts: list[Callable[[], ServiceProcess]] = [partial(start, name) for name in ("api", "api-2")]
    both = pinned(starts)
    video = _completed(hosts, both[0], _film(options))
    loads: dict[str, list[ServedLoad]] = {}
    for kind in asked_of(both[0], video):
        loads[kind.name] = [
            measure_load(engines, both[:count], kind, options.load_seconds) for count in _COUNTS
        ]
        print(f"  {kind.name}: {loads[kind.name]}", file=sys.stderr)
    return show_loads(loads)


def _completed(hosts: HostProcesses, api: ServiceProcess, path: Path) -> str:
    """Have a video made of a film, and return its hash."""
    transcoding = hosts.transcode("transcode-1")
    _, answer = upload(api, path)
    completed(api, answer["video"]["id"], within=120)
    transcoding.stop()
    return str(get_json(api, f"/api/videos/{answer['video']['id']}")["hash"])


def _hosts(folder: Path, stack: ExitStack) -> tuple[SharedEngines, HostProcesses]:
    engines = stack.enter_context(running_engines(folder))
    environment = {**engines.environment, **_NO_LIMIT}
    return engines, stack.enter_context(HostProcesses(folder, engines.database, environment))


def _film(options: argparse.Namespace) -> Path:
    return film(CLIPS[0], options.film_seconds, _below(Path(gettempdir()), "headend-bench-ladder"))


def _below(above: Path, name: str) -> Path:
    folder = above / name
    folder.mkdir(exist_ok=True)
    return folder


_PARTS: Final = {"machine": _machine, "owner": _owner, "transcode": _transcode, "api": _api}


def main() -> int:
    """Measure, print, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--rounds", type=int, default=3, help="of `owner`")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round that count")
    parser.add_argument("--films", type=int, default=8, help="of `transcode`")
    parser.add_argument("--film-seconds", type=int, default=7, help="of `transcode` and `api`")
    parser.add_argument("--load-seconds", type=int, default=6, help="of `api`, for each kind")
    options = parser.parse_args()
    met: list[bool] = []
    for name in options.only:
        with TemporaryDirectory(prefix="headend-bench-") as folder, ExitStack() as stack:
            met.append(_PARTS[name](options, Path(folder), stack))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
