"""The access log: one line per answered request, without secrets.

A line has the template of the route instead of the path: paths contain secret names, queries and
headers contain tokens. A request that matches no route is `unknown`. Requests of viewers are
frequent and of little interest; they are logged only with `everything`.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from litestar.types import (
    ASGIApp,
    HTTPReceiveMessage,
    Message,
    Receive,
    Send,
    WebSocketReceiveMessage,
)

from api.http.application import FastPath
from storage.catalog.records.common import Principal

log = logging.getLogger(__name__)

# Paths of API clients and of the console; all others are for viewers.
_LOGGED_PATHS: Final = ("/api/", "/apps/", "/broadcasting/", "/console")
_UNKNOWN: Final = "unknown"
# The client disconnected before it got a response.
_NO_STATUS: Final = 0


class AccessLog:
    """An ASGI application that logs the requests to another one.

    `address_of` returns the address of the client; `clock` is monotonic, in seconds. It has no fast
    path, on which requests would not be logged.
    """

    fast_path: FastPath | None = None

    def __init__(
        self,
        app: ASGIApp,
        *,
        address_of: Callable[[Any], str],  # of a scope, which is ASGI's own map
        everything: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._address_of = address_of
        self._everything = everything
        self._clock = clock

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # ASGI's own map
        """Answer one request."""
        is_logged = scope["type"] == "http" and (
            self._everything or str(scope["path"]).startswith(_LOGGED_PATHS)
        )
        if not is_logged:
            await self._app(scope, receive, send)
            return
        status, bytes_out, bytes_in = _NO_STATUS, 0, 0

        async def send_and_count(message: Message) -> None:
            nonlocal status, bytes_out
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                bytes_out += len(message["body"])
            await send(message)

        async def receive_and_count() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal bytes_in
            message = await receive()
            if message["type"] == "http.request":
                bytes_in += len(message["body"])
            return message

        began = self._clock()
        try:
            await self._app(scope, receive_and_count, send_and_count)
        finally:
            caller = scope.get("auth")
            log.info(
                "request",
                extra={
                    "peer": self._address_of(scope),
                    "method": scope["method"],
                    "route": scope.get("path_template") or _UNKNOWN,
                    "status": status,
                    "ms": round((self._clock() - began) * 1000, 1),
                    "bytes_in": bytes_in,
                    "bytes_out": bytes_out,
                    "token": caller.id if isinstance(caller, Principal) else None,
                },
            )
