"""How much more requests two API hosts answer than one.

Each host is pinned to a core, together with the client that sends it requests (`wrk`). PostgreSQL,
Redis and the S3 server run on the hosts' cores too, so that no other core shares the work: on one
where there is one host, on two where there are two.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from bench.hosts.cores import Spent, SpentMeter, confine, pinned
from bench.origin.load import wrk
from tests.support.e2e.hls_reader import addresses, media
from tests.support.e2e.hosts import SharedEngines
from tests.support.e2e.service import ServiceProcess

WARM_SECONDS: Final = 1


class Asked(msgspec.Struct, frozen=True):
    """One kind of request: its name, its path, the headers to send."""

    name: str
    path: str
    headers: Mapping[str, str]


class ServedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What so many hosts answered.

    `rate` is in requests a second, `cpu` of `seconds`.
    """

    count: int
    rate: float
    seconds: float
    cpu: Spent

    @property
    def each(self) -> float:
        """CPU of a request, in microseconds of its host."""
        return self.cpu.hosts / self.seconds / self.rate * 1e6


def asked_of(api: ServiceProcess, video: str) -> list[Asked]:
    """Return the kinds of requests; `video` is the hash of a completed one."""
    playlist = addresses(f"{api.http}/videos/{video}/index.m3u8")["360p"]
    segment = media(playlist).segments[0].uri
    below = playlist.removeprefix(api.http)
    return [
        Asked("a page of the list of videos", "/api/projects/1/videos", {
            "Authorization": f"Bearer {api.token}",
        }),
        Asked("a video's playlist", below, {"Accept-Encoding": "gzip"}),
        Asked("a segment of 360p", f"{below.rpartition('/')[0]}/{segment}", {}),
    ]  # fmt: skip


def measure_load(
    engines: SharedEngines, hosts: Sequence[ServiceProcess], request: Asked, seconds: int
) -> ServedLoad:
    """Send requests to all hosts at once for some seconds; each on a core of its own."""
    confine(engines.processes(), range(len(hosts)))
    for core, host in enumerate(hosts):
        confine([host.process.pid], [core])
    load = [partial(wrk, f"{host.http}{request.path}", request.headers) for host in hosts]

    def send(lasting: int) -> int:
        calls: list[Callable[[], int]] = [partial(call, lasting) for call in load]
        return sum(pinned(calls))

    send(WARM_SECONDS)
    meter = SpentMeter([host.process.pid for host in hosts], engines.processes())
    began = time.monotonic()
    answered = send(seconds)
    lasted = time.monotonic() - began
    return ServedLoad(count=len(hosts), rate=answered / seconds, seconds=lasted, cpu=meter.read())
