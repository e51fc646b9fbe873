"""The doors that encoders come through: RTMP and RTMPS sockets, limits, certificates, the drain.

Sockets are accepted here and not by `loop.create_server`, which tells of a TLS connection only once
its handshake is over: encoders are counted, logged and given up on from the accept on.
"""

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Final

from ingest.rtmp.limits import Limits
from ingest.server.admission import Doors, site_of
from ingest.server.connection import PublisherConnection, Tally
from ingest.server.log_throttle import Complaints, Summed
from ingest.server.read_batcher import Beat
from ingest.stream.ports import KeyDirectory, LiveJournal, SinkFactory
from ingest.stream.registry import LiveStreams

__all__ = ["Listener", "listening"]

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.5
_BACKLOG: Final = 256
# Out of descriptors, most likely: accepting again at once would turn in circles.
_ACCEPT_PAUSE_SECONDS: Final = 1.0
# After an abort the loop needs a few turns to tell the connections.
_ABORT_SECONDS: Final = 1.0
# A peer whose network is gone: asked after 15 s of silence, given up 15 s later, for the sockets
# that no deadline of the session looks after any more.
_KEEPALIVE_IDLE_SECONDS: Final = 15
_KEEPALIVE_INTERVAL_SECONDS: Final = 5
_KEEPALIVE_PROBES: Final = 3
# What the kernel keeps of our answers, 3 KiB of which are one write at the start. Left to itself it
# keeps up to 2.7 MiB for a peer that reads nothing.
_SEND_BUFFER_BYTES: Final = 32 << 10


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
        self.tally = Tally()
        self.beat = Beat(limits.read_seconds)
        self._tasks = tasks
        self._doors = Doors(limits)
        self._complaints = Complaints()
        self._connections: dict[PublisherConnection, asyncio.Task[None]] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._sockets: dict[socket.socket, ssl.SSLContext | None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    # -- the doors --------------------------------------------------------------------------------

    def listen(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept encoders on a bound socket; with `tls`, RTMPS. `close` closes the socket too."""
        sock.setblocking(False)
        _keep_alive(sock, self.limits.silence_seconds)
        sock.listen(_BACKLOG)
        self._sockets[sock] = tls
        self._watch(sock)

    def close(self) -> None:
        """Stop accepting; who is connected stays."""
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()

    def _watch(self, sock: socket.socket) -> None:
        if sock in self._sockets:
            asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        """Take in who waits at the door, at most as many as can queue there."""
        for _ in range(_BACKLOG):
            try:
                theirs, name = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if self.worth_a_line("cannot accept", str(error.strerror), "-"):
                    log.error("cannot accept", extra={"cause": str(error)})  # noqa: TRY400 # one line
                loop = asyncio.get_running_loop()
                loop.remove_reader(sock)
                loop.call_later(_ACCEPT_PAUSE_SECONDS, self._watch, sock)
                return
            theirs.setblocking(False)
            host = str(name[0]).removeprefix("::ffff:")  # IPv4 through a socket of both families
            self._enter(theirs, host, int(name[1]), self._sockets[sock])

    def _enter(self, sock: socket.socket, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        connection = PublisherConnection(self, host, port, secure=tls is not None)
        refusal = self._doors.enter(host, asyncio.get_running_loop().time())
        if refusal is not None:
            self.tally.refuse(refusal)
            if self.worth_a_line("refused", refusal, host):
                log.info("refused", extra={"peer": connection.peer, "cause": refusal})
            sock.close()
            return
        opening = self.run(self._open(connection, sock, tls))
        opening.add_done_callback(functools.partial(self._opened, connection, sock))
        self._connections[connection] = opening
        self.tally.connections += 1

    async def _open(
        self, connection: PublisherConnection, sock: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        """Hand a socket to its connection, for RTMPS once it speaks TLS."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=tls,
                ssl_handshake_timeout=self.limits.tls_handshake_seconds if tls else None,
            )
        except OSError as error:  # of which TLS's errors are some
            cause = "TLS handshake" if tls else "lost"
            self.tally.refuse(cause)
            if self.worth_a_line("refused", cause, connection.host):
                told = f"{cause}: {error}" if tls else str(error)
                log.info("refused", extra={"peer": connection.peer, "cause": told})

    def _opened(
        self, connection: PublisherConnection, sock: socket.socket, opening: asyncio.Task[None]
    ) -> None:
        # uvloop drops a cancelled opening without a word to a connection that it has just made.
        if opening.cancelled() or not connection.ready:
            sock.close()
            connection.connection_lost(None)

    # -- what connections need --------------------------------------------------------------------

    def run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run what must not outlive the listener."""
        task = self._tasks.create_task(work)
        self._works.add(task)
        self._empty.clear()
        task.add_done_callback(self._done)
        return task

    def leave(self, connection: PublisherConnection) -> None:
        """Forget a connection."""
        if self._connections.pop(connection, None) is not None:
            self.tally.connections -= 1
            self._doors.leave(connection.host)
            self._look_around()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._works.discard(task)
        self._look_around()

    def _look_around(self) -> None:
        if not self._connections and not self._works:
            self._empty.set()

    def wrong_key(self, address: str) -> None:
        """Count a key that opened nothing."""
        self._doors.wrong_key(address, asyncio.get_running_loop().time())

    def worth_a_line(self, what: str, cause: str, address: str) -> bool:
        """Say whether to log what befell a peer; what is not logged is summed later."""
        now = asyncio.get_running_loop().time()
        return self._complaints.worth_a_line(what, cause, site_of(address), now)

    # -- time and the end -------------------------------------------------------------------------

    def dismiss(self) -> None:
        """Take off everyone who is connected."""
        for connection, opening in list(self._connections.items()):
            if connection.ready:
                connection.take_off("the service is stopping")
            else:
                opening.cancel()

    async def gone(self) -> None:
        """Wait until nobody is connected and nothing runs for them any more."""
        await self._empty.wait()

    def abort(self) -> None:
        """Drop who is still here."""
        for task in self._works:
            task.cancel()
        for connection in list(self._connections):
            connection.abort()
        _tell(self._complaints.rest(asyncio.get_running_loop().time()))

    async def tick(self) -> None:
        """Let time pass for every connection, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = loop.time()
            self._doors.forget(now)
            _tell(self._complaints.due(now))
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

    The sockets are its own: it closes them. Encoders are told, and streams get `drain_seconds` to
    close their last segments; what is left then is cancelled.
    """
    async with asyncio.TaskGroup() as tasks:
        streams = LiveStreams(sinks, journal, tasks)
        listener = Listener(limits=limits, directory=directory, streams=streams, tasks=tasks)
        for sock, tls in doors:
            listener.listen(sock, tls)
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
                    await listener.gone()
            ticking.cancel()
            streams.cancel()
            listener.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ABORT_SECONDS):
                    await listener.gone()


def _keep_alive(sock: socket.socket, patience: float) -> None:
    """Let the kernel find out that a peer is gone; what we write waits `patience` seconds for it.

    A peer that is there and reads nothing is given up after as long.

    Accepted sockets have these options from the socket that listens.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    for option, value in (
        (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS),
        (socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_SECONDS),
        (socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
        (socket.TCP_USER_TIMEOUT, max(1, int(patience * 1000))),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _tell(summed: Sequence[Summed]) -> None:
    """Log what was counted and not told."""
    for one in summed:
        about = {"cause": one.cause, "count": one.count, "seconds": one.seconds}
        log.info("%s %d more", one.what, one.count, extra=about)
