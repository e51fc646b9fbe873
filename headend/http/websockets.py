"""uvicorn's WebSocket protocol, with limits for clients that do not read.

A handshake must be completed within some seconds, and a head that the library does not understand
is refused: the library itself ends its parser without an answer.

Messages are written one by one, and a full socket pauses the writer. Closing does not wait for
that: the close frame follows the pending bytes, and a client that has not read it after some
seconds is disconnected.
"""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from api.pusher.hub import FRAMES
from headend.http.closing_answer import ClosingAnswer
from media.no_op import do_nothing

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


# Above the limit of the application, whose error message is better.
MAX_MESSAGE: Final = 16 * 1024  # bytes
# The kernel's send buffer, which would otherwise grow to megabytes for a client that does not read.
_KERNEL_BYTES: Final = 64 * 1024
_CLOSE_SECONDS: Final = 5.0
# From the head to the answer. The application looks nothing up before it accepts a web-socket, so
# this is time for a client to read a refusal.
_HANDSHAKE_SECONDS: Final = 10.0
_NOT_TEXT: Final = 1007  # the close code (RFC 6455, section 7.4.1)
_NOT_UNDERSTOOD: Final = ClosingAnswer(
    HTTPStatus.BAD_REQUEST, "This is not a valid web-socket handshake."
)
# Fragments of one message. Its bytes are limited elsewhere, but fragments may be empty.
_MOST_PIECES: Final = 1024


def _is_text(pieces: list[bytes]) -> bool:
    try:
        b"".join(pieces).decode()
    except UnicodeDecodeError:
        return False
    return True


class SocketProtocol(WebSocketsSansIOProtocol):
    """A connection after its upgrade; `on_lost` is called at its end."""

    on_lost: Callable[[], None] = staticmethod(do_nothing)
    handshake_seconds: float = _HANDSHAKE_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the connection from the HTTP protocol, which set up its flow control."""
        super().connection_made(transport)
        handle: socket.socket = transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
        self._deadline = self.loop.call_later(self.handshake_seconds, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Handle the head, which comes whole and first, or frames."""
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.write(_NOT_UNDERSTOOD.head + _NOT_UNDERSTOOD.body)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's place."""
        self._deadline.cancel()
        self.on_lost()
        super().connection_lost(exc)

    async def run_asgi(self) -> None:
        """Run the application with an extension for writing whole frames."""
        self.scope["extensions"][FRAMES] = self._write  # pyright: ignore[reportGeneralTypeIssues, reportTypedDictNotRequiredAccess, reportArgumentType]  # not among those that uvicorn's types know
        await super().run_asgi()

    def _write(self, frame: bytes) -> bool:
        """Send a whole frame if the socket is writable; return whether it was sent."""
        if not self.writable.is_set() or self.close_sent or self.transport.is_closing():
            return False
        # No WebSocket extension is negotiated, so the bytes are equal for all clients.
        self.transport.write(frame)
        return True

    def handle_ping(self) -> None:
        """Answer a ping, unless earlier answers still wait to be sent.

        Otherwise a client that pings without reading would fill the memory. Answering only the
        newest ping is allowed (RFC 6455, section 5.5.3).
        """
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def send_receive_event_to_app(self) -> None:
        """Pass a message on, or close the connection: uvicorn would log a traceback for each."""
        if self.curr_msg_data_type == "text" and not _is_text(self.frames):
            self.frames = []
            self.conn.send_close(_NOT_TEXT)
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Close the connection; what the application still sends is lost, which is no fault."""
        super().handle_parser_exception()
        self.disconnected = True

    def handle_cont(self, event: Frame) -> None:
        """Handle a continuation frame."""
        if len(self.frames) >= _MOST_PIECES:
            self.transport.abort()
            return
        super().handle_cont(event)

    async def send(self, message: "ASGISendEvent") -> None:
        """Send a message; a close is not delayed by flow control."""
        if message["type"] == "websocket.accept":
            self._deadline.cancel()
        closes = message["type"] == "websocket.close"
        if closes:
            self.writable.set()
        await super().send(message)
        if closes and self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)
