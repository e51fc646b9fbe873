"""A TCP relay on loopback that can simulate a dead network.

While it is dark, it passes nothing in either direction: connections stay open, and sent bytes fill
the kernels' buffers until the sender blocks. Afterwards the bytes arrive at once and in order, as
after TCP's retransmission. `cut` resets the connections instead, as a router may do.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tests.support.in_thread import in_thread

_STOP_SECONDS: Final = 5.0
_PIECE: Final = 16 * 1024
_LINGER: Final = struct.pack("ii", 1, 0)  # closing sends a reset
# Small, so that a sender blocks within seconds, as on a real uplink.
_BUFFER: Final = 64 * 1024


class Relay:
    """Relays from `port` of 127.0.0.1 to another port of the same machine.

    What is sent to that one is added to `sent`, if it is given.
    """

    def __init__(self, target: int, sent: bytearray | None = None) -> None:
        self._sent = sent
        self.port = 0
        self._open = 0  # connections
        self._idle = asyncio.Event()
        self._idle.set()
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._light = asyncio.Event()
        self._light.set()
        self._over = asyncio.Event()
        self._ready = threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    def darken(self) -> None:
        """Stop passing bytes."""
        self._loop.call_soon_threadsafe(self._light.clear)

    def lighten(self) -> None:
        """Pass bytes again."""
        self._loop.call_soon_threadsafe(self._light.set)

    def cut(self) -> None:
        """Reset all connections."""
        self._loop.call_soon_threadsafe(self._reset)

    def _reset(self) -> None:
        for writer in self._writers:
            if writer.transport.is_closing():
                continue
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            writer.transport.abort()

    def run(self) -> None:
        """Relay until `stop`."""
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._end_tasks()
            self._loop.close()

    def _end_tasks(self) -> None:
        """Cancel what is still relayed, such as a connection that came during the end."""
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))

    def started(self) -> None:
        """Wait until `port` is known."""
        assert self._ready.wait(10)
        assert self.port, "no relay"

    def stop(self) -> None:
        """Reset what is open and end."""
        self._loop.call_soon_threadsafe(self._over.set)

    async def _serve(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        server = await asyncio.start_server(self._relay, sock=listener, limit=_PIECE)
        self.port = listener.getsockname()[1]
        self._ready.set()
        async with server:
            await self._over.wait()
            self._light.set()
            self._reset()
            async with asyncio.timeout(_STOP_SECONDS):
                await self._idle.wait()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        self._idle.clear()
        self._writers.add(writer)
        try:
            await self._carry(reader, writer)
        except OSError:
            pass  # the target is unreachable
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("localhost", self._target, limit=_PIECE)
        self._writers.add(requests)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, requests, self._sent))
                tasks.create_task(self._pass(answers, writer))
        finally:
            self._writers.discard(requests)
            requests.transport.abort()

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        copy: bytearray | None = None,
    ) -> None:
        try:
            while data := await source.read(_PIECE):
                await self._light.wait()
                if copy is not None:
                    copy += data
                target.write(data)
                await target.drain()
            await self._light.wait()
            target.write_eof()
        except OSError:
            # One side reset the connection, as a killed encoder does that has unread bytes: pass
            # the reset on.
            await self._light.wait()
            target.transport.abort()


@contextmanager
def relaying(target: int, sent: bytearray | None = None) -> Generator[Relay]:
    """Relay to a port for the length of the block; what is sent to it is added to `sent`."""
    relay = Relay(target, sent)
    with in_thread(relay.run, relay.stop):
        relay.started()
        yield relay
