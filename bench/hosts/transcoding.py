"""How much quicker a queue of films is done by two transcoding hosts than by one.

Each host is pinned to a core. PostgreSQL, Redis, the S3 server and the API run on the same cores as
the hosts: on one where there is one host, on two where there are two.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from bench.hosts.cores import Spent, SpentMeter, confine, pinned
from tests.support.e2e.hosts import HostProcess, HostProcesses, SharedEngines
from tests.support.e2e.service import ServiceProcess
from tests.support.e2e.uploaded_videos import upload

_LOOK_SECONDS: Final = 0.2
_MOST_SECONDS: Final = 300.0


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How so many hosts worked a queue off; times are seconds.

    `lasted` is from the first host's being ready to the last film's completion.
    """

    count: int
    lasted: float
    cpu: Spent

    @property
    def share(self) -> float:
        """The part of its core that a host used."""
        return self.cpu.hosts / self.lasted / self.count


def measure_queue(
    hosts: HostProcesses,
    api: ServiceProcess,
    engines: SharedEngines,
    film: Path,
    *,
    films: int,
    count: int,
) -> QueueFigures:
    """Upload a film so many times, and let so many hosts make the videos.

    Raises:
        SystemExit: a film failed, or all take too long.
    """
    for _ in range(films):
        status, answer = upload(api, film)
        if status != 201:
            raise SystemExit(f"an upload was refused: {status} {answer}")
    starts: list[Callable[[], tuple[HostProcess, float]]] = [
        partial(_start, hosts, f"transcode-{number}") for number in range(count)
    ]
    confine(engines.processes(), range(count))
    started = pinned(starts)
    running = [host for host, _ in started]
    meter = SpentMeter([host.running.process.pid for host in running], engines.processes())
    _wait_until_done(engines.database)
    lasted = time.monotonic() - min(ready for _, ready in started)
    spent = meter.read()
    for host in running:
        host.stop()
    return QueueFigures(count=count, lasted=lasted, cpu=spent)


def _start(hosts: HostProcesses, name: str) -> tuple[HostProcess, float]:
    return hosts.transcode(name), time.monotonic()


def _wait_until_done(database: str) -> None:
    deadline = time.monotonic() + _MOST_SECONDS
    with psycopg.connect(database, autocommit=True) as connection:
        while True:
            rows = connection.execute("SELECT DISTINCT state FROM videos").fetchall()
            states = {str(state) for (state,) in rows}
            if states <= {"completed"}:
                return
            if "failed" in states or time.monotonic() > deadline:
                raise SystemExit(f"not all films were made: {states}")
            time.sleep(_LOOK_SECONDS)
