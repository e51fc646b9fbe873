"""Headend's API as a peer: the application of `headend serve` over the catalog in a file.

Standard output carries one JSON line, `listening`, with the port. It serves until SIGTERM.

Usage: python -m bench.api.ours CATALOG
"""

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from api.app import create_app
from api.schemas.urls import Addresses
from headend.config.listen_sockets import bind
from headend.http.server import serving
from storage.catalog import open_catalog

__all__ = ["BASE", "main"]

# The same in both servers, so that their answers are the same.
BASE = "http://video.example.org"


async def serve(place: Path) -> None:
    """Serve on a free port until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        catalog = await stack.enter_async_context(open_catalog(place, migrate=False))
        addresses = Addresses(
            http=BASE, playback=BASE, rtmp="", rtmps="", rtmp_backup="", rtmps_backup=""
        )
        app = create_app(catalog=catalog, addresses=addresses, broadcaster_key="key")
        sock = stack.enter_context(bind("127.0.0.1:0"))
        await stack.enter_async_context(serving(app, sock))
        print(json.dumps({"event": "listening", "port": sock.getsockname()[1]}), flush=True)
        await stop.wait()


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
