"""The web-socket at `/app/{key}`: one connection's two tasks, one that reads and one that writes.

An ASGI application in front of another, since it takes what no router need see. The server must
bound the length of a message and answer the web-socket's own pings. It is told to `close` through
`websocket.close` alone and has to let go of a client that does not take even that.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

from api.pusher.hub import FRAMES, Hub, Subscriber
from api.pusher.limits import PusherSettings
from api.pusher.protocol import (
    NOT_AUTHORISED,
    Action,
    CloseConnection,
    PusherSession,
    SendText,
    Subscribe,
    Unsubscribe,
    connection_error,
    signature,
)
from media.no_op import do_nothing

__all__ = ["PATH", "Broadcaster"]

log = logging.getLogger(__name__)

PATH: Final = "/app"

_Message = MutableMapping[str, Any]  # Any: ASGI's own
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[Any, _Receive, _Send], Awaitable[None]]  # Any: a scope

# For a last word to a client that is let go; the server drops it if it does not listen.
_LAST_SECONDS: Final = 2.0
_SWEEP_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 3.0
_PART: Final = 10**9
_LONGEST_REASON: Final = 120  # bytes; a close frame holds 123
_NEEDS_UPGRADE: Final = json.dumps({"message": "Connect to this address by web-socket."}).encode()


class Broadcaster:
    """The web-socket's side of the broadcaster; `hub` is where events come in.

    `key` and `secret` are the installation's. `sweep` must run beside it.
    """

    def __init__(
        self,
        *,
        key: str,
        secret: str,
        limits: PusherSettings,
        below: Callable[[int], int] = secrets.randbelow,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hub = Hub(limits)
        self._key = key
        self._secret = secret
        self._limits = limits
        self._below = below
        self._clock = clock
        self._origins = frozenset(
            origin.strip().rstrip("/").lower() for origin in limits.origins.split(",")
        ) - {""}
        self._open: dict[Subscriber, PusherSession] = {}

    def in_front_of(self, other: _App) -> _App:
        """Return an application that hands all but web-sockets and their addresses on to another.

        It has the same fast path as the other.
        """
        return _BroadcasterFirst(self, other)

    def admits(self, origin: str | None) -> bool:
        """Say whether pages of an origin may connect; what names no origin is no page."""
        return not self._origins or origin is None or origin.lower() in self._origins

    def sign(self, socket: str, channel: str) -> str:
        """Return the signature that lets a connection hear a private channel."""
        return signature(self._secret, f"{socket}:{channel}")

    @asynccontextmanager
    async def disconnecting_at_exit(self) -> AsyncGenerator[None, None]:
        """Tell all clients to connect again when the block ends, while the server still stands."""
        try:
            yield
        finally:
            self.hub.stop()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.hub.wait_until_empty()
            except TimeoutError:
                log.warning("sockets left", extra={"count": len(self.hub)})

    async def ping_idle(self) -> None:
        """Ping whom nobody heard of, and let go who gives no answer; for as long as it runs."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = self._clock()
            for listener, dialogue in tuple(self._open.items()):
                self._do(listener, dialogue.tick(now))

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:  # ASGI's own maps
        """Serve a web-socket; answer what came without being one."""
        if scope["type"] != "websocket":
            await _ask_for_upgrade(send)
            return
        await receive()  # websocket.connect
        path = scope["path"]
        if path != PATH and not path.startswith(f"{PATH}/"):
            await send({"type": "websocket.close"})  # before it was accepted: HTTP 403
            return
        await send({"type": "websocket.accept"})
        end = self._refusal(scope) or self.hub.refusal
        if end is not None:
            await _close(send, end)
            return
        await self._converse(scope, receive, send)

    def _refusal(self, scope: Any) -> CloseConnection | None:  # Any: ASGI's own map
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if not self.admits(origins[0].decode("latin-1") if origins else None):
            return CloseConnection(NOT_AUTHORISED, "pages of this origin may not connect")
        wanted = scope["path"].removeprefix(PATH).strip("/")
        try:
            query = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=100))
        except ValueError:  # more than anybody has to say
            query = {}
        return connection_error(key=self._key, wanted=wanted, protocol=query.get("protocol"))

    async def _converse(self, scope: Any, receive: _Receive, send: _Send) -> None:  # ASGI's own map
        """Read and write until either side has enough."""
        name = f"{self._below(_PART) + 1}.{self._below(_PART) + 1}"
        dialogue = PusherSession(
            socket=name, key=self._key, sign=self.sign, limits=self._limits, now=self._clock()
        )
        listener = Subscriber(name, self._limits)
        self.hub.add(listener)
        self._open[listener] = dialogue
        listener.enqueue(dialogue.greeting().text)
        if (write := scope.get("extensions", {}).get(FRAMES)) is not None:
            listener.send_frame = write
        try:
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(_write(listener, send))
                await self._read(listener, dialogue, receive)
                writing.cancel()
        finally:
            del self._open[listener]
            self.hub.remove(listener)

    async def _read(self, listener: Subscriber, dialogue: PusherSession, receive: _Receive) -> None:
        """Hear the client until it is gone; how long it may be silent is the sweep's to say."""
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return
            if listener.end is not None:
                continue
            # Bytes are no message of this protocol: the dialogue says so.
            self._do(listener, dialogue.receive(message.get("text") or "", self._clock()))

    def _do(self, listener: Subscriber, acts: tuple[Action, ...]) -> None:
        for act in acts:
            match act:
                case SendText(text):
                    listener.enqueue(text)
                case Subscribe(channel):
                    self.hub.subscribe(listener, channel)
                case Unsubscribe(channel):
                    self.hub.unsubscribe(listener, channel)
                case CloseConnection():
                    listener.close(act)


async def _write(listener: Subscriber, send: _Send) -> None:
    """Send what the listener is put, until its end is ordered."""
    try:
        async with asyncio.timeout(None) as patience:
            listener.on_close = _hurrying(patience)
            try:
                while (text := await listener.next()) is not None:
                    await send({"type": "websocket.send", "text": text})
            finally:
                # A timeout that is over cannot be moved any more.
                listener.on_close = do_nothing
    except TimeoutError:
        pass  # what still waits is not sent
    except OSError:
        return  # so the server says that the client is gone
    if listener.end is not None:
        log.debug("socket closed", extra={"code": listener.end.code})
        await _close(send, listener.end)


def _hurrying(patience: asyncio.Timeout) -> Callable[[float], None]:
    def hurry(seconds: float) -> None:
        patience.reschedule(asyncio.get_running_loop().time() + seconds)

    return hurry


async def _close(send: _Send, end: CloseConnection) -> None:
    """Say why, and close. The word may not get through; the code goes out in any case."""
    try:
        async with asyncio.timeout(_LAST_SECONDS):
            await send({"type": "websocket.send", "text": end.text})
    except TimeoutError:
        pass
    except OSError:
        return
    try:
        async with asyncio.timeout(_LAST_SECONDS):
            reason = end.reason[:_LONGEST_REASON]
            await send({"type": "websocket.close", "code": end.code, "reason": reason})
    except OSError:  # gone, or too slow (a TimeoutError is one)
        return


async def _ask_for_upgrade(send: _Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(_NEEDS_UPGRADE)).encode()),
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 426, "headers": headers})
    await send({"type": "http.response.body", "body": _NEEDS_UPGRADE})


class _BroadcasterFirst:
    """See `Broadcaster.in_front_of`."""

    def __init__(self, broadcaster: Broadcaster, other: _App) -> None:
        self._broadcaster = broadcaster
        self._other = other
        if (fast_path := getattr(other, "fast_path", None)) is not None:
            self.fast_path = fast_path

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:  # ASGI's own maps
        """Hand a request on."""
        kind = scope["type"]
        mine = kind == "websocket" or (
            kind == "http" and (scope["path"] == PATH or scope["path"].startswith(f"{PATH}/"))
        )
        await (self._broadcaster if mine else self._other)(scope, receive, send)
