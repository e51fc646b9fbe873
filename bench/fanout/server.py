"""The server of `bench.fanout`: prints its port, sends events on request, prints their cost.

python -m bench.fanout.server EVENTS
"""

import asyncio
import json
import resource
import sys
from typing import Any, Final

import uvloop

from api.http.application import PlainApplication
from api.pusher.limits import PusherSettings
from api.pusher.socket import Broadcaster
from headend.config.listen_sockets import bind
from headend.http.server import serving

KEY: Final = "0123456789abcdef0123"
CHANNEL: Final = "stream.abcdefABCDEF"

_BODY: Final = json.dumps(
    {
        "id": 7,
        "hash": "abcdefABCDEF",
        "live": True,
        "processing": True,
        "paused": False,
        "published": True,
        "receiving_count": 1,
        "backups": [{"id": 3, "live": False, "publish": False}],
        "version": 12,
    },
    separators=(",", ":"),
)


async def _nothing(_scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
    """Answer nothing: the broadcaster comes first."""
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _serve(events: int) -> None:
    broadcaster = Broadcaster(key=KEY, secret="a secret of benches", limits=PusherSettings())
    with bind("127.0.0.1:0") as door:
        async with serving(broadcaster.in_front_of(PlainApplication(_nothing)), door):
            print(door.getsockname()[1], flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            before = _cpu()
            for _ in range(events):
                broadcaster.hub.deliver([CHANNEL], "live", _BODY)
                await asyncio.sleep(0.05)
            await asyncio.to_thread(sys.stdin.readline)
            print(_cpu() - before, flush=True)
            await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    """Serve until the other side ends it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
