"""Headend's origin as a peer: catalog, objects, edge and application as in `headend serve`.

Standard output carries one JSON line, `listening`, with two ports (the second without the fast
path, `headend.http.fast_path`), the folder of the objects and the addresses of what was published.
It serves until SIGTERM.

Usage: python -m bench.origin.ours FOLDER
"""

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvloop

from api.app import create_app
from api.http.application import PlainApplication
from api.http.auth import is_owner
from api.origin.origin import Origin, OriginFirst
from api.origin.visibility import VisibilityCache
from api.schemas.urls import Addresses
from bench.origin.media import publish, publish_long
from delivery.edge.memory import MemoryEdge
from headend.config.listen_sockets import bind
from headend.http.server import serving
from media.stream_keys import PublicHash
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects


class BenchOrigin:
    """The origin with its catalog, objects and edge, in a folder for the length of a block."""

    def __init__(
        self, catalog: Catalog, objects: DiskObjects, edge: MemoryEdge, broadcaster_key: str
    ) -> None:
        self.objects = objects
        self.edge = edge
        self._catalog = catalog
        self._broadcaster_key = broadcaster_key
        self._visibility = VisibilityCache(catalog.visibility, self._owns)
        self._origin = Origin(objects=objects, edge=edge, visibility=self._visibility)

    @classmethod
    @asynccontextmanager
    async def opened(cls, folder: Path) -> AsyncGenerator["BenchOrigin"]:
        """Open everything in a folder."""
        with DiskObjects(folder / "objects") as objects:
            async with open_catalog(folder / "catalog.sqlite", migrate=True) as catalog:
                first = await catalog.installation.first_start(_now_us())
                ours = cls(catalog, objects, MemoryEdge(), first.broadcaster_key)
                async with asyncio.TaskGroup() as tasks:
                    asking = tasks.create_task(ours._visibility.run_queries())
                    yield ours
                    asking.cancel()

    async def add_stream(self) -> PublicHash:
        """Add a stream, publish it as its first encoder would, and return its hash."""
        records = await self._catalog.installation.first_start(_now_us())
        stream = await self._catalog.streams.add(records.project.id, "", Change(_now_us()))
        await self._catalog.live_state.set(
            stream.id, live=True, processing=False, on_air=0, sending={0}, no_audio=False,
            now_us=_now_us(),
        )  # fmt: skip
        return stream.hash

    def application(self, sock: socket.socket) -> OriginFirst:
        """Return the application of `headend serve` for a listening socket."""
        base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        app = create_app(
            catalog=self._catalog,
            addresses=_addresses(base),
            broadcaster_key=self._broadcaster_key,
        )
        return OriginFirst(self._origin, app)

    async def _owns(self, authorization: str | None, hash_: str, /) -> bool:
        return await is_owner(self._catalog, authorization, hash_)


async def serve(folder: Path) -> None:
    """Publish, and serve on a free port until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(BenchOrigin.opened(folder))
        objects, edge = ours.objects, ours.edge
        playlist, segment = await publish(objects, edge, await ours.add_stream())
        long = await publish_long(objects, edge, await ours.add_stream())
        sock = stack.enter_context(bind("127.0.0.1:0"))
        await stack.enter_async_context(serving(ours.application(sock), sock))
        slow = stack.enter_context(bind("127.0.0.1:0"))
        await stack.enter_async_context(serving(PlainApplication(ours.application(sock)), slow))
        facts = {
            "event": "listening", "port": int(sock.getsockname()[1]), "objects": str(objects.root),
            "asgi_port": int(slow.getsockname()[1]),
            "playlist": playlist, "long": long, "segment": segment,
        }  # fmt: skip
        print(json.dumps(facts), flush=True)
        await stop.wait()


def _now_us() -> int:
    return time.time_ns() // 1000


def _addresses(base: str) -> Addresses:
    return Addresses(http=base, playback=base, rtmp="", rtmps="", rtmp_backup="", rtmps_backup="")


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
