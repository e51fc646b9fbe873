"""uvicorn's web-socket protocol, bounded where a client does not read.

A web-socket is written to message by message, and what the socket does not take pauses the writer.
Closing does not wait for that: the close frame goes behind what is on its way, and a client that
has not taken it after some seconds is cut off.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from api.pusher.hub import FRAMES

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

__all__ = ["MAX_MESSAGE", "SocketProtocol"]

# Above what the dialogues take, so that it is they who say what is wrong.
MAX_MESSAGE: Final = 16 * 1024  # bytes
# What the kernel keeps for a client that does not read; it would let this grow to megabytes.
_KERNEL_BYTES: Final = 64 * 1024
_FAREWELL_SECONDS: Final = 5.0
# Pieces of one message. Its bytes are counted elsewhere, but there are pieces without any.
_MOST_PIECES: Final = 1024


class SocketProtocol(WebSocketsSansIOProtocol):
    """A connection after its upgrade."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection over from the HTTP protocol, which set its flow control."""
        super().connection_made(transport)
        handle: socket.socket = transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)

    async def run_asgi(self) -> None:
        """Run the application, which may write whole frames past the messages."""
        self.scope["extensions"][FRAMES] = self._write  # pyright: ignore[reportGeneralTypeIssues, reportTypedDictNotRequiredAccess, reportArgumentType]  # not among those that uvicorn's types know
        await super().run_asgi()

    def _write(self, frame: bytes) -> bool:
        """Send a whole frame if it can leave now; say whether it did."""
        if not self.writable.is_set() or self.close_sent or self.transport.is_closing():
            return False
        # No extension is spoken, so the bytes are the same for every client.
        self.transport.write(frame)
        return True

    def handle_ping(self) -> None:
        """Answer a ping, unless answers to others wait still: then the newest of all will do.

        Else a client that pings and does not read would fill the memory (RFC 6455, section 5.5.3).
        """
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """Take another piece of a message."""
        if len(self.frames) >= _MOST_PIECES:
            self.transport.abort()
            return
        super().handle_cont(event)

    async def send(self, message: "ASGISendEvent") -> None:
        """Send a message; the one that closes is not kept waiting."""
        closes = message["type"] == "websocket.close"
        if closes:
            self.writable.set()
        await super().send(message)
        if closes and self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(_FAREWELL_SECONDS, self.transport.abort)
