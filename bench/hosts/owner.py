"""The CPU of the host that owns a stream: on SQLite, a folder and memory, and on shared engines.

In both places `headend ingest` receives one stream and makes its whole ladder, beside a `headend
api` which is not counted. The engine is a child of the ingest process.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.ingest.processes import cpu_ns
from bench.ingest.publishers import looping
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hosts import HostProcesses, running_engines
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.free_ports import free_port
from tests.support.waiting import poll

_SETTLE_SECONDS: Final = 8.0  # encoders' look-ahead, queues and windows fill
_BEGIN_SECONDS: Final = 30.0
_END_SECONDS: Final = 20.0
_ROOM: Final = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}


class OwnerCost(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement, in ms of CPU for each second of the stream.

    `process` is the part of `headend ingest` itself, the rest are its engine's. `shed`: renditions
    were not made at times, since the machine was busy; then the figures mean nothing.
    """

    whole: float
    process: float
    shed: bool


class OwnerPlace(msgspec.Struct, frozen=True):
    """Processes that serve and receive streams; encoders connect to this port."""

    api: ServiceProcess
    ingest: ServiceProcess
    rtmp: int


@contextmanager
def _on_folder(folder: Path) -> Generator[OwnerPlace]:
    data = folder / "data"
    rtmp = free_port()
    sockets = "--rtmp", f"127.0.0.1:{rtmp}", "--rtmps", f"127.0.0.1:{free_port()}"
    command = [str(Path(sys.executable).with_name("headend")), "migrate", "--data", str(data)]
    subprocess.run(command, env={**os.environ, **_ROOM}, check=True, capture_output=True)
    with (
        service(data, role="api", environment=_ROOM, arguments=sockets) as api,
        service(data, role="ingest", environment=_ROOM, arguments=sockets) as ingest,
    ):
        yield OwnerPlace(api, ingest, rtmp)


@contextmanager
def _on_engines(folder: Path) -> Generator[OwnerPlace]:
    with (
        running_engines(folder) as engines,
        HostProcesses(folder, engines.database, engines.environment) as hosts,
    ):
        yield OwnerPlace(hosts.api().running, hosts.ingest("a").running, hosts.port("a"))


PLACES: Final[Mapping[str, Callable[[Path], AbstractContextManager[OwnerPlace]]]] = {
    "SQLite, folder, memory": _on_folder,
    "PostgreSQL, S3, Redis": _on_engines,
}


def measure_owner(place: OwnerPlace, clip: Path, seconds: float) -> OwnerCost:
    """Publish a new stream to a place, and return what it costs its owner once it is under way."""
    stream = pair(place.api)
    with looping(clip, f"rtmp://127.0.0.1:{place.rtmp}/live/{stream.key}"):
        poll(lambda: fetch(stream.playlist).status == 200, within=_BEGIN_SECONDS, what="a playlist")
        time.sleep(_SETTLE_SECONDS)
        pid, began = place.ingest.process.pid, time.monotonic()
        before = cpu_ns(pid), _own_ns(pid)
        time.sleep(seconds)
        spent = cpu_ns(pid) - before[0], _own_ns(pid) - before[1]
        lasted = time.monotonic() - began
        shed = f'event="rung shed" stream={stream.hash}' in place.ingest.log.read_text()
    _end(stream)
    return OwnerCost(whole=spent[0] / 1e6 / lasted, process=spent[1] / 1e6 / lasted, shed=shed)


def _own_ns(pid: int) -> int:
    """Return the CPU time of a process' own threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def _end(stream: EncoderPair) -> None:
    stream.command("end")
    poll(lambda: not stream.record()["processing"], within=_END_SECONDS, what="the run's end")
