"""The two servers of `bench.origin.parked`, each with one playlist for which all requests wait.

`ours` is the server of `headend serve` with a fast path that returns a `PendingResponse`; `plain`
is uvicorn with an ASGI application that waits for an `asyncio.Condition`. Both send the same
headers and the same compressed playlist. SIGUSR1 publishes the next version; standard output gets
one JSON line when the server listens, and one with the monotonic time of each publication.

Usage: python -m bench.origin.parked_servers ours|plain
"""

import asyncio
import gzip
import json
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
import uvloop

from api.http.response import (
    HttpRequest,
    HttpResponse,
    PendingResponse,
    Representation,
    media_headers,
    respond,
)
from api.origin.routes import PLAYLIST_TYPE
from headend.config.listen_sockets import bind
from headend.http.descriptors import raise_limit
from headend.http.fast_path import FastAnswer
from headend.http.server import serving

__all__ = ["main"]

_LISTED: Final = 15


def _playlist(version: int) -> Representation:
    """Return a live playlist of 30 s with the parts of three segments, compressed."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:9", "#EXT-X-TARGETDURATION:4"]
    lines.append("#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.500")
    lines.append("#EXT-X-PART-INF:PART-TARGET=0.500")
    lines.append(f"#EXT-X-MEDIA-SEQUENCE:{version}")
    for number in range(version, version + _LISTED):
        if number >= version + _LISTED - 3:
            lines += [f'#EXT-X-PART:DURATION=0.500,URI="{number}.{at}.m4s"' for at in range(4)]
        lines.append(f"#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:{number % 60:02}.000Z")
        lines += ["#EXTINF:2.000,", f"{number}.m4s"]
    body = gzip.compress("\n".join(lines).encode(), 6)
    extra = {"vary": "Accept-Encoding", "content-encoding": "gzip"}
    headers = media_headers(PLAYLIST_TYPE, "public, max-age=1", extra)
    return Representation(body=body, headers=headers, tag=f'"{version}-gz"')


class _Waiting(PendingResponse):
    """A request for the next version."""

    __slots__ = ("callback", "readers")
    callback: Callable[[HttpResponse], None]

    def __init__(self, readers: "set[_Waiting]") -> None:
        self.readers = readers

    def subscribe(self, callback: Callable[[HttpResponse], None]) -> None:
        self.callback = callback
        self.readers.add(self)

    def cancel(self) -> None:
        self.readers.discard(self)


class _Ours:
    """Parks all requests."""

    def __init__(self) -> None:
        self._readers: set[_Waiting] = set()

    def fast_path(self, method: str, path: str, headers: object, peer: str | None) -> FastAnswer:  # noqa: ARG002  # the server's
        return _Waiting(self._readers)

    async def publish(self, playlist: Representation) -> None:
        readers = list(self._readers)
        self._readers.clear()
        answer = respond(HttpRequest("GET", {}), playlist)
        for reader in readers:
            reader.callback(answer)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        if scope["type"] != "lifespan":
            raise RuntimeError("all requests take the fast path")
        for each in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{each}.complete"})


class _Plain:
    """Waits with a task for each request."""

    def __init__(self) -> None:
        self._published = asyncio.Condition()
        self._playlist: Representation | None = None

    async def publish(self, playlist: Representation) -> None:
        async with self._published:
            self._playlist = playlist
            self._published.notify_all()

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:  # ASGI's own maps
        async with self._published:
            before = self._playlist
            await self._published.wait_for(lambda: self._playlist is not before)
        assert self._playlist is not None
        answer = respond(HttpRequest("GET", {}), self._playlist)
        headers = list(answer.headers)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


class _PlainServer(uvicorn.Server):
    """uvicorn, ended by the signal itself."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


async def _publish_on_signal(app: _Ours | _Plain) -> None:
    """Publish at each SIGUSR1."""
    signals: asyncio.Queue[None] = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, signals.put_nowait, None)
    version = 1000
    while True:
        await signals.get()
        version += 1
        playlist = _playlist(version)
        at_ns = time.monotonic_ns()
        await app.publish(playlist)
        print(json.dumps({"event": "published", "at_ns": at_ns}), flush=True)


async def _serve(kind: str) -> None:
    raise_limit()
    with bind("127.0.0.1:0") as sock:
        print(json.dumps({"event": "listening", "port": sock.getsockname()[1]}), flush=True)
        if kind == "ours":
            app = _Ours()
            async with serving(app, sock):
                await _publish_on_signal(app)
        plain = _Plain()
        settings = uvicorn.Config(plain, log_config=None, access_log=False, lifespan="off")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_PlainServer(settings).serve(sockets=[sock]))
            await _publish_on_signal(plain)


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1]))


if __name__ == "__main__":
    main()
