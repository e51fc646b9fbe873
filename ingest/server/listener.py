"""The RTMP and RTMPS listener: accepts encoders, ticks their connections, drains at the end."""

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from ingest.acceptor import Acceptor
from ingest.publishing.service import PublishingService
from ingest.relay.client import RelayClient
from ingest.relay.media_ring import RINGS_BYTES
from ingest.relay.owner import RelayListener
from ingest.rtmp.limits import Limits
from ingest.server.connection import PublisherConnection
from ingest.server.read_batcher import ReadBatcher
from ingest.server.tls_layer import TlsLayer
from ingest.stream.ports import (
    KeyDirectory,
    LiveJournal,
    OpenComparer,
    SinkFactory,
    StreamOwnership,
)
from ingest.stream.registry import LiveStreams
from media.loop_lag import LoopLag

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.5
# After an abort the loop needs a few turns to call the connections.
_ABORT_SECONDS: Final = 1.0
# A peer whose network is gone is probed after 15 s of silence and given up 15 s later; this is for
# the sockets that no deadline of the session covers any more.
_KEEPALIVE_IDLE_SECONDS: Final = 15
_KEEPALIVE_INTERVAL_SECONDS: Final = 5
_KEEPALIVE_PROBES: Final = 3
# What the kernel buffers of our answers, 3 KiB of which are one write at the start. By default it
# buffers up to 2.7 MiB for a peer that reads nothing.
_SEND_BUFFER_BYTES: Final = 32 << 10


class OtherHosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a host needs to know where other hosts receive streams too.

    `ownership` decides which host owns a stream. `client_tls` is for links to other hosts; without
    it, encoders of their streams are refused. `accepts` is the socket, bound to the address at
    which other hosts reach this one, and its TLS; without it, encoders of the streams of this host
    must connect to it directly. Both contexts accept the hosts of this installation alone.
    `relay_memory_bytes` bounds the media kept of encoders that are relayed to other hosts.
    """

    ownership: StreamOwnership
    client_tls: ssl.SSLContext | None = None
    accepts: tuple[socket.socket, ssl.SSLContext] | None = None
    relay_memory_bytes: int = RINGS_BYTES


class RtmpListener:
    """Holds the open connections and what they share (see `connection.ConnectionHost`)."""

    def __init__(
        self,
        *,
        limits: Limits,
        publishing: PublishingService,
        tasks: asyncio.TaskGroup,
        relay: RelayListener | None = None,
        relay_client: RelayClient | None = None,
    ) -> None:
        self.relay = relay
        self.relay_client = relay_client
        self.limits = limits
        self.publishing = publishing
        self.lag = publishing.lag
        self.streams = publishing.streams
        self.counters = publishing.counters
        self.read_batcher = ReadBatcher(limits.read_seconds)
        self._tasks = tasks
        self._connections: dict[PublisherConnection, asyncio.Task[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._acceptors: list[Acceptor] = []
        self._empty = asyncio.Event()
        self._empty.set()

    # -- accepting --------------------------------------------------------------------------------

    def listen(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept encoders on a bound socket; with `tls`, RTMPS. `close` closes the socket too."""
        _set_socket_options(sock, self.limits.silence_seconds)
        admit = functools.partial(self._admit, tls=tls)
        self._acceptors.append(Acceptor(sock, admit, self._not_accepted))

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    def _not_accepted(self, error: OSError) -> None:
        if self.publishing.should_log("cannot accept", str(error.strerror), "-"):
            log.error("cannot accept", extra={"cause": str(error)})

    def _admit(
        self, sock: socket.socket, host: str, port: int, *, tls: ssl.SSLContext | None
    ) -> None:
        encoder = self.publishing.admit(host, port, "rtmp" if tls is None else "rtmps")
        if encoder is None:
            sock.close()
            return
        connection = PublisherConnection(self, encoder)
        opening = self.start(self._open(connection, sock, tls))
        opening.add_done_callback(functools.partial(self._opened, connection, sock))
        self._connections[connection] = opening

    async def _open(
        self, connection: PublisherConnection, sock: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        """Hand a socket to its connection, after the TLS handshake if there is one."""
        loop = asyncio.get_running_loop()
        try:
            if tls is None:
                await loop.connect_accepted_socket(lambda: connection, sock)
            else:
                layer = TlsLayer(connection, tls)
                await loop.connect_accepted_socket(lambda: layer, sock)
                await layer.handshake(self.limits.tls_handshake_seconds)
        except OSError as error:  # the base class of TLS's errors
            if tls:
                cause = "TLS handshake"
                connection.encoder.refuse_connection(cause, f"{cause}: {error}")
            else:
                connection.encoder.refuse_connection("lost", str(error))

    def _opened(
        self, connection: PublisherConnection, sock: socket.socket, opening: asyncio.Task[None]
    ) -> None:
        # uvloop drops a cancelled opening without calling a connection that it has just made.
        if opening.cancelled() or not connection.is_open:
            sock.close()
            connection.connection_lost(None)

    # -- what connections need --------------------------------------------------------------------

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task that must not outlive the listener."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        self._empty.clear()
        task.add_done_callback(self._finished)
        return task

    def remove(self, connection: PublisherConnection) -> None:
        """Remove a connection."""
        if self._connections.pop(connection, None) is not None:
            self._check_empty()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._check_empty()

    def _check_empty(self) -> None:
        if not self._connections and not self._running:
            self._empty.set()

    # -- time and the end -------------------------------------------------------------------------

    def disconnect_all(self) -> None:
        """Disconnect all encoders."""
        for connection, opening in list(self._connections.items()):
            if connection.is_open:
                connection.disconnect("the service is stopping")
            else:
                opening.cancel()

    async def wait_closed(self) -> None:
        """Wait until all connections and their tasks have ended."""
        await self._empty.wait()

    def abort_all(self) -> None:
        """Drop the remaining connections and log what is still to be summed up."""
        for task in self._running:
            task.cancel()
        for connection in list(self._connections):
            connection.abort()
        self.publishing.close()

    async def run_ticks(self) -> None:
        """Advance the time of every connection, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = loop.time()
            self.publishing.tick(now)
            for connection in list(self._connections):
                connection.tick(now)


@asynccontextmanager
async def listening(  # noqa: PLR0913  # the parts of the service, each by its name
    *,
    limits: Limits,
    directory: KeyDirectory,
    sinks: SinkFactory,
    journal: LiveJournal,
    sockets: Sequence[tuple[socket.socket, ssl.SSLContext | None]],
    drain_seconds: float,
    lag: LoopLag | None = None,
    hosts: OtherHosts | None = None,
    open_comparer: OpenComparer | None = None,
) -> AsyncGenerator[RtmpListener, None]:
    """Accept encoders for the length of the block, then drain.

    `lag` is that of the event loop (see `media.loop_lag`); None if nothing measures it. Without
    `hosts`, this one owns all streams. `open_comparer` makes what compares the encoders of a
    stream; without it, nothing does. The listener closes the sockets. At the end encoders get a
    status, and streams have `drain_seconds` to close their last segments; what is left then is
    cancelled. Links to other hosts are closed after that, so that these can continue the streams of
    their encoders.
    """
    async with asyncio.TaskGroup() as tasks:
        lag = LoopLag() if lag is None else lag
        client, relay, ownership = None, None, None
        if hosts is not None:
            ownership = hosts.ownership
            if hosts.client_tls is not None:
                client = RelayClient(hosts.client_tls, tasks, lag, hosts.relay_memory_bytes)
        streams = LiveStreams(
            sinks,
            journal,
            tasks,
            lag,
            ownership=ownership,
            relay=client,
            open_comparer=open_comparer,
        )
        if hosts is not None and hosts.accepts is not None:
            relay_sock, relay_tls = hosts.accepts
            relay = RelayListener(streams, relay_tls, tasks, lag)
            relay.listen(relay_sock)
        listener = RtmpListener(
            limits=limits,
            publishing=PublishingService(limits, directory, streams, lag),
            tasks=tasks,
            relay=relay,
            relay_client=client,
        )
        for sock, tls in sockets:
            listener.listen(sock, tls)
        ticking = tasks.create_task(listener.run_ticks())
        try:
            yield listener
        finally:
            listener.close()
            streams.drain()
            listener.disconnect_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_seconds):
                    await streams.wait_closed()
                    await listener.wait_closed()
            ticking.cancel()
            if client is not None:
                client.close()
            if relay is not None:
                relay.close()
            streams.cancel()
            listener.abort_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ABORT_SECONDS):
                    await listener.wait_closed()


def _set_socket_options(sock: socket.socket, timeout_seconds: float) -> None:
    """Let the kernel detect a dead peer, and wait `timeout_seconds` for it to acknowledge data.

    The kernel gives up a live peer that reads nothing after the same time. Accepted sockets inherit
    these options from the listening one.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    for option, value in (
        (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS),
        (socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_SECONDS),
        (socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
        (socket.TCP_USER_TIMEOUT, max(1, int(timeout_seconds * 1000))),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
