"""Headend's API as a peer: the application of `headend serve` over the catalog in a file.

Standard output carries one JSON line, `listening`, with the port. It serves until SIGTERM.

Usage: python -m bench.api.ours CATALOG
"""

import asyncio
import json
import signal
import sys
from pathlib import Path

import uvloop

from api.app import create_app
from api.http.application import AsgiCall, PlainApplication
from api.schemas.urls import Addresses
from headend.config.listen_sockets import bind
from headend.http.server import serving
from storage.catalog import open_catalog

# The same in both servers, so that their answers are the same.
BASE = "http://video.example.org"


async def serve(app: AsgiCall) -> None:
    """Serve an application on a free port until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with bind("127.0.0.1:0") as sock:
        async with serving(PlainApplication(app), sock):
            print(json.dumps({"event": "listening", "port": sock.getsockname()[1]}), flush=True)
            await stop.wait()


async def _serve_catalog(location: Path) -> None:
    addresses = Addresses(
        http=BASE, playback=BASE, rtmp="", rtmps="", rtmp_backup="", rtmps_backup=""
    )
    async with open_catalog(location, migrate=False) as catalog:
        await serve(create_app(catalog=catalog, addresses=addresses, broadcaster_key="key"))


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_catalog(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
