"""A listener on loopback sockets, fakes of its ports, and the encoder's end of a connection."""

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

import uvloop

from headend.install.certificates import CertificateFiles, tls_context
from ingest.rtmp.limits import Limits
from ingest.server.listener import OtherHosts, RtmpListener, listening
from ingest.stream.failover import Policy
from ingest.stream.ports import Grant
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.stream_keys import Slot, StreamKey
from tests.ingest.stream.test_live_stream import FakePorts, Sink
from tests.support.ingest import rtmp_peer
from tests.support.waiting import until

P = ParamSpec("P")

# Tests open connections faster than real encoders do.
LIMITS = Limits(new_per_address_per_second=1_000, wrong_keys_per_minute=1_000)
HASH = "Ab3dEf6hIj9l"
START = (1, "status", "NetStream.Publish.Start")
BAD_NAME = (1, "error", "NetStream.Publish.BadName")
STOPPED = (1, "status", "NetStream.Unpublish.Success")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
_PATIENCE = 15.0  # seconds, for a busy machine


def play(scenario: Coroutine[Any, Any, None], loop: str = "uvloop") -> None:
    """Run a coroutine with a time limit; `loop` is one of LOOPS."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(_bounded(scenario))


def real_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in real time, with a limit; its argument `loop`, if it has one, as in `play`."""

    @functools.wraps(test)
    def play_on(*args: P.args, **kwargs: P.kwargs) -> None:
        play(test(*args, **kwargs), str(kwargs.get("loop", "uvloop")))

    return play_on


async def _bounded(scenario: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(_PATIENCE):
        await scenario


class RecordedRun(Sink):
    """A run that breaks when the test says so, and calls it for each packet."""

    def __init__(self, ports: "LoopbackPorts", notify: Callable[[], None]) -> None:
        super().__init__(notify)
        self._fake_ports = ports

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        if self._fake_ports.sink_breaks:
            raise RuntimeError("the sink is broken")
        super().offer(packets)
        if self._fake_ports.meanwhile is not None:
            self._fake_ports.meanwhile()

    @property
    def calls(self) -> list[str]:
        """What was called, by the first word, without `offer`."""
        return [call for line in self.recorded if (call := line.split()[0]) != "offer"]


class LoopbackPorts(FakePorts):
    """A directory, sink factory and journal in one, whose results the test sets.

    Its grants have `policy`. `open_to_all` accepts every key, the directory waits while `answering`
    is clear, and raises `failure` if that is set; `meanwhile` is called for each packet.
    """

    def __init__(self, *, window: float = 60.0, goodbye: float = 60.0) -> None:
        super().__init__()
        self.key = StreamKey.new(HASH)
        self.asked: list[tuple[str, StreamKey]] = []
        self.answered = 0
        self.open_to_all = False
        self.answering = asyncio.Event()
        self.answering.set()
        self.failure: Exception | None = None
        self.sink_breaks = False
        self.meanwhile: Callable[[], None] | None = None
        self.runs: list[RecordedRun] = []
        self.policy = Policy()
        self._window = window
        self._goodbye = goodbye

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        self.asked.append((application, key))
        right = self.key  # like a database, which returns the state at the time of the query
        await self.answering.wait()
        self.answered += 1
        if self.failure is not None:
            raise self.failure
        slot = Slot.of_application(application)
        key_matches = key.hash in ("", HASH) and right.matches(key.secret)
        if slot is None or not (key_matches or self.open_to_all):
            return None
        return Grant(
            stream=1,
            hash=HASH,
            slot=slot,
            active=frozenset(),
            reconnect_seconds=self._window,
            goodbye_seconds=self._goodbye,
            policy=self.policy,
        )

    def open_sink(self, notify: Callable[[], None]) -> Sink:
        self.runs.append(RecordedRun(self, notify))
        return self.runs[-1]

    @property
    def packets(self) -> list[MediaPacket]:
        """The packets offered in the newest run."""
        return self.runs[-1].packets if self.runs else []

    def opening(self, application: str = "live", name: str | None = None) -> bytes:
        """Return all bytes that an encoder sends before its media, with the stream's key."""
        return rtmp_peer.opening(application, self.key.text if name is None else name)


class LoopbackListener:
    """A running listener and its addresses."""

    def __init__(self, listener: RtmpListener, sockets: dict[str, socket.socket]) -> None:
        self.listener = listener
        self.counters = listener.counters
        self._ports = {address: int(sock.getsockname()[1]) for address, sock in sockets.items()}

    def port(self, address: str) -> int:
        return self._ports[address]

    async def dial(self, address: str = "v4", trust: ssl.SSLContext | None = None) -> "Wire":
        """Connect, with TLS if `trust` is set."""
        host = ADDRESSES[address]
        reader, writer = await asyncio.open_connection(
            host.removeprefix("::ffff:"),
            self.port(address),
            ssl=trust,
            server_hostname="localhost" if trust else None,
        )
        return Wire(reader, writer)

    async def standby(self, ports: "LoopbackPorts") -> "Wire":
        """Return an encoder that publishes into the first backup's slot."""
        wire = await self.dial()
        await wire.send(ports.opening("live-backup-1"))
        assert await wire.status() == START
        await wire.send(rtmp_peer.MEDIA)
        return wire

    async def publishing(self, ports: "LoopbackPorts", address: str = "v4") -> "Wire":
        """Return an encoder that publishes, and whose first media has reached the run."""
        before = sum(len(run.packets) for run in ports.runs)
        wire = await self.dial(address)
        await wire.send(ports.opening())
        assert await wire.status() == START
        await wire.send(rtmp_peer.MEDIA)
        await until(lambda: sum(len(run.packets) for run in ports.runs) >= before + 3)
        return wire

    @asynccontextmanager
    async def unread_socket(self) -> AsyncGenerator[socket.socket, None]:
        """Connect a socket that is never read, with small kernel buffers."""
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port("v4")))
            yield sock


# "mapped" is IPv4 through a socket of both families, on the loopback address only.
ADDRESSES = {"v4": "127.0.0.1", "v6": "::1", "mapped": "::ffff:127.0.0.1", "tls": "127.0.0.1"}


@asynccontextmanager
async def loopback_listener(
    ports: LoopbackPorts,
    *,
    limits: Limits = LIMITS,
    tls: ssl.SSLContext | None = None,
    drain_seconds: float = 5.0,
    lag: LoopLag | None = None,
    hosts: OtherHosts | None = None,
) -> AsyncGenerator[LoopbackListener, None]:
    """Listen on all addresses for the length of the block; the loop must report no error."""
    errors: list[dict[str, Any]] = []  # asyncio's context is untyped
    asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(about))
    sockets = {
        address: _bind(host) for address, host in ADDRESSES.items() if address != "tls" or tls
    }
    async with listening(
        limits=limits,
        directory=ports,
        sinks=ports,
        journal=ports,
        sockets=[(sock, tls if address == "tls" else None) for address, sock in sockets.items()],
        drain_seconds=drain_seconds,
        lag=lag,
        hosts=hosts,
    ) as listener:
        yield LoopbackListener(listener, sockets)
    assert errors == []


def _bind(host: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    if host.startswith("::ffff:"):
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    # A small send buffer, so that a peer that reads nothing fills it quickly.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    sock.bind((host, 0))
    return sock


class Wire:
    """The encoder's end of a connection, which records what it reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.read = b""
        self._reader = reader
        self._writer = writer

    @property
    def name(self) -> str:
        """The encoder's address, as in the listener's log."""
        host, port = self._writer.get_extra_info("sockname")[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def shown(self) -> bytes:
        """The server's certificate."""
        secure = self._writer.get_extra_info("ssl_object")
        assert isinstance(secure, ssl.SSLObject)
        certificate = secure.getpeercert(binary_form=True)
        assert certificate is not None
        return certificate

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def status(self, count: int = 1) -> tuple[int, str, str]:
        """Read until there are `count` statuses, and return the last of them."""
        while len(statuses := rtmp_peer.statuses(self.read)) < count:
            data = await self._reader.read(65_536)
            assert data, f"closed after {statuses}"
            self.read += data
        return statuses[-1]

    async def read_to_end(self) -> bytes:
        """Read to the end, which must not be a reset; return everything read so far."""
        while data := await self._reader.read(65_536):
            self.read += data
        return self.read

    async def closed(self) -> None:
        """Read to the end, which may be a reset."""
        with contextlib.suppress(ConnectionError):
            await self.read_to_end()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):  # the server may have closed it first
            await self._writer.wait_closed()

    def reset(self) -> None:
        """Reset the connection."""
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self._writer.transport.abort()


def last_description(data: bytes) -> str:
    """Return the description of the last status in what a server wrote."""
    description = ""
    for _, values in rtmp_peer.answered_commands(data[3073:]):
        match values:
            case ["onStatus", _, _, {"description": str(text)}]:
                description = text
            case _:
                pass
    return description


def client_context(files: CertificateFiles) -> ssl.SSLContext:
    """Return a client context that trusts only the local authority."""
    return ssl.create_default_context(cafile=str(files.authority))


def server_context(files: CertificateFiles) -> ssl.SSLContext:
    return tls_context(files.leaf, files.leaf_key)


def lines(records: list[logging.LogRecord], peer: str, level: int = logging.INFO) -> list[str]:
    """Return a peer's log lines from a level on; a traceback is a line of its own."""
    messages: list[str] = []
    for record in records:
        about = vars(record)
        if (
            record.name.startswith("ingest.")
            and record.levelno >= level
            and about.get("peer") == peer
        ):
            messages.append(record.getMessage())
            messages += ["traceback"] if record.exc_info else []
    return messages


def full_log(records: list[logging.LogRecord]) -> str:
    """Return the whole log, with all extra fields."""
    return "\n".join(f"{record.getMessage()} {vars(record)}" for record in records)
