"""uvicorn's HTTP protocol with limits on connections, incomplete requests and unread answers.

uvicorn alone accepts every connection, waits forever for the head of a request, buffers as much of
it as arrives, queues any number of pipelined requests, reads without end what follows an answered
request, and waits forever for a client to read an answer. Here, limits apply to the number of
connections (see `headend.http.connections`), to bytes that complete neither a head nor a body, and
to requests that wait for the answer to another. A connection must complete its request, and read
its answer, within some seconds. A handler that reads a body limits its duration itself.

A proxy in front shares its connections to this server among strangers. So a head whose end or whose
host the two might read differently is refused (RFC 9112, sections 3.2, 6.3 and 11.2): one that
offers another protocol and has a body, has a transfer coding other than chunked, or does not name
exactly one host. Nothing after an offer of another protocol is parsed as HTTP, and trailer fields
are not header fields.
"""

import asyncio
from collections import deque
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from websockets.http11 import MAX_LINE_LENGTH

from headend.http.closing_answer import ClosingAnswer
from headend.http.connections import ConnectionLimiter
from headend.http.websockets import SocketProtocol
from media.fair_share import Holder

# Clients and proxies limit heads to 8 to 32 KiB.
HEAD_BYTES: Final = 64 * 1024
# Browsers send 20 and proxies add 10. A field of a few bytes takes 150 in memory, so a head full of
# them would take 1.2 MB.
_MOST_FIELDS: Final = 128
# Browsers open connections in advance; reopening one costs little.
_HEAD_SECONDS: Final = 30.0
# Of a connection that the server has accepted before it stops: its request is on its way.
_LAST_HEAD_SECONDS: Final = 1.0
# For the rest of a refused request; if cut off at once, the client would not see the answer.
_LINGER_SECONDS: Final = 10.0
# A client takes this much of an answer in this time, or all that is left: 1 KiB/s, for a phone in a
# tunnel. Players fetch a segment of 4 s in less than that.
_WRITE_SECONDS: Final = 60.0
_WRITE_BYTES: Final = 64 * 1024
# Versions that know no Host.
_WITHOUT_HOST: Final = frozenset({"0.9", "1.0"})
# Requests that come before the answer to an earlier one. Browsers and proxies send none, a few
# programs send some; each that waits holds 2 KB.
_MOST_PIPELINED: Final = 32
# An idle connection: players send the next request within a target duration, 4 s.
_KEEP_ALIVE_SECONDS: Final = 5
# The web-socket library reads no longer line of a head.
_SOCKET_LINE_BYTES: Final = MAX_LINE_LENGTH - len(b"GET  HTTP/1.1\r\n")


_TOO_LARGE: Final = ClosingAnswer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head of the request is too large."
)
_BUSY: Final = ClosingAnswer(
    HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections: try again later.", "retry-after: 5\r\n"
)
_NOT_HTTP: Final = ClosingAnswer(HTTPStatus.BAD_REQUEST, "The request is not valid HTTP.")
_NOT_ONE_HOST: Final = ClosingAnswer(HTTPStatus.BAD_REQUEST, "A request must name one Host.")
_UNKNOWN_CODING: Final = ClosingAnswer(
    HTTPStatus.BAD_REQUEST, "The only supported Transfer-Encoding is chunked."
)
_UPGRADE_WITH_BODY: Final = ClosingAnswer(
    HTTPStatus.BAD_REQUEST, "A request with Upgrade must not have a body."
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
        "_becomes_socket",
        "_charged",
        "_deadline",
        "_heads",
        "_is_draining",
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
        self._refused = self._becomes_socket = self._is_draining = False
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

    def shutdown(self) -> None:
        """End after the answers to what has been requested, or is being requested."""
        self._is_draining = True
        if self._deadline is not None and self._stage is not _Stage.BODY:
            self._stop_timer()
            self._start_timer(_LAST_HEAD_SECONDS)
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and limit the size and duration of an incomplete request."""
        if self._refused:
            return
        self._pending_bytes += len(data)
        self._heads = 0
        if self._stage is _Stage.BODY:  # the rest of an answered request has a time of its own
            self._unset_keepalive_if_required()
        self._parse(data)
        if self._refused or self.transport.is_closing():
            return
        # Most requests arrive whole and need no timer.
        if self._stage is _Stage.BETWEEN:
            if self.timeout_keep_alive_task is None and self._deadline is None:
                self._wait_for_next_request()
            self._count_as_idle()
            return
        if self._pending_bytes > HEAD_BYTES or len(self.headers) > _MOST_FIELDS:
            self._refuse(_TOO_LARGE)
        elif self._deadline is None:
            if self._stage is _Stage.HEAD:
                self._start_timer(self.head_seconds)
            elif not self._is_answering():  # no handler reads the rest
                self._start_timer(self.linger_seconds)

    def _parse(self, data: bytes) -> None:
        if self.parser is None:
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(_NOT_HTTP)
        except httptools.HttpParserUpgrade:
            if self._becomes_socket:
                self.handle_websocket_upgrade()
            elif not self._refused:
                # The request is answered, and nothing after it is parsed: a proxy may read that as
                # a request, and what this server answers must not depend on it.
                self._refused = True
                super().shutdown()

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
            self._refuse(None)
            return
        self._refused = True  # no more HTTP
        self._stop_timer()
        self._stop_write_timer()
        super().handle_websocket_upgrade()
        protocol = cast("SocketProtocol", self.transport.get_protocol())
        protocol.on_lost = self._leave

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._unset_keepalive_if_required()
        self._stage = _Stage.HEAD
        self._becomes_socket = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handle a complete head, or refuse a request beyond the limits."""
        if self._refused:
            return
        self._pending_bytes = 0
        self._stop_timer()
        self._heads += 1
        refusal = self._refusal_of_head()
        if refusal is not None:
            self._refuse(refusal)
            return
        self.handle_head()
        self._stage = _Stage.BODY
        # Trailer fields are collected here and never read: the request keeps the list of its head.
        self.headers = []

    def _refusal_of_head(self) -> ClosingAnswer | None:
        """Return the refusal of a complete head, None if it is handled."""
        if max(self._heads - 1, len(self.pipeline)) >= _MOST_PIPELINED:
            return _BUSY
        if len(self.headers) > _MOST_FIELDS:
            return _TOO_LARGE
        refusal = None if self._is_plain() else self._refusal_of_framing()
        if refusal is None and self._is_proxied and not self._charge():
            return _BUSY
        return refusal

    def _is_plain(self) -> bool:
        """Return True for most heads: no field twice, a host, no chunks, no other protocol."""
        fields = dict(self.headers)
        return (
            len(fields) == len(self.headers)
            and b"host" in fields
            and b"transfer-encoding" not in fields
            and self.parser is not None
            and not self.parser.should_upgrade()
        )

    def _refusal_of_framing(self) -> ClosingAnswer | None:
        """Return the refusal of a head that a proxy may read in another way, None of others."""
        parser = self.parser
        if parser is None:
            return None
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts != 1 and (hosts or parser.get_http_version() not in _WITHOUT_HOST):
            return _NOT_ONE_HOST
        coding = self._field(b"transfer-encoding").lower()
        if coding not in (b"", b"chunked"):
            return _UNKNOWN_CODING
        if not parser.should_upgrade():
            return None
        # httptools takes a head with an upgrade for the whole message, and what follows for the
        # other protocol.
        if coding or self._field(b"content-length").strip(b"0"):
            return _UPGRADE_WITH_BODY
        # The handshake needs HTTP/1.1 (RFC 6455, section 4.1).
        self._becomes_socket = super()._should_upgrade() and parser.get_http_version() == "1.1"
        lines = (len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if self._becomes_socket and max(lines) > _SOCKET_LINE_BYTES:
            return _TOO_LARGE
        return None

    def _field(self, name: bytes) -> bytes:
        """Return the values of a header field, joined as one (RFC 9110, section 5.3)."""
        return b", ".join(value.strip() for each, value in self.headers if each == name)

    def handle_head(self) -> None:
        """Pass a request to the application."""
        if self._is_answering() and self.pipeline is _NOTHING_QUEUED:
            self.pipeline = deque()
        super().on_headers_complete()
        if self._is_draining:
            self.cycle.keep_alive = False

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
        # A web-socket is charged until its end.
        if self._charged and not self._becomes_socket and not self._is_answering():
            self._discharge()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for one.

        The rest of a request that is answered early keeps its connection busy: the client that
        sends it is charged until it is complete.
        """
        if self._charged and self._stage is _Stage.BETWEEN:
            self._discharge()
        super().on_response_complete()
        self._count_as_idle()

    def give_way(self) -> None:
        """Close the connection, which is idle, and leave its place to another."""
        self._refused = True
        self._leave()
        self.transport.close()

    def _count_as_idle(self) -> None:
        """Let a proxy's connection be closed for a newcomer while it waits for its next request."""
        if not self._is_proxied:  # nearly all: they are asked twice for each request
            return
        is_waiting = self._stage is _Stage.BETWEEN and self.timeout_keep_alive_task is not None
        if is_waiting and self._place is not None:
            self.limiter.add_idle(self)

    def _unset_keepalive_if_required(self) -> None:
        if self._is_proxied:
            self.limiter.remove_idle(self)
        # As uvicorn does, which is asked twice for each request.
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _should_upgrade(self) -> bool:
        """Return True for a web-socket, as decided at the end of the head."""
        return self._becomes_socket

    def _wait_for_next_request(self) -> None:
        """Limit the time of a connection whose answer was complete before its request was."""
        if not self._is_answering():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

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

    def _refuse(self, refusal: ClosingAnswer | None) -> None:
        """Close the connection, with an answer if it can be read as one; parse nothing more."""
        parser = self.parser
        if refusal is not None and self._may_answer():
            is_head = parser is not None and parser.get_method() == b"HEAD"
            self.transport.write(refusal.head + (b"" if is_head else refusal.body))
        self._refused = True
        self.transport.close()

    def _may_answer(self) -> bool:
        """Return True if what is written now is the answer to the request that is being parsed."""
        if self._stage is _Stage.BODY:
            return not (self.cycle.response_started or self.pipeline)
        return not self._is_answering()

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
            self.limiter.remove_idle(self)
            self.limiter.release(self._place)
            self._place = None
