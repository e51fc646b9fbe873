"""Batches the reads of all publishers on air: what came since the last batch is read at once.

A live encoder sends some hundred small pieces a second. Read as they come, each of them wakes the
process, and a wake-up costs more than the read. So a publisher on air is read every `seconds`, with
all others, and the process wakes once for all of them. The kernel holds what arrives in between:
40 KB of a 6 Mbit/s stream.

The event loop does not watch a deferred connection (its transport is paused), as it would wake for
each piece though it reads none of them: the batcher itself reads the socket. All connections share
its buffer, so a receiver copies what it keeps.

Times are seconds. The end of a connection is noticed with the next batch too: then the transport
reads on, and reports it.
"""

import asyncio
import os
import socket
from typing import Final, Protocol, cast

# As much as uvloop reads at once. What exceeds it is read by the transport, at once.
BUFFER_BYTES: Final = 256 << 10


class BatchReceiver(Protocol):
    """Gets what is read from one deferred connection."""

    def data_received(self, data: memoryview) -> None:
        """Handle what came; it is overwritten after this call."""
        ...

    def read_failed(self, error: OSError) -> None:
        """Handle the loss of the connection, which its transport does not report."""
        ...


class ReadBatcher:
    """Reads deferred connections in batches; no timer runs while there is none."""

    def __init__(self, seconds: float) -> None:
        """Make a batcher with an interval of `seconds`; 0 defers nothing."""
        self._seconds: Final = seconds
        self._deferred: dict[asyncio.Transport, BatchReceiver] = {}
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._is_waiting = False

    @property
    def deferred(self) -> int:
        """The number of connections that are deferred."""
        return len(self._deferred)

    def defer(self, transport: asyncio.Transport, receiver: BatchReceiver) -> None:
        """Read from a transport in batches, until `resume`."""
        if self._seconds and transport not in self._deferred and transport.is_reading():
            transport.pause_reading()
            self._deferred[transport] = receiver
            self._wait()

    def resume(self, transport: asyncio.Transport) -> None:
        """Read from a transport as it comes again."""
        if self._deferred.pop(transport, None) is not None and not transport.is_closing():
            transport.resume_reading()

    def _wait(self) -> None:
        if self._deferred and not self._is_waiting:
            self._is_waiting = True
            asyncio.get_running_loop().call_later(self._seconds, self._read_all)

    def _read_all(self) -> None:
        self._is_waiting = False
        for transport, receiver in list(self._deferred.items()):
            if transport.is_closing():
                del self._deferred[transport]
            else:
                self._read(transport, receiver)
        self._wait()

    def _read(self, transport: asyncio.Transport, receiver: BatchReceiver) -> None:
        sock = cast("socket.socket", transport.get_extra_info("socket"))  # as both loops provide
        try:
            count = os.readv(sock.fileno(), (self._buffer,))
        except (BlockingIOError, InterruptedError):
            return  # nothing came
        except OSError as error:
            del self._deferred[transport]
            receiver.read_failed(error)
            return
        if count:
            receiver.data_received(self._buffer[:count])
        if count in (0, BUFFER_BYTES):
            self.resume(transport)
