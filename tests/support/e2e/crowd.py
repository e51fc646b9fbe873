"""Many concurrent viewers: each fetches a playlist and its newest segment every two seconds.

They run on an event loop in a separate process, so that the measured latencies do not include the
test's own work. Each has one keep-alive connection from its own address (127.1.0.0/16).
"""

import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from media.hls import m3u8
from media.hls.playlist import MediaPlaylist

_STEP: Final = 2.0  # seconds between two requests for a playlist


class Crowd(msgspec.Struct):
    """The viewers' results: requests by status (0: no response), and the latencies."""

    statuses: Counter[int] = msgspec.field(default_factory=Counter[int])
    latencies: list[tuple[float, float]] = msgspec.field(default_factory=list[tuple[float, float]])
    """When each request began (monotonic), and the seconds until its answer was complete."""

    def quantile(self, share: float, *, begin: float = 0, end: float = float("inf")) -> float:
        """Return a quantile of the latencies (seconds) of the requests in a period."""
        seconds = sorted(duration for at, duration in self.latencies if begin <= at < end)
        return seconds[min(int(len(seconds) * share), len(seconds) - 1)] if seconds else 0.0


class _Viewer:
    """One viewer of one rendition."""

    def __init__(self, crowd: Crowd, playlist: str, home: str) -> None:
        self._crowd = crowd
        self._playlist = playlist
        self._home = home
        self._seen = ""
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def watch(self, over: Event, delay: float) -> None:
        await asyncio.sleep(delay)
        while not over.is_set():
            began = time.monotonic()
            text = await self._fetch(self._playlist)
            if text is not None:
                await self._fetch_newest(text.decode())
            await asyncio.sleep(max(0.0, began + _STEP - time.monotonic()))
        self._close()

    async def _fetch_newest(self, text: str) -> None:
        playlist = m3u8.parse(text)
        if not isinstance(playlist, MediaPlaylist) or not playlist.segments:
            return
        newest = playlist.segments[-1]
        if newest.uri != self._seen and not newest.gap:
            self._seen = newest.uri
            await self._fetch(urljoin(self._playlist, newest.uri))

    async def _fetch(self, url: str) -> bytes | None:
        """Return the body of a 200, else None; record the result either way."""
        began = time.monotonic()
        status, body = 0, b""
        try:
            async with asyncio.timeout(30):
                status, body = await self._ask(url)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            self._close()
        self._crowd.statuses[status] += 1
        self._crowd.latencies.append((began, time.monotonic() - began))
        return body if status == 200 else None

    async def _ask(self, url: str) -> tuple[int, bytes]:
        parts = urlsplit(url)
        if self._line is None:
            self._line = await asyncio.open_connection(
                parts.hostname, parts.port, local_addr=(self._home, 0)
            )
        reader, writer = self._line
        writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        body = await reader.readexactly(int(length))
        if "connection: close" in head:
            self._close()
        return int(head.split(" ", 2)[1]), body

    def _close(self) -> None:
        if self._line is not None:
            self._line[1].close()
            self._line = None


async def _watch_all(crowd: Crowd, playlists: list[str], count: int, over: Event) -> None:
    async with asyncio.TaskGroup() as viewers:
        for number in range(count):
            home = f"127.1.{number // 200}.{number % 200 + 1}"
            viewer = _Viewer(crowd, playlists[number % len(playlists)], home)
            viewers.create_task(viewer.watch(over, _STEP * number / count))


def _watch_and_report(playlists: list[str], count: int, over: Event, report: Connection) -> None:
    crowd = Crowd()
    asyncio.run(_watch_all(crowd, playlists, count, over))
    report.send((crowd.statuses, crowd.latencies))


@contextmanager
def watching(playlists: list[str], count: int) -> Generator[Crowd]:
    """Run `count` viewers, distributed over media playlists, for the length of the block.

    The results are complete once the block has ended.
    """
    crowd = Crowd()
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    report, end = context.Pipe(duplex=False)
    process = context.Process(target=_watch_and_report, args=(playlists, count, over, end))
    process.start()
    end.close()
    try:
        yield crowd
    finally:
        over.set()
        crowd.statuses, crowd.latencies = report.recv()
        process.join()
