"""uvicorn's HTTP protocol with limits on the size and duration of incomplete requests.

uvicorn alone waits forever for the head of a request, buffers as much of it as arrives, and reads
without end what follows an answered request. Here, bytes that complete neither a head nor a body
are limited, and a connection must complete its request within some seconds. The duration of a body
that a handler reads is the handler's to limit.
"""

import asyncio
from enum import Enum, auto
from typing import Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["HEAD_BYTES", "BoundedProtocol"]

# Clients and proxies limit heads to 8 to 32 KiB.
HEAD_BYTES: Final = 64 * 1024
# Browsers open connections in advance; reopening one costs little.
_HEAD_SECONDS: Final = 30.0
# For the rest of a refused request; if cut off at once, the client would not see the answer.
_LINGER_SECONDS: Final = 10.0
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Stage(Enum):
    """The position of the parser in the stream of requests."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class BoundedProtocol(HttpToolsProtocol):
    """One connection; tests set the seconds."""

    head_seconds: float = _HEAD_SECONDS
    linger_seconds: float = _LINGER_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and limit the time until the first head."""
        super().connection_made(transport)
        self._stage = _Stage.BETWEEN
        self._pending_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._start_timer(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """End and cancel the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and limit the size and duration of an incomplete request."""
        self._pending_bytes += len(data)
        super().data_received(data)
        # Most requests arrive whole and need no timer.
        if self._stage is _Stage.BETWEEN or self.transport.is_closing():
            return
        if self._pending_bytes > HEAD_BYTES:
            self._refuse()
        elif self._deadline is None:
            if self._stage is _Stage.HEAD:
                self._start_timer(self.head_seconds)
            elif not self._is_answering():  # no handler reads the rest
                self._start_timer(self.linger_seconds)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol, which has its own limits."""
        self._stage = _Stage.BETWEEN
        self._stop_timer()
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._stage = _Stage.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handle a complete head."""
        self.head_came()
        super().on_headers_complete()

    def head_came(self) -> None:
        """Note that a head is whole; for who handles it without `on_headers_complete`."""
        self._stage = _Stage.BODY
        self._pending_bytes = 0
        self._stop_timer()

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body."""
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._stage = _Stage.BETWEEN
        self._pending_bytes = 0
        self._stop_timer()
        super().on_message_complete()

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _start_timer(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_timeout(self) -> None:
        self._deadline = None
        if self.flow.read_paused:  # this side paused reading
            self._start_timer(self.head_seconds)
        else:
            self.transport.close()

    def _refuse(self) -> None:
        """Close the connection, with an answer unless another one is being sent."""
        if self._stage is _Stage.HEAD and not self._is_answering():
            self.transport.write(_TOO_LARGE)
        self.transport.close()
