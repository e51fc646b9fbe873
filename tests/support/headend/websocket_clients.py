"""The broadcaster behind the real server, and raw WebSocket clients of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from api.http.application import PlainApplication
from api.pusher.grants import FindHolding, none_hold
from api.pusher.limits import PusherSettings
from api.pusher.socket import Broadcaster
from headend.config.listen_sockets import bind
from headend.http.server import serving
from tests.support.e2e.service import SCALE

KEY = "0123456789abcdef0123"
SECRET = "a secret of tests"
DEADLINE = 10.0 * SCALE

Json = dict[str, Any]  # Any: what the tests are about to find out


async def not_found_app(scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
    """The application behind the broadcaster: answers 404."""
    if scope["type"] == "lifespan":
        for each in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{each}.complete"})
        return
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"other"})


class BroadcastServer(msgspec.Struct, frozen=True):
    """A server with a broadcaster."""

    broadcaster: Broadcaster
    port: int

    @classmethod
    @asynccontextmanager
    async def open(
        cls, *, find_holding: FindHolding = none_hold, **limits: object
    ) -> AsyncGenerator["BroadcastServer"]:
        broadcaster = Broadcaster(
            key=KEY,
            secret=SECRET,
            limits=msgspec.convert(limits, PusherSettings, strict=False),
            find_holding=find_holding,
        )
        with bind("127.0.0.1:0") as sock:
            async with (
                asyncio.TaskGroup() as tasks,
                serving(broadcaster.in_front_of(PlainApplication(not_found_app)), sock),
                broadcaster.disconnecting_at_exit(),
            ):
                beside = [
                    tasks.create_task(broadcaster.ping_idle()),
                    tasks.create_task(broadcaster.end_ended()),
                ]
                try:
                    yield cls(broadcaster, sock.getsockname()[1])
                finally:
                    for task in beside:
                        task.cancel()

    @asynccontextmanager
    async def client(
        self,
        path: str = f"/app/{KEY}?protocol=7&client=js&version=8.6.0&flash=false",
        *,
        origin: str | None = None,
        **options: Any,  # of the client's library
    ) -> AsyncGenerator[ClientConnection]:
        """Connect like a client of the protocol."""
        async with connect(
            f"ws://127.0.0.1:{self.port}{path}",
            origin=origin,  # pyright: ignore[reportArgumentType]  # a NewType of str
            ping_interval=None,
            **options,
        ) as client:
            yield client


async def receive_event(client: ClientConnection) -> Json:
    """Receive the next message, and decode its data."""
    async with asyncio.timeout(DEADLINE):
        outer = json.loads(await client.recv())
    with contextlib.suppress(ValueError):
        outer["data"] = json.loads(outer["data"])
    return outer


async def subscribe(client: ClientConnection, *channels: str) -> str:
    """Receive the greeting, subscribe to channels, and return the socket ID."""
    opening = await receive_event(client)
    for channel in channels:
        await client.send(client_event("pusher:subscribe", channel=channel))
        assert (await receive_event(client))["event"] == "pusher_internal:subscription_succeeded"
    return opening["data"]["socket_id"]


async def close_code(client: ClientConnection) -> int:
    """Read to the end, and return the close code."""
    async with asyncio.timeout(DEADLINE):
        with contextlib.suppress(ConnectionClosed):
            async for _ in client:
                pass
    assert client.close_code is not None
    return client.close_code


def client_event(event: str, **data: object) -> str:
    return json.dumps({"event": event, "data": data})


def run_on_uvloop(
    scenario: Callable[[], Coroutine[Any, Any, None]],
) -> None:  # Any: of any coroutine
    """Run a coroutine on uvloop, the event loop of the service."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
