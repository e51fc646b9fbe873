"""Batched reads: which connections are deferred, for how long, and what is not delayed."""

import asyncio
import socket

import msgspec
import pytest

from headend.install.certificates import CertificateFiles
from ingest.server.read_batcher import ReadBatcher
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    LIMITS,
    LoopbackPorts,
    client_context,
    loopback_listener,
    real_time,
    server_context,
)
from tests.support.waiting import until

SLOW = 0.1  # seconds; the longest that can be set


class CountingProtocol(asyncio.Protocol):
    """Records the pieces that it receives, and its end."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.ended = False
        self.error: OSError | None = None

    def data_received(self, data: bytes | memoryview) -> None:
        self.read.append(bytes(data))

    def read_failed(self, error: OSError) -> None:
        self.error = error

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True


async def pair() -> tuple[asyncio.Transport, CountingProtocol, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport, reader = await asyncio.get_running_loop().create_connection(
        CountingProtocol, sock=ours
    )
    return transport, reader, theirs


@real_time
async def test_all_deferred_connections_are_read_in_the_same_batch(loop: str) -> None:
    batcher = ReadBatcher(SLOW)
    first, first_protocol, first_peer = await pair()
    second, second_protocol, second_peer = await pair()
    with first_peer, second_peer:
        batcher.defer(first, first_protocol)
        batcher.defer(second, second_protocol)
        for piece in (b"a", b"b"):
            first_peer.send(piece)
            second_peer.send(piece)
        await asyncio.sleep(0)
        assert not first_protocol.read
        await until(lambda: bool(first_protocol.read or second_protocol.read))
        assert first_protocol.read == second_protocol.read == [b"ab"]
        assert batcher.deferred == 2
        batcher.resume(first)
        first_peer.send(b"c")
        await until(lambda: first_protocol.read == [b"ab", b"c"])
        first.close()
        second.close()


@real_time
async def test_an_interval_of_zero_defers_no_connection(loop: str) -> None:
    transport, protocol, sends = await pair()
    with sends:
        ReadBatcher(0.0).defer(transport, protocol)
        assert transport.is_reading()
        transport.close()


@real_time
async def test_a_connection_that_closes_while_deferred_is_not_read(loop: str) -> None:
    batcher = ReadBatcher(SLOW)
    transport, protocol, peer = await pair()
    staying, staying_protocol, staying_peer = await pair()
    with peer, staying_peer:
        batcher.defer(transport, protocol)
        batcher.defer(transport, protocol)  # twice is once
        batcher.defer(staying, staying_protocol)
        peer.send(b"a")
        staying_peer.send(b"a")
        transport.close()
        await until(lambda: protocol.ended)
        await until(lambda: staying_protocol.read != [])
        assert not protocol.read
        assert batcher.deferred == 1
        staying.close()


@real_time
async def test_the_end_of_a_deferred_connection_is_noticed_after_all_that_came(loop: str) -> None:
    batcher = ReadBatcher(SLOW)
    transport, protocol, peer = await pair()
    batcher.defer(transport, protocol)
    peer.send(b"last")
    peer.close()
    await until(lambda: protocol.ended)
    assert protocol.read == [b"last"]
    assert batcher.deferred == 0


@real_time
async def test_a_reset_of_a_deferred_connection_is_told_to_its_receiver(loop: str) -> None:
    batcher = ReadBatcher(SLOW)
    transport, protocol, peer = await pair()
    peer.send(b"last")
    await until(lambda: protocol.read != [])
    batcher.defer(transport, protocol)
    transport.write(b"unread")  # for a close to be a reset
    await asyncio.sleep(0.01)
    peer.close()
    await until(lambda: protocol.error is not None)
    assert batcher.deferred == 0
    transport.abort()


@pytest.mark.parametrize("address", ["v4", "tls"])
@pytest.mark.parametrize("ends", ["close", "reset"])
@real_time
async def test_media_sent_just_before_a_deferred_connection_ends_arrive(
    address: str, ends: str, loop: str, certificates: CertificateFiles
) -> None:
    """Media and the end arrive together, right after a read."""
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, read_seconds=SLOW)
    async with loopback_listener(
        ports, limits=limits, tls=server_context(certificates)
    ) as listener:
        wire = await listener.dial(
            address, client_context(certificates) if address == "tls" else None
        )
        await wire.send(ports.opening())
        await wire.status()
        await wire.send(rtmp_peer.MEDIA)
        stamp = 40
        while (
            not listener.listener.read_batcher.deferred
        ):  # our own words keep us reading for a while
            await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(bytes(90)), stamp := stamp + 10))
            await asyncio.sleep(0.01)
        sent = (stamp - 40) // 10 + 3
        last = [
            rtmp_peer.audio(rtmp_peer.audio_body(bytes(90)), stamp + 10 * n) for n in range(1, 9)
        ]
        await wire.send(b"".join(last))
        if ends == "reset":
            wire.reset()
        else:
            await wire.close()
        await until(lambda: ports.runs[0].calls == ["begin", "slate"])
        assert len(ports.packets) == sent + len(last)


@real_time
async def test_acknowledgements_do_not_interrupt_the_batches(loop: str) -> None:
    """As long as the kernel's buffer has room for what comes between two of them."""
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, read_seconds=SLOW, window_bytes=1024)
    async with loopback_listener(ports, limits=limits) as listener:
        wire = await listener.dial()
        await wire.send(ports.opening())
        await wire.status()
        await wire.send(rtmp_peer.MEDIA)
        batcher, stamp = listener.listener.read_batcher, 40
        deferred: list[bool] = []
        for _ in range(60):
            await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(bytes(900)), stamp))
            stamp += 10
            await asyncio.sleep(0.01)
            deferred.append(batcher.deferred == 1)
        assert all(deferred[deferred.index(True) :])
        await wire.close()


@real_time
async def test_connections_are_not_deferred_before_they_publish(loop: str) -> None:
    ports = LoopbackPorts()
    ports.answering.clear()
    limits = msgspec.structs.replace(LIMITS, read_seconds=SLOW)
    async with loopback_listener(ports, limits=limits) as listener:
        wire = await listener.dial()
        for byte in ports.opening():
            await wire.send(bytes((byte,)))
            assert listener.listener.read_batcher.deferred == 0
        await until(lambda: len(ports.asked) == 1)
        before = listener.counters.bytes_in
        await wire.send(rtmp_peer.MEDIA)
        await until(lambda: listener.counters.bytes_in == before + len(rtmp_peer.MEDIA))
        assert listener.listener.read_batcher.deferred == 0
        ports.answering.set()
        await wire.status()
        await wire.close()
