"""The command `python -m bench.edge_redis`: what the live edge in Redis costs, and how late it is.

A process makes streams in real time, this one serves them: for each rendition of each stream many
readers wait for the next part, as players of low latency do, and get it. It counts the reads of
Redis, and measures from the moment a part is put into the edge to that when a reader gets it here.
The status is 0 if Redis was read at most once for each part, 1 if not.
"""

import argparse
import asyncio
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import uvloop

from bench.edge_redis.maker import NAMESPACE, PARTS, folder_of, rendition_of
from storage.bus.redis import open_redis_client
from storage.edge.redis import open_edge_store
from storage.edge.remote import RemoteEdge, open_remote_edge

__all__ = ["RunFigures", "main", "measure"]

_START_SECONDS: Final = 10.0


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

    def __init__(self, edge: RemoteEdge, found: RunFigures, folder: str, count: int) -> None:
        self._edge = edge
        self._found = found
        self._folder = folder
        self._count = count
        self._got = 0

    def wait(self, msn: int, index: int) -> None:
        """Let all wait for a part, and then for the next one."""
        self._place = msn, index
        self._got = 0
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
        self._got += 1
        if data is not None:
            self._found.answers += 1
            if self._got == 1:
                self._found.parts += 1
                self._found.delays.append((now - int.from_bytes(data[:8], "big")) / 1e9)
        if self._got == self._count and data is not None:
            index += 1
            self.wait(msn + index // PARTS, index % PARTS)


@contextmanager
def _redis() -> Generator[str, None, None]:
    program = shutil.which("redis-server")
    if program is None:
        sys.exit("redis-server is missing: apt-get install redis-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as server:
            try:
                _wait_for(port)
                yield f"redis://127.0.0.1:{port}/0"
            finally:
                server.kill()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


async def measure(
    url: str, *, streams: int, renditions: int, readers: int, seconds: int, size: int
) -> RunFigures:
    """Return what so many readers of each rendition cost."""
    found = RunFigures()
    async with (
        open_redis_client(url) as client,
        open_edge_store(url, namespace=NAMESPACE) as store,
        open_remote_edge(store) as edge,
    ):
        for stream in range(streams):
            await edge.catch_up(folder_of(stream))
            for number in range(renditions):
                folder = f"{folder_of(stream)}/{rendition_of(number)}"
                _Readers(edge, found, folder, readers).wait(0, 0)
        await client.config_resetstat()
        before, redis_before = time.process_time(), await _redis_cpu(client)
        numbers = [str(each) for each in (streams, renditions, seconds, size)]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.edge_redis.maker", url, *numbers,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, _ = await child.communicate()
        found.maker_cpu = float(printed)
        found.reader_cpu = time.process_time() - before
        found.redis_cpu = await _redis_cpu(client) - redis_before
        stats: dict[str, dict[str, int]] = await client.info("commandstats")
        # Each script reads the generation of its stream.
        calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
        found.reads = calls.get("get", 0) - calls.get("eval", 0)
        found.commands = sum(calls.values())
    return found


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
    with _redis() as url:
        found = uvloop.run(
            measure(
                url,
                streams=options.streams,
                renditions=options.renditions,
                readers=options.readers,
                seconds=options.seconds,
                size=size,
            )
        )
    delays = sorted(found.delays)
    microseconds = 1e6 / max(found.parts, 1)
    print(
        f"{options.streams} streams x {options.renditions} renditions of {options.kilobits} kbit/s,"
        f" {options.readers} readers of each, {options.seconds} s:\n"
        f"  {found.parts} parts, {found.answers} answers, {found.reads} reads of parts,"
        f" {found.commands} commands in all\n"
        f"  a part at the reader after: median {1e3 * statistics.median(delays):.1f} ms,"
        f" 99 % {1e3 * delays[len(delays) * 99 // 100]:.1f} ms, longest {1e3 * delays[-1]:.1f} ms\n"
        f"  CPU a part: maker {found.maker_cpu * microseconds:.0f} us,"
        f" reader {found.reader_cpu * microseconds:.0f} us,"
        f" Redis {found.redis_cpu * microseconds:.0f} us"
    )
    return 0 if found.reads <= found.parts else 1


if __name__ == "__main__":
    sys.exit(main())
