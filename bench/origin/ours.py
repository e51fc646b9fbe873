"""Headend's origin as a peer: catalog, objects, edge and application as in `headend serve`.

Standard output carries one JSON line, `listening`, with two ports (the second without the fast
path, `headend.http.fast_path`), the folder of the objects and the addresses of what was published.
It serves until SIGTERM.

Usage: python -m bench.origin.ours FOLDER
"""

import asyncio
import json
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from api.app import create_app
from api.http.auth import is_owner
from api.origin.origin import Origin, OriginFirst
from api.origin.visibility import VisibilityCache
from api.schemas.urls import Addresses
from bench.origin.media import publish, publish_long
from headend.config.listen_sockets import bind
from headend.http.server import Application, serving
from media.stream_keys import PublicHash
from storage.catalog import Catalog, open_catalog
from storage.edge.memory import MemoryEdge
from storage.objects.disk import DiskObjects

__all__ = ["main"]


async def serve(folder: Path) -> None:
    """Publish, and serve on a free port until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        catalog = await stack.enter_async_context(
            open_catalog(folder / "catalog.sqlite", migrate=True)
        )
        objects = stack.enter_context(DiskObjects(folder / "objects"))
        edge = MemoryEdge()
        broadcaster = (await catalog.installation.first_start(_now_us())).broadcaster_key
        playlist, segment = await publish(objects, edge, await _on_air(catalog))
        long = await publish_long(objects, edge, await _on_air(catalog))
        sock = stack.enter_context(bind("127.0.0.1:0"))
        port = int(sock.getsockname()[1])
        base = f"http://127.0.0.1:{port}"

        async def owner(authorization: str | None, hash_: str, /) -> bool:
            return await is_owner(catalog, authorization, hash_)

        def application() -> OriginFirst:
            app = create_app(
                catalog=catalog,
                addresses=_addresses(base),
                broadcaster_key=broadcaster,
            )
            return OriginFirst(origin, app)

        origin = Origin(
            objects=objects, edge=edge, visibility=VisibilityCache(catalog.visibility, owner)
        )
        await stack.enter_async_context(serving(application(), sock))
        slow = stack.enter_context(bind("127.0.0.1:0"))
        await stack.enter_async_context(serving(_without_fast_path(application()), slow))
        facts = {
            "event": "listening", "port": port, "objects": str(objects.root),
            "asgi_port": int(slow.getsockname()[1]),
            "playlist": playlist, "long": long, "segment": segment,
        }  # fmt: skip
        print(json.dumps(facts), flush=True)
        await stop.wait()


def _without_fast_path(app: OriginFirst) -> Application:
    """Return the application reduced to its ASGI interface."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    return call


def _now_us() -> int:
    return time.time_ns() // 1000


async def _on_air(catalog: Catalog) -> PublicHash:
    """Add a stream, publish it as its first encoder would, and return its hash."""
    found = await catalog.installation.first_start(_now_us())
    stream = await catalog.streams.add(found.project.id, "", _now_us())
    await catalog.live_state.set(
        stream.id, live=True, processing=False, on_air=0, sending={0}, no_audio=False,
        now_us=_now_us(),
    )  # fmt: skip
    return stream.hash


def _addresses(base: str) -> Addresses:
    return Addresses(http=base, playback=base, rtmp="", rtmps="", rtmp_backup="", rtmps_backup="")


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
