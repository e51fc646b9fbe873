"""uvicorn's HTTP protocol with limits on connections, incomplete requests and unread answers.

uvicorn alone accepts every connection, waits forever for the head of a request, buffers as much of
it as arrives, queues any number of pipelined requests, reads without end what follows an answered
request, and waits forever for a client to read an answer. Here, limits apply to the number of
connections (see `headend.http.connections`), to bytes that complete neither a head nor a body, and
to requests that wait for the answer to another. A connection must complete its request, and read
its answer, within some seconds. A handler that reads a body limits its duration itself.
"""

import asyncio
from collections import deque
from enum import Enum, auto
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.http.fair_share import Holder
from headend.http.connections import ConnectionLimiter
from headend.http.websockets import SocketProtocol

__all__ = ["HEAD_BYTES", "BoundedProtocol"]

# Clients and proxies limit heads to 8 to 32 KiB.
HEAD_BYTES: Final = 64 * 1024
# Browsers send 20 and proxies add 10. A field of a few bytes takes 150 in memory, so a head full of
# them would take 1.2 MB.
_MOST_FIELDS: Final = 128
# Browsers open connections in advance; reopening one costs little.
_HEAD_SECONDS: Final = 30.0
# For the rest of a refused request; if cut off at once, the client would not see the answer.
_LINGER_SECONDS: Final = 10.0
# A client takes this much of an answer in this time, or all that is left: 1 KiB/s, for a phone in a
# tunnel. Players fetch a segment of 4 s in less than that.
_WRITE_SECONDS: Final = 60.0
_WRITE_BYTES: Final = 64 * 1024
# Requests that come before the answer to an earlier one. Browsers and proxies send none, a few
# programs send some; each that waits holds 2 KB.
_MOST_PIPELINED: Final = 32
# An idle connection: players send the next request within a target duration, 4 s.
_KEEP_ALIVE_SECONDS: Final = 5
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class _Stage(Enum):
    """The position of the parser in the stream of requests."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


# In place of a queue and an event for each connection, 0.7 KB each, which few connections need.
_NOTHING_QUEUED: Final = deque[Any](maxlen=0)
_WRITABLE: Final = asyncio.Event()
_WRITABLE.set()


class _FlowControl(FlowControl):
    """uvicorn's flow control, with an event only while the client does not read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_writable_event = _WRITABLE

    def pause_writing(self) -> None:
        if not self.write_paused:
            self._is_writable_event = asyncio.Event()
        super().pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_writable_event = _WRITABLE


class BoundedProtocol(HttpToolsProtocol):
    """One connection; tests set the seconds, a server its limiter."""

    # uvicorn's attributes are in a dictionary; with these it would be twice as large.
    __slots__ = (
        "_charged",
        "_deadline",
        "_heads",
        "_is_proxied",
        "_peer",
        "_pending_bytes",
        "_place",
        "_refused",
        "_stage",
        "_unsent_bytes",
        "_write_deadline",
    )

    head_seconds: float = _HEAD_SECONDS
    linger_seconds: float = _LINGER_SECONDS
    write_seconds: float = _WRITE_SECONDS
    keep_alive_seconds: float = _KEEP_ALIVE_SECONDS
    limiter: ConnectionLimiter

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the time until the first head, or refuse a connection beyond the limit."""
        super().connection_made(transport)
        # A single byte that the socket does not accept pauses the writer.
        transport.set_write_buffer_limits(high=0)
        self.timeout_keep_alive = self.keep_alive_seconds
        self.flow = _FlowControl(transport)
        self.pipeline = _NOTHING_QUEUED
        self._stage = _Stage.BETWEEN
        self._pending_bytes = self._heads = 0
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._unsent_bytes = 0
        self._charged: tuple[Holder, ...] = ()
        self._peer = self.client[0] if self.client else None
        self._place = self.limiter.accept(self._peer)
        self._is_proxied = self.limiter.is_proxy(self._peer)
        if self._place is None:
            self._refuse(_BUSY)
        else:
            self._start_timer(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and release the connection's place."""
        self._stop_timer()
        self._stop_write_timer()
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and limit the size and duration of an incomplete request."""
        if self._refused:
            return
        self._pending_bytes += len(data)
        self._heads = 0
        super().data_received(data)
        # Most requests arrive whole and need no timer.
        if self._stage is _Stage.BETWEEN or self.transport.is_closing():
            return
        if self._pending_bytes > HEAD_BYTES or len(self.headers) > _MOST_FIELDS:
            answers = self._stage is _Stage.HEAD and not self._is_answering()
            self._refuse(_TOO_LARGE if answers else b"")
        elif self._deadline is None:
            if self._stage is _Stage.HEAD:
                self._start_timer(self.head_seconds)
            elif not self._is_answering():  # no handler reads the rest
                self._start_timer(self.linger_seconds)

    def pause_writing(self) -> None:
        """Pause the writer, and limit the time that the client takes to read."""
        super().pause_writing()
        if self._write_deadline is None:
            self._start_write_timer()

    def resume_writing(self) -> None:
        """Resume the writer: the client has read what was written."""
        self._stop_write_timer()
        super().resume_writing()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol, which has its own limits."""
        if self._refused:
            return
        if self._is_answering():  # an earlier answer would be written among the frames
            self._refuse(b"")
            return
        self._stage = _Stage.BETWEEN
        self._stop_timer()
        self._stop_write_timer()
        super().handle_websocket_upgrade()
        protocol = cast("SocketProtocol", self.transport.get_protocol())
        protocol.on_lost = self._leave

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._stage = _Stage.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handle a complete head, or refuse a request beyond the limits."""
        if self._refused:
            return
        self._stage = _Stage.BODY
        self._pending_bytes = 0
        self._stop_timer()
        # Started by an answer that was complete before the rest of its packet was parsed.
        self._unset_keepalive_if_required()
        self._heads += 1
        if max(self._heads - 1, len(self.pipeline)) >= _MOST_PIPELINED:
            self._refuse(b"")
        elif len(self.headers) > _MOST_FIELDS:
            self._refuse(b"" if self._is_answering() else _TOO_LARGE)
        elif self._is_proxied and not self._charge():
            self._refuse(b"" if self._is_answering() else _BUSY)
        else:
            self.handle_head()

    def handle_head(self) -> None:
        """Pass a request to the application."""
        if self._is_answering() and self.pipeline is _NOTHING_QUEUED:
            self.pipeline = deque()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body."""
        if self._refused:
            return
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        if self._refused:
            return
        self._stage = _Stage.BETWEEN
        self._pending_bytes = 0
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for one."""
        self._discharge()
        super().on_response_complete()

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

    def _start_write_timer(self) -> None:
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._write_deadline = self.loop.call_later(self.write_seconds, self._on_write_timeout)

    def _stop_write_timer(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _on_write_timeout(self) -> None:
        """Drop a client that reads next to nothing, even if the connection is closing."""
        if self._unsent_bytes - self.transport.get_write_buffer_size() < _WRITE_BYTES:
            self.transport.abort()
        else:
            self._start_write_timer()

    def _refuse(self, answer: bytes) -> None:
        """Close the connection with an answer, or with b"" without one; parse nothing more."""
        self._refused = True
        if answer:
            self.transport.write(answer)
        self.transport.close()

    def _charge(self) -> bool:
        """Charge the connection to the client that a proxy forwards it for."""
        self._discharge()
        holders = self.limiter.charge(self._peer or "", self.headers)
        self._charged = holders or ()
        return holders is not None

    def _discharge(self) -> None:
        if self._charged:
            self.limiter.discharge(self._charged)
            self._charged = ()

    def _leave(self) -> None:
        """Release what the connection holds; called by the protocol that handles its end."""
        self._discharge()
        if self._place is not None:
            self.limiter.release(self._place)
            self._place = None
