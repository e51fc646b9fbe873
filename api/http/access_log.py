"""The access log: one line for each request that was answered, without anything secret.

A line names the route by its template and not by the address that was asked for: addresses hold
names that are not for a log, and queries and headers hold tokens. What no route fits is `unknown`.
Requests of viewers are many and tell little; they are logged where `everything` is wanted.
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

from storage.catalog.records.common import Principal

__all__ = ["AccessLog"]

log = logging.getLogger(__name__)

# Callers' addresses; all others are viewers'.
_ROOMS: Final = ("/api/", "/apps/", "/broadcasting/")
_UNKNOWN: Final = "unknown"
# The client went away before it was answered.
_NO_STATUS: Final = 0


class AccessLog:
    """An application whose requests are logged.

    `address_of` names the client of a request; `clock` is in seconds and never goes back. Playback
    that needs no application around it passes by: where `everything` is wanted, do not offer it.
    """

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
        wanted = scope["type"] == "http" and (
            self._everything or str(scope["path"]).startswith(_ROOMS)
        )
        if not wanted:
            await self._app(scope, receive, send)
            return
        status, sent, taken = _NO_STATUS, 0, 0

        async def told(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                sent += len(message["body"])
            await send(message)

        async def heard() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal taken
            message = await receive()
            if message["type"] == "http.request":
                taken += len(message["body"])
            return message

        began = self._clock()
        try:
            await self._app(scope, heard, told)
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
                    "bytes_in": taken,
                    "bytes_out": sent,
                    "token": caller.id if isinstance(caller, Principal) else None,
                },
            )
