"""The doors that encoders come through: RTMP and RTMPS sockets, limits, certificates, the drain."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from ingest.doors import Doors
from ingest.live import LiveStreams
from ingest.ports import KeyDirectory, LiveJournal, SinkFactory
from ingest.publisher import PublisherConnection, Tally
from ingest.rtmp.limits import Limits

__all__ = ["Listener", "listening"]

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.5
_BACKLOG: Final = 256


class Listener:
    """Holds the open connections; what they share is here (see `publisher.House`)."""

    def __init__(
        self,
        *,
        limits: Limits,
        directory: KeyDirectory,
        streams: LiveStreams,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.limits = limits
        self.directory = directory
        self.streams = streams
        self.tasks = tasks
        self.tally = Tally()
        self._doors = Doors(limits)
        self._connections: set[PublisherConnection] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept encoders on a bound socket; with `tls`, RTMPS."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: PublisherConnection(self, secure=tls is not None),
            sock=sock,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=self.limits.tls_handshake_seconds if tls else None,
        )
        self._servers.append(server)

    def enter(self, connection: PublisherConnection, address: str) -> str | None:
        """Let a connection in, or say why not."""
        refusal = self._doors.enter(address, asyncio.get_running_loop().time())
        if refusal is None:
            self._connections.add(connection)
            self.tally.connections += 1
        return refusal

    def leave(self, connection: PublisherConnection, address: str) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
        self.tally.connections -= 1
        self._doors.leave(address)

    def wrong_key(self, address: str) -> None:
        """Count a key that opened nothing."""
        self._doors.wrong_key(address, asyncio.get_running_loop().time())

    def close(self) -> None:
        """Stop accepting; who is connected stays."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def dismiss(self) -> None:
        """Take off everyone who is connected."""
        for connection in list(self._connections):
            connection.take_off("the service is stopping")

    async def tick(self) -> None:
        """Let time pass for every connection, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = loop.time()
            self._doors.forget(now)
            for connection in list(self._connections):
                connection.tick(now)


@asynccontextmanager
async def listening(
    *,
    limits: Limits,
    directory: KeyDirectory,
    sinks: SinkFactory,
    journal: LiveJournal,
    doors: Sequence[tuple[socket.socket, ssl.SSLContext | None]],
    drain_seconds: float,
) -> AsyncGenerator[Listener, None]:
    """Take encoders in for the length of the block; leaving it drains.

    Streams get `drain_seconds` to close their last segments, then they are cancelled.
    """
    async with asyncio.TaskGroup() as tasks:
        streams = LiveStreams(sinks, journal, tasks)
        listener = Listener(limits=limits, directory=directory, streams=streams, tasks=tasks)
        for sock, tls in doors:
            await listener.listen(sock, tls)
        ticking = tasks.create_task(listener.tick())
        try:
            yield listener
        finally:
            listener.close()
            streams.drain()
            listener.dismiss()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_seconds):
                    await streams.gone()
            ticking.cancel()
            streams.cancel()
