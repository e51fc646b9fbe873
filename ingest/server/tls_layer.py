"""TLS of an encoder's connection: decrypts what its transport reads, encrypts what it writes.

Not by the event loop, whose TLS goes on reading while a connection is deferred: what it has read
but not decrypted is lost when the encoder resets the connection, as ffmpeg sometimes does. Here
whatever was read is decrypted and passed on at once, so reads over TLS can be batched as well
(`ingest.server.read_batcher`).
"""

import asyncio
import contextlib
import ssl
from typing import Final, Protocol, cast

# The most plaintext that OpenSSL returns at once: one record.
_RECORD_BYTES: Final = 16 << 10


class SecuredConnection(Protocol):
    """What uses the layer: an asyncio protocol whose data are plaintext."""

    def connection_made(
        self, transport: asyncio.BaseTransport, tls: "TlsLayer | None" = None
    ) -> None:
        """Begin after the handshake; what is to be encrypted is written to `tls`."""
        ...

    def data_received(self, data: bytes) -> None:
        """Handle what one read brought."""
        ...

    def read_failed(self, error: OSError) -> None:
        """Handle the loss of the connection, which its transport does not report."""
        ...

    def pause_writing(self) -> None:
        """Handle a peer that does not read."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """End, if it has begun."""
        ...


class TlsLayer(asyncio.Protocol):
    """The asyncio protocol between an accepted socket's transport and its connection."""

    def __init__(self, connection: SecuredConnection, context: ssl.SSLContext) -> None:
        self._connection = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport | None = None
        self._handshake_ended = asyncio.Event()
        self._is_open = False
        self._error: OSError | None = None

    # -- what the listener and the connection call ------------------------------------------------

    async def handshake(self, seconds: float) -> None:
        """Wait for the handshake; after `seconds` without one, drop the connection.

        Raises:
            OSError: there was none, for the reason that is its text.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._handshake_ended.wait()
        except TimeoutError:
            raise TimeoutError(f"not complete after {seconds:g} s") from None
        finally:
            if self._transport is not None and not self._handshake_ended.is_set():
                self._transport.abort()
        if not self._is_open:
            raise self._error or ConnectionResetError("the peer closed it")

    def write(self, data: bytes) -> None:
        """Encrypt and write; nothing once the connection is closing."""
        try:
            while data:
                data = data[self._tls.write(data) :]
        except ssl.SSLError as error:
            self._fail(error)
        self._write_out()

    def close(self) -> None:
        """Write TLS's own goodbye (close_notify), and close once all is written."""
        with contextlib.suppress(ssl.SSLError):  # that of the peer has not come: not waited for
            self._tls.unwrap()
        self._write_out()
        if self._transport is not None:
            self._transport.close()

    # -- what the loop and the batcher call -------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the peer's first words."""
        # Always what connect_accepted_socket makes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes | memoryview) -> None:
        """Decrypt all that came, and pass it on before what ended it is handled."""
        self._incoming.write(data)
        plain: list[bytes] = []
        try:
            self._shake_hands()
            while part := self._tls.read(_RECORD_BYTES):
                plain.append(part)
            end: ssl.SSLError | None = None  # its close_notify
        except ssl.SSLError as error:
            end = error
        if plain:
            self._connection.data_received(b"".join(plain))
        self._write_out()
        if end is None:
            self.close()
        elif not isinstance(end, ssl.SSLWantReadError):
            self._fail(end)

    def read_failed(self, error: OSError) -> None:
        """Pass on that the connection was lost while reads were deferred."""
        self._connection.read_failed(error)

    def pause_writing(self) -> None:
        """Pass on that the peer does not read; a handshake is too short for that."""
        if self._is_open:
            self._connection.pause_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection, or the wait for its handshake."""
        if self._is_open:
            self._connection.connection_lost(exc or self._error)
        self._handshake_ended.set()

    def _shake_hands(self) -> None:
        if not self._is_open and self._transport is not None:
            self._tls.do_handshake()
            self._is_open = True
            self._handshake_ended.set()
            self._write_out()
            self._connection.connection_made(self._transport, self)

    def _fail(self, error: ssl.SSLError) -> None:
        """Close after what the peer has done wrong, of which OpenSSL's alert tells it."""
        self._error = error
        self._handshake_ended.set()
        self._write_out()
        if self._transport is not None:
            self._transport.close()

    def _write_out(self) -> None:
        data = self._outgoing.read()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
