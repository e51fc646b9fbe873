"""One server in one round: publishers come, are let settle, and a stretch of time is measured."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.ingest.clip import Clip
from bench.ingest.processes import Unheard, cpu_ns, rss_bytes
from bench.ingest.publishers import Publisher, publishing
from bench.ingest.servers import Server, Serving, Tls
from media.stream_keys import StreamKey

__all__ = ["MARGIN_SECONDS", "Broken", "Figures", "Load", "Overloaded", "measure"]

# What a publisher sends before and after the stretch: encoders start, servers settle.
SETTLE_SECONDS: Final = 2.0
MARGIN_SECONDS: Final = 5
START_SECONDS: Final = 60.0  # a deadline for ffmpeg on a machine that is busy
END_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.5  # between two looks at the memory


class Broken(Exception):
    """A server did not do what is measured: it lost data, or a publisher could not go on."""


class Overloaded(Broken):
    """The publishers themselves fell behind real time: the machine, or a server that reads late."""


@dataclass(frozen=True)
class Load:
    """What is put on a server: so many publishers of the clip, `seconds` of them measured."""

    clip: Clip
    publishers: int
    seconds: float


@dataclass(frozen=True)
class Figures:
    """What a round of one server cost.

    `cost` is ms of CPU per second of one publisher's stream; memory is of the whole process tree:
    its most, and how much it grew from the stretch's first fifth to its last (medians of each).
    """

    cost: float
    peak_bytes: int
    growth_bytes: int


def measure(server: Server, load: Load, tls: Tls | None) -> Figures:
    """Run a server and its publishers once.

    Raises:
        Broken: not all that was sent was taken in, or not in real time.
    """
    with TemporaryDirectory(prefix="headend-bench-") as folder:
        try:
            with server.serve(Path(folder), tls) as serving:
                return _publish(server, serving, load, secure=tls is not None)
        except Unheard as error:
            raise Broken(f"{server.name}: {error}") from error


def _publish(server: Server, serving: Serving, load: Load, *, secure: bool) -> Figures:
    scheme = "rtmps" if secure else "rtmp"
    keys = [StreamKey.new(f"bench{number:07}").text for number in range(load.publishers)]
    urls = [f"{scheme}://127.0.0.1:{serving.port}/live/{key}" for key in keys]
    with publishing(load.clip.path, urls) as publishers:
        _settle(server, publishers)
        figures = _stretch(serving.pid, publishers, load.seconds)
        for publisher in publishers:
            code = publisher.wait(END_SECONDS)
            if code != 0:
                raise Broken(f"{server.name}: a publisher ended with {code}: {publisher.said}")
        for _ in publishers:
            if wrong := server.lost(serving.closed(), load.clip):
                raise Broken(f"{server.name} took in {wrong}")
    return figures


def _settle(server: Server, publishers: Sequence[Publisher]) -> None:
    until = time.monotonic() + START_SECONDS
    while any(publisher.sent == 0 for publisher in publishers):
        lost = [publisher.said for publisher in publishers if not publisher.running]
        if lost or time.monotonic() > until:
            raise Broken(f"{server.name}: a publisher does not get in: {' '.join(lost)}")
        time.sleep(0.05)
    time.sleep(SETTLE_SECONDS)


def _stretch(pid: int, publishers: Sequence[Publisher], seconds: float) -> Figures:
    sent, cpu, began = _sent(publishers), cpu_ns(pid), time.monotonic()
    memory = [rss_bytes(pid)]
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
        memory.append(rss_bytes(pid))
    cpu, took, sent = cpu_ns(pid) - cpu, time.monotonic() - began, _sent(publishers) - sent
    if sent < 0.9 * took * len(publishers):
        of = took * len(publishers)
        raise Overloaded(f"publishers sent {sent:.1f} s of {of:.1f} s of media: not in real time")
    fifth = max(1, len(memory) // 5)
    growth = statistics.median(memory[-fifth:]) - statistics.median(memory[:fifth])
    # Of real time, not of their reports, which come late by up to a fifth of a second.
    return Figures(cpu / 1e6 / (took * len(publishers)), max(memory), round(growth))


def _sent(publishers: Sequence[Publisher]) -> float:
    return sum(publisher.sent for publisher in publishers)
