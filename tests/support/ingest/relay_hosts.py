"""Hosts of one installation in one event loop, with real sockets between them.

Time is virtual (see `virtual_clock`), so timeouts and retries take no real time. A killed host
closes its sockets without a message; the network cable of a host can be cut.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from headend.install.relay_key import relay_tls
from ingest.relay.client import RelayClient
from ingest.relay.link import RelayLink
from ingest.relay.owner import RelayListener
from ingest.stream.ports import Grant, PortError, StreamEnded
from ingest.stream.registry import LiveStreams
from ingest.stream.slot_session import CloseReason
from media.loop_lag import LoopLag
from media.stream_keys import Slot
from tests.ingest.stream.test_live_stream import GRANT, FakePorts
from tests.support.ingest.shared_ownership import OwnershipTable
from tests.support.ingest.simulated_encoders import PRIMARY, SimulatedEncoder

SECRET: Final = b"the secret of this installation"


class Encoder(SimulatedEncoder):
    """An encoder whose connection ends when it is disconnected.

    `grant` is the grant of its key, None if that was revoked. With `no_answer`, lookups fail;
    `ended` is why it is refused, if it is.
    """

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self.grant: Grant | None = None
        self.no_answer = False
        self.ended: StreamEnded | None = None

    async def look_up(self) -> Grant | None:
        if self.no_answer:
            raise PortError("keys cannot be looked up")
        if self.ended is not None:
            raise self.ended
        return self.grant

    def disconnect(self, reason: str, *, moved: bool = False) -> None:
        super().disconnect(reason, moved=moved)
        self.stalled = True
        if self.session is not None:
            self.session.close(goodbye=False, reason=CloseReason.CLOSED)


class Cable:
    """The network connection of a host: passes bytes in both directions while it is not cut."""

    def __init__(self, tasks: asyncio.TaskGroup, port: int) -> None:
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        self._port = port  # of the host
        self._whole = asyncio.Event()
        self._whole.set()
        self._tasks = tasks
        self._has_begun = False
        self._running = [tasks.create_task(self._run())]

    def cut(self) -> None:
        """Stop passing bytes; connections stay open, and new ones are accepted."""
        self._whole.clear()

    def repair(self) -> None:
        """Pass bytes again, those that were held back first."""
        self._whole.set()

    def close(self) -> None:
        for task in self._running:
            task.cancel()
        if not self._has_begun:
            self.sock.close()

    async def _run(self) -> None:
        self._has_begun = True
        async with await asyncio.start_server(self._accept, sock=self.sock) as server:
            await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._running.append(self._tasks.create_task(self._pass_on(source, target)))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._whole.wait()
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


class RelayHost:
    """One host: its streams, its end of the relay, and the encoders that are connected to it."""

    def __init__(
        self,
        table: OwnershipTable,
        tasks: asyncio.TaskGroup,
        secret: bytes,
        *,
        reachable: bool = True,
        cable: bool = False,
    ) -> None:
        self.ports = FakePorts()
        self.tasks = tasks
        self.lag = LoopLag()
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        port = self.sock.getsockname()[1]
        self.cable = Cable(self.tasks, port) if cable else None
        self.address = f"127.0.0.1:{port}" if self.cable is None else self.cable.address
        self.encoders: list[Encoder] = []
        self._sending: list[asyncio.Task[None]] = []
        self._table = table
        self._ownership = table.host(self.address if reachable else "")
        tls = relay_tls(secret)
        self.client = RelayClient(tls.client, self.tasks, self.lag)
        self.streams = LiveStreams(
            self.ports,
            self.ports,
            self.tasks,
            self.lag,
            ownership=self._ownership,
            relay=self.client,
        )
        self.relay = RelayListener(self.streams, tls.server, self.tasks, self.lag)

    async def attach(self, slot: Slot = PRIMARY, **granted: object) -> Encoder:
        """Attach an encoder that sends nothing yet."""
        encoder = Encoder(slot)
        grant: Grant = msgspec.structs.replace(GRANT, slot=slot, **granted)
        encoder.grant = grant
        encoder.session = await self.streams.attach(grant, encoder, encoder.look_up)
        self.encoders.append(encoder)
        return encoder

    async def publish(self, slot: Slot = PRIMARY, phase: float = 0.0, **granted: object) -> Encoder:
        """Attach an encoder, and start sending."""
        encoder = await self.attach(slot, **granted)
        self._sending.append(self.tasks.create_task(encoder.sending(phase)))
        return encoder

    @property
    def links(self) -> list[RelayLink]:
        """The open links, at both ends."""
        return [*self.relay.links, *self.client.links]

    def stop_encoders(self) -> None:
        for task in self._sending:
            task.cancel()

    def kill(self) -> None:
        """End like a killed process, without updating the catalog."""
        self.cut_off()
        self.stop_encoders()
        for link in self.links:
            link.drop("killed")
        self.relay.close()
        self.client.close()
        self.streams.cancel()
        if self.cable is not None:
            self.cable.close()

    def cut_off(self) -> None:
        """Cut the connection to the catalog."""
        self._ownership.cut_off = True

    def die(self) -> None:
        """Kill the host, and mark it as dead in the catalog."""
        self.kill()
        self._table.dead.add(self.address)


class RelayHosts:
    """Hosts that share the ownership of streams."""

    def __init__(self) -> None:
        self.table = OwnershipTable()
        self.hosts: list[RelayHost] = []

    async def start(
        self, secret: bytes = SECRET, *, reachable: bool = True, cable: bool = False
    ) -> RelayHost:
        tasks = asyncio.TaskGroup()
        await tasks.__aenter__()
        host = RelayHost(self.table, tasks, secret, reachable=reachable, cable=cable)
        host.relay.listen(host.sock)
        self.hosts.append(host)
        return host


@asynccontextmanager
async def installation() -> AsyncGenerator[RelayHosts, None]:
    """Run hosts for the length of the block."""
    hosts = RelayHosts()
    try:
        yield hosts
    finally:
        for host in hosts.hosts:
            host.kill()
        for host in hosts.hosts:
            await host.tasks.__aexit__(None, None, None)
