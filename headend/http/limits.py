"""uvicorn's HTTP protocol with an end to what a stranger may send and how long it may take.

uvicorn itself waits for ever for the head of a request, keeps as much of it as comes, and reads on
without end what comes after an answer. Here bytes that make neither a head nor a body are counted,
and a connection that leaves its request unfinished has some seconds. How long a body may take that
somebody is waiting for is for who waits to say.
"""

import asyncio
from enum import Enum, auto
from typing import Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["HEAD_BYTES", "BoundedProtocol"]

# Clients and proxies keep to 8 to 32 KiB.
HEAD_BYTES: Final = 64 * 1024
# Browsers open connections beforehand; one that was not used by then costs little to open anew.
_HEAD_SECONDS: Final = 30.0
# For what is under way when a request is refused: cut off at once, the client would not see why.
_LINGER_SECONDS: Final = 10.0
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Stage(Enum):
    """Where the parser is."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class BoundedProtocol(HttpToolsProtocol):
    """A connection; the seconds can be set for tests."""

    head_seconds: float = _HEAD_SECONDS
    linger_seconds: float = _LINGER_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; the first head is to come soon."""
        super().connection_made(transport)
        self._stage = _Stage.BETWEEN
        self._unplaced = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._wait_for(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._relieve()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and see what they leave unfinished."""
        self._unplaced += len(data)
        super().data_received(data)
        # Most requests come whole, and need no clock.
        if self._stage is _Stage.BETWEEN or self.transport.is_closing():
            return
        if self._unplaced > HEAD_BYTES:
            self._refuse()
        elif self._deadline is None:
            if self._stage is _Stage.HEAD:
                self._wait_for(self.head_seconds)
            elif not self._is_answering():  # nobody waits for the rest
                self._wait_for(self.linger_seconds)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, to a protocol with bounds of its own."""
        self._stage = _Stage.BETWEEN
        self._relieve()
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._stage = _Stage.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Make a request of a head."""
        self.head_came()
        super().on_headers_complete()

    def head_came(self) -> None:
        """Note that a head is whole; for who handles it without `on_headers_complete`."""
        self._stage = _Stage.BODY
        self._unplaced = 0
        self._relieve()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._unplaced = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._stage = _Stage.BETWEEN
        self._unplaced = 0
        self._relieve()
        super().on_message_complete()

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _wait_for(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._lose_patience)

    def _relieve(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _lose_patience(self) -> None:
        self._deadline = None
        if self.flow.read_paused:  # it is us who do not read on
            self._wait_for(self.head_seconds)
        else:
            self.transport.close()

    def _refuse(self) -> None:
        """End the connection, with a word where no other answer is under way."""
        if self._stage is _Stage.HEAD and not self._is_answering():
            self.transport.write(_TOO_LARGE)
        self.transport.close()
