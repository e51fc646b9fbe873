"""The two servers of `bench.origin.parked`, each with one playlist for which all requests wait.

Both publish a run of low latency as the service does, in a folder. `ours` is the application and
the server of `headend serve`, with the origin, its edge and a catalog; `plain` is uvicorn with an
ASGI application that waits for an `asyncio.Condition`, and sends the same playlist with the same
headers. SIGUSR1 publishes the next part. Standard output gets one JSON line when the server
listens, and one with the monotonic time of each publication; both have the target of the requests
for the next part, and that part's name.

Usage: python -m bench.origin.parked_servers ours|plain FOLDER
"""

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
import uvloop

from api.http.response import HttpRequest, HttpResponse, Representation, media_headers, respond
from api.origin.media_request import PLAYLIST_TYPE
from bench.origin.media import PARTS, SteppedRun
from bench.origin.ours import BenchOrigin
from headend.config.listen_sockets import bind
from headend.http.descriptors import raise_limit
from headend.http.server import serving

_HEADERS: Final = media_headers(
    PLAYLIST_TYPE,
    "public, max-age=1",
    {"vary": "Accept-Encoding", "content-encoding": "gzip"},
)


class _Plain:
    """Waits with a task for each request."""

    def __init__(self, ours: BenchOrigin, run: SteppedRun) -> None:
        self._published = asyncio.Condition()
        self._ours, self._run = ours, run
        self._answer: HttpResponse | None = None

    async def publish_part(self) -> None:
        """Publish the next part."""
        await self._run.publish_part()
        cached = self._ours.edge.local_playlist(self._run.address, low_latency=True)
        assert cached is not None
        playlist = Representation(
            body=cached.compressed, headers=_HEADERS, tag=f'"{cached.tag}-gz"'
        )
        async with self._published:
            self._answer = respond(HttpRequest("GET", {}), playlist)
            self._published.notify_all()

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:  # ASGI's own maps
        async with self._published:
            before = self._answer
            await self._published.wait_for(lambda: self._answer is not before)
        answer = self._answer
        assert answer is not None
        headers = list(answer.headers)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


class _PlainServer(uvicorn.Server):
    """uvicorn, ended by the signal itself."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


async def _publish_on_signal(run: SteppedRun, app: _Plain | None) -> None:
    """Publish at each SIGUSR1."""
    signals: asyncio.Queue[None] = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, signals.put_nowait, None)
    while True:
        await signals.get()
        at_ns = time.monotonic_ns()
        await (run if app is None else app).publish_part()
        _print_event("published", run, at_ns=at_ns)


def _print_event(event: str, run: SteppedRun, **facts: int) -> None:
    target = f"/{run.address}?_HLS_msn={run.msn}&_HLS_part={run.part}"
    # A first part has the name of its hint, which counts the parts of the segment before it.
    place = (run.msn, run.part) if run.part else (run.msn - 1, PARTS)
    request = {"target": target, "part": "{}.{}.m4s".format(*place)}
    print(json.dumps({"event": event, **request, **facts}), flush=True)


async def _serve(kind: str, folder: Path) -> None:
    raise_limit()
    with bind("127.0.0.1:0") as sock:
        async with BenchOrigin.opened(folder) as ours:
            run = await SteppedRun.publish(ours.objects, ours.edge, await ours.add_stream())
            _print_event("listening", run, port=sock.getsockname()[1])
            if kind == "ours":
                async with serving(ours.application(sock), sock):
                    await _publish_on_signal(run, None)
            await _serve_plainly(_Plain(ours, run), run, sock)


async def _serve_plainly(app: _Plain, run: SteppedRun, sock: socket.socket) -> None:
    settings = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_PlainServer(settings).serve(sockets=[sock]))
        await _publish_on_signal(run, app)


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1], Path(sys.argv[2])))


if __name__ == "__main__":
    main()
