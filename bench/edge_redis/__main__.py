"""The command `python -m bench.edge_redis`: what the live edge in Redis costs, and how late it is.

A process makes streams in real time, this one serves them: for each rendition of each stream many
readers wait for the next part, as players of low latency do, and get it. It counts the reads of
Redis, and measures from the moment a part is put into the edge to that when a reader gets it here.
The status is 0 if Redis was read at most once for each part, 1 if not.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.edge_redis.maker import NAMESPACE, PARTS, folder_of, rendition_of
from delivery.edge.redis import open_edge_store
from delivery.edge.remote import RemoteEdge, open_remote_edge
from storage.bus.redis import open_redis_client
from tests.support.redis_server import redis_server


class RunFigures(msgspec.Struct):
    """What one run gave; CPU in seconds."""

    parts: int = 0
    answers: int = 0
    delays: list[float] = []  # of the first reader of each part, in seconds
    reads: int = 0
    commands: int = 0
    maker_cpu: float = 0.0
    reader_cpu: float = 0.0
    redis_cpu: float = 0.0


class _Readers:
    """All readers of one rendition; they wait for each next part together."""

    def __init__(self, edge: RemoteEdge, figures: RunFigures, folder: str, count: int) -> None:
        self._edge = edge
        self._figures = figures
        self._folder = folder
        self._count = count
        self._received = 0

    def wait(self, msn: int, index: int) -> None:
        """Let all wait for a part, and then for the next one."""
        self._place = msn, index
        self._received = 0
        playlist = f"{self._folder}/index.m3u8"
        timeline = self._edge.timeline(playlist)
        if timeline is not None and timeline.has(msn, index):
            for _ in range(self._count):
                self._ready()
            return
        for _ in range(self._count):
            self._edge.wait(playlist, msn, index, self._ready)

    def _ready(self) -> None:
        now = time.monotonic_ns()
        msn, index = self._place
        data = self._edge.local_part(f"{self._folder}/{msn}.{index}.m4s")
        self._received += 1
        if data is not None:
            self._figures.answers += 1
            if self._received == 1:
                self._figures.parts += 1
                self._figures.delays.append((now - int.from_bytes(data[:8], "big")) / 1e9)
        if self._received == self._count and data is not None:
            index += 1
            self.wait(msn + index // PARTS, index % PARTS)


async def measure(
    url: str, *, streams: int, renditions: int, readers: int, seconds: int, size: int
) -> RunFigures:
    """Return what so many readers of each rendition cost."""
    figures = RunFigures()
    async with (
        open_redis_client(url) as client,
        open_edge_store(url, namespace=NAMESPACE) as store,
        open_remote_edge(store) as edge,
    ):
        for stream in range(streams):
            await edge.catch_up(folder_of(stream))
            for number in range(renditions):
                folder = f"{folder_of(stream)}/{rendition_of(number)}"
                _Readers(edge, figures, folder, readers).wait(0, 0)
        await client.config_resetstat()
        before, redis_before = time.process_time(), await _redis_cpu(client)
        numbers = [str(each) for each in (streams, renditions, seconds, size)]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.edge_redis.maker", url, *numbers,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, _ = await child.communicate()
        figures.maker_cpu = float(printed)
        figures.reader_cpu = time.process_time() - before
        figures.redis_cpu = await _redis_cpu(client) - redis_before
        stats: dict[str, dict[str, int]] = await client.info("commandstats")
        # Each script reads the generation of its stream.
        calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
        figures.reads = calls.get("get", 0) - calls.get("eval", 0)
        figures.commands = sum(calls.values())
    return figures


async def _redis_cpu(client: Any) -> float:  # Any: redis-py's
    info = await client.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


def main() -> int:
    """Measure, print, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.edge_redis", description=__doc__)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--renditions", type=int, default=5)
    parser.add_argument("--readers", type=int, default=50, help="of each rendition")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--kilobits", type=int, default=2000, help="a second, of each rendition")
    options = parser.parse_args()
    size = options.kilobits * 1000 // 8 // 2
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        figures = uvloop.run(
            measure(
                server.url,
                streams=options.streams,
                renditions=options.renditions,
                readers=options.readers,
                seconds=options.seconds,
                size=size,
            )
        )
    delays = sorted(figures.delays)
    microseconds = 1e6 / max(figures.parts, 1)
    print(
        f"{options.streams} streams x {options.renditions} renditions of {options.kilobits} kbit/s,"
        f" {options.readers} readers of each, {options.seconds} s:\n"
        f"  {figures.parts} parts, {figures.answers} answers, {figures.reads} reads of parts,"
        f" {figures.commands} commands in all\n"
        f"  a part at the reader after: median {1e3 * statistics.median(delays):.1f} ms,"
        f" 99 % {1e3 * delays[len(delays) * 99 // 100]:.1f} ms, longest {1e3 * delays[-1]:.1f} ms\n"
        f"  CPU a part: maker {figures.maker_cpu * microseconds:.0f} us,"
        f" reader {figures.reader_cpu * microseconds:.0f} us,"
        f" Redis {figures.redis_cpu * microseconds:.0f} us"
    )
    return 0 if figures.reads <= figures.parts else 1


if __name__ == "__main__":
    sys.exit(main())
