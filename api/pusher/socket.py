"""The web-socket at `/app/{key}`: a reading and a writing task per connection.

An ASGI application in front of another one, since it needs no router. The server must limit the
length of messages, answer web-socket pings, and drop a client that does not even accept a close.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Set
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

from api.http.application import Application
from api.http.browser_headers import DATA_POLICY
from api.http.caller_limits import peer_address
from api.pusher.grants import FindHolding, none_hold
from api.pusher.hub import FRAMES, Hub, Subscriber
from api.pusher.limits import PusherSettings
from api.pusher.protocol import (
    NOT_AUTHORISED,
    Action,
    ChannelGrant,
    CheckGrant,
    CloseConnection,
    PusherSession,
    SendText,
    Subscribe,
    Unsubscribe,
    connection_error,
    signature,
)
from media.fair_share import client_holders
from media.no_op import do_nothing
from storage.errors import StorageError

log = logging.getLogger(__name__)

PATH: Final = "/app"

_Message = MutableMapping[str, Any]  # Any: ASGI's own
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

# For the last message to a client that is disconnected; then the server drops it.
_LAST_SECONDS: Final = 2.0
_SWEEP_SECONDS: Final = 1.0
# Between looks for ended tokens and sessions: a query or two, of those that open channels here.
_LOOK_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 3.0
_PART: Final = 10**9
_LONGEST_REASON: Final = 120  # bytes; a close frame holds 123
_NEEDS_UPGRADE: Final = json.dumps({"message": "Connect to this address by web-socket."}).encode()


class Broadcaster:
    """Accepts web-sockets; `hub` delivers events to them.

    `key` and `secret` are those of the installation; `address_of` returns the client's address of a
    scope; `find_holding` which tokens and sessions still open private channels. `ping_idle` and
    `end_ended` must run beside it.
    """

    def __init__(
        self,
        *,
        key: str,
        secret: str,
        limits: PusherSettings,
        address_of: Callable[[Any], str] = peer_address,  # of ASGI's own map
        find_holding: FindHolding = none_hold,
        below: Callable[[int], int] = secrets.randbelow,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hub = Hub(limits)
        self._key = key
        self._secret = secret
        self._limits = limits
        self._address_of = address_of
        self._find_holding = find_holding
        # Since the last look: after a restart, thousands of sockets join by one visitors' token.
        self._held: dict[ChannelGrant, bool] = {}
        self._is_blind = False  # the catalog does not answer
        self._below = below
        self._clock = clock
        self._origins = frozenset(
            origin.strip().rstrip("/").lower() for origin in limits.origins.split(",")
        ) - {""}
        self._open: dict[Subscriber, PusherSession] = {}

    def in_front_of(self, other: Application) -> Application:
        """Return an application that passes all but web-sockets and their path to `other`.

        It has the same fast path as `other`.
        """
        return _BroadcasterFirst(self, other)

    def admits(self, origin: str | None) -> bool:
        """Return True if pages of an origin may connect; clients without one are not pages."""
        return not self._origins or origin is None or origin.lower() in self._origins

    def sign(self, socket: str, channel: str) -> str:
        """Return the signature for a subscription of a socket to a private channel."""
        return signature(self._secret, f"{socket}:{channel}")

    @asynccontextmanager
    async def disconnecting_at_exit(self) -> AsyncGenerator[None, None]:
        """Make all clients reconnect when the block ends, while the server still runs."""
        try:
            yield
        finally:
            self.hub.stop()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.hub.wait_until_empty()
            except TimeoutError:
                log.warning("sockets still open", extra={"count": len(self.hub)})

    async def ping_idle(self) -> None:
        """Ping silent clients and close those that do not answer, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = self._clock()
            for subscriber, session in tuple(self._open.items()):
                self._do(subscriber, session.tick(now))

    async def end_ended(self) -> None:
        """End subscriptions to private channels whose token or session has ended, until cancelled.

        All processes with sockets look for themselves, so it does not matter where one ended.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._held.clear()
            grants = {grant for session in self._open.values() for grant in session.grants}
            if not grants:
                continue
            ended = grants - await self._holding(grants)
            if not ended:
                continue
            for subscriber, session in tuple(self._open.items()):
                self._do(subscriber, session.end_grants(ended))

    async def _holding(self, grants: set[ChannelGrant]) -> Set[ChannelGrant]:
        """Return which grants still hold; all, while the catalog does not answer.

        Then there are no events either, for they come out of it.
        """
        try:
            holding = await self._find_holding(grants)
        except StorageError as error:
            if not self._is_blind:
                log.warning("private channels not checked", extra={"reason": str(error)})
            self._is_blind = True
            return grants
        self._is_blind = False
        return holding

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:  # ASGI's own maps
        """Serve a web-socket; answer a plain HTTP request with 426."""
        if scope["type"] != "websocket":
            await _require_upgrade(send)
            return
        await receive()  # websocket.connect
        path = scope["path"]
        if path != PATH and not path.startswith(f"{PATH}/"):
            await send({"type": "websocket.close"})  # before it was accepted: HTTP 403
            return
        await send({"type": "websocket.accept"})
        holders = client_holders(self._address_of(scope))
        end = self._refusal(scope) or self.hub.admit(holders)
        if end is not None:
            await _close(send, end)
            return
        try:
            await self._serve(scope, receive, send)
        finally:
            self.hub.leave(holders)

    def _refusal(self, scope: Any) -> CloseConnection | None:  # Any: ASGI's own map
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if not self.admits(origins[0].decode("latin-1") if origins else None):
            return CloseConnection(NOT_AUTHORISED, "pages of this origin may not connect")
        requested_key = scope["path"].removeprefix(PATH).strip("/")
        try:
            query = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=100))
        except ValueError:  # too many parameters
            query = {}
        return connection_error(
            key=self._key, requested_key=requested_key, protocol=query.get("protocol")
        )

    async def _serve(self, scope: Any, receive: _Receive, send: _Send) -> None:  # ASGI's own map
        """Read and write until either side closes."""
        name = f"{self._below(_PART) + 1}.{self._below(_PART) + 1}"
        session = PusherSession(
            socket=name, key=self._key, sign=self.sign, limits=self._limits, now=self._clock()
        )
        subscriber = Subscriber(name, self._limits)
        self.hub.add(subscriber)
        self._open[subscriber] = session
        subscriber.enqueue(session.greeting().text)
        if (write := scope.get("extensions", {}).get(FRAMES)) is not None:
            subscriber.send_frame = write
        try:
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(_write(subscriber, send))
                await self._read(subscriber, session, receive)
                writing.cancel()
        finally:
            del self._open[subscriber]
            self.hub.remove(subscriber)

    async def _read(
        self, subscriber: Subscriber, session: PusherSession, receive: _Receive
    ) -> None:
        """Process messages until the client disconnects; `ping_idle` limits its silence."""
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return
            if subscriber.end is not None:
                continue
            # Many messages may have come at once: the writer sends the answers meanwhile, or they
            # would count as what a client does not read.
            await asyncio.sleep(0)
            # Binary messages are invalid: the session answers the empty text with an error.
            for action in session.receive(message.get("text") or "", self._clock()):
                if isinstance(action, CheckGrant):
                    if action.grant not in self._held:
                        holding = await self._holding({action.grant})
                        self._held[action.grant] = action.grant in holding
                    holds = self._held[action.grant]
                    self._do(subscriber, session.admit(action, holds=holds))
                else:
                    self._do(subscriber, (action,))

    def _do(self, subscriber: Subscriber, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case SendText(text):
                    subscriber.enqueue(text)
                case Subscribe(channel):
                    self.hub.subscribe(subscriber, channel)
                case Unsubscribe(channel):
                    self.hub.unsubscribe(subscriber, channel)
                case CloseConnection():
                    subscriber.close(action)
                case CheckGrant():
                    pass  # by the reader, which may wait


async def _write(subscriber: Subscriber, send: _Send) -> None:
    """Send queued messages until the connection is to be closed."""
    try:
        async with asyncio.timeout(None) as patience:
            subscriber.on_close = _deadline_setter(patience)
            try:
                while (text := await subscriber.next()) is not None:
                    await send({"type": "websocket.send", "text": text})
            finally:
                # An expired timeout cannot be rescheduled.
                subscriber.on_close = do_nothing
    except TimeoutError:
        pass  # the remaining messages are dropped
    except OSError:
        return  # raised by the server if the client has disconnected
    if subscriber.end is not None:
        log.debug("socket closed", extra={"code": subscriber.end.code})
        await _close(send, subscriber.end)


def _deadline_setter(patience: asyncio.Timeout) -> Callable[[float], None]:
    def set_deadline(seconds: float) -> None:
        patience.reschedule(asyncio.get_running_loop().time() + seconds)

    return set_deadline


async def _close(send: _Send, end: CloseConnection) -> None:
    """Send the reason and close; the message may be lost, the close code is always sent."""
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
    except OSError:  # disconnected or too slow (TimeoutError is an OSError)
        return


async def _require_upgrade(send: _Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(_NEEDS_UPGRADE)).encode()),
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", DATA_POLICY.encode()),
    ]
    await send({"type": "http.response.start", "status": 426, "headers": headers})
    await send({"type": "http.response.body", "body": _NEEDS_UPGRADE})


class _BroadcasterFirst:
    """See `Broadcaster.in_front_of`."""

    def __init__(self, broadcaster: Broadcaster, other: Application) -> None:
        self._broadcaster = broadcaster
        self._other = other
        self.fast_path = other.fast_path

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:  # ASGI's own maps
        """Pass a request to the broadcaster or to the other application."""
        kind = scope["type"]
        mine = kind == "websocket" or (
            kind == "http" and (scope["path"] == PATH or scope["path"].startswith(f"{PATH}/"))
        )
        await (self._broadcaster if mine else self._other)(scope, receive, send)
