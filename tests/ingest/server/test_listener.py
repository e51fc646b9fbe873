"""The listener on real sockets: which connections are accepted, for how long, and how they end."""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from pathlib import Path

import msgspec
import pytest

from headend.install.certificates import CertificateFiles
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    LIMITS,
    LoopbackListener,
    LoopbackPorts,
    Wire,
    client_context,
    lines,
    loopback_listener,
    play,
    real_time,
    server_context,
)
from tests.support.ingest.virtual_clock import virtual_sockets
from tests.support.waiting import until

WRONG = "Ab3dEf6hIj9l_01234567-89ab-cdef-0123-456789abcdef"


# -- limits ---------------------------------------------------------------------------------------


async def turned_away(listener: LoopbackListener, address: str, cause: str) -> None:
    """Check that a connection is closed at once, and that the cause is logged."""
    before = listener.counters.refused.get(cause, 0)
    wire = await listener.dial(address)
    await wire.closed()
    assert wire.read == b""
    assert listener.counters.refused[cause] == before + 1
    await wire.close()


@real_time
async def test_the_connections_of_an_address_are_limited(loop: str) -> None:
    limits = msgspec.structs.replace(LIMITS, connections_per_address=2)
    cause = "too many connections from one address"
    async with loopback_listener(LoopbackPorts(), limits=limits) as listener:
        first = await listener.dial("v4")
        second = await listener.dial("mapped")  # the same address by a socket of both families
        await until(lambda: listener.counters.connections == 2)
        await turned_away(listener, "v4", cause)
        await turned_away(listener, "mapped", cause)
        other = await listener.dial("v6")
        await until(lambda: listener.counters.connections == 3)
        await first.close()
        await until(lambda: listener.counters.connections == 2)
        third = await listener.dial("v4")
        await until(lambda: listener.counters.connections == 3)
        for wire in (second, other, third):
            await wire.close()
        await until(lambda: listener.counters.connections == 0)


@real_time
async def test_a_connection_counts_before_its_tls_handshake(
    loop: str, certificates: CertificateFiles
) -> None:
    limits = msgspec.structs.replace(LIMITS, connections_per_address=2)
    async with loopback_listener(
        LoopbackPorts(), limits=limits, tls=server_context(certificates)
    ) as listener:
        # Two connections without a TLS handshake.
        silent = [await listener.dial("tls"), await listener.dial("tls")]
        await until(lambda: listener.counters.connections == 2)
        await turned_away(listener, "tls", "too many connections from one address")
        for wire in silent:
            await wire.close()
        await until(lambda: listener.counters.connections == 0)


@real_time
async def test_all_connections_together_are_limited() -> None:
    limits = msgspec.structs.replace(LIMITS, connections=1)
    async with loopback_listener(LoopbackPorts(), limits=limits) as listener:
        wire = await listener.dial("v6")
        await until(lambda: listener.counters.connections == 1)
        await turned_away(listener, "v4", "too many connections")
        await wire.close()


@virtual_sockets
async def test_new_connections_of_an_address_are_limited_per_second() -> None:
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, new_per_address_per_second=3)
    async with loopback_listener(ports, limits=limits) as listener:
        for _ in range(3):
            await (await listener.dial()).close()
        await turned_away(listener, "v4", "too many new connections from one address")
        await asyncio.sleep(1.1)
        await (await listener.publishing(ports)).close()


@virtual_sockets
async def test_right_keys_are_accepted_while_wrong_ones_are_answered_late() -> None:
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, wrong_keys_per_minute=10)
    loop = asyncio.get_running_loop()
    async with loopback_listener(ports, limits=limits) as listener:

        async def guess() -> float:
            """Send a wrong key, and return the seconds until it is refused."""
            wire = await listener.dial()
            began = loop.time()
            await wire.send(rtmp_peer.opening(name=WRONG))
            await wire.read_to_end()
            await wire.close()
            return loop.time() - began

        for _ in range(10):
            assert await guess() < 1
        await (await listener.publishing(ports)).close()
        assert 3 < await guess() < 7
        await (await listener.publishing(ports)).close()


@virtual_sockets
async def test_a_delayed_answer_does_not_delay_the_drain() -> None:
    ports = LoopbackPorts()
    limits = msgspec.structs.replace(LIMITS, wrong_keys_per_minute=5)
    async with loopback_listener(ports, limits=limits) as listener:
        wires = [await listener.dial() for _ in range(6)]
        for wire in wires:
            await wire.send(rtmp_peer.opening(name=WRONG))
        await until(lambda: listener.counters.refused.get("wrong key") == 5)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 5
    for wire in wires:
        await wire.close()


# -- deadlines ------------------------------------------------------------------------------------

DEFAULT = Limits()


@pytest.mark.parametrize(
    ("sent", "seconds", "cause"),
    [
        pytest.param(b"", DEFAULT.handshake_seconds, "handshake", id="silent"),
        pytest.param(rtmp_peer.HANDSHAKE[:2000], DEFAULT.handshake_seconds, "handshake", id="half"),
        pytest.param(rtmp_peer.HANDSHAKE, DEFAULT.publish_seconds, "publish", id="no command"),
        pytest.param(None, DEFAULT.first_media_seconds, "first packet", id="no media"),
    ],
)
@virtual_sockets
async def test_who_does_not_get_on_is_closed_in_time(
    sent: bytes | None, seconds: float, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.dial()
        began = clock()
        await wire.send(ports.opening() if sent is None else sent)
        async with asyncio.TaskGroup() as tasks:
            # Sending no bytes at all has another deadline.
            chatting = tasks.create_task(send_pings(wire)) if sent is None else None
            await wire.read_to_end()
            if chatting is not None:
                chatting.cancel()
        # Deadlines are checked twice a second, and 0.2 s are for the last messages.
        assert seconds <= clock() - began <= seconds + 0.8
        await wire.close()
    assert [vars(record)["cause"] for record in caplog.records if record.msg == "closed"] == [
        f"no {cause} for {seconds:g} s"
    ]


async def send_pings(wire: Wire) -> None:
    """Send something other than media now and then: answers to pings."""
    with contextlib.suppress(ConnectionError):
        while True:
            await asyncio.sleep(1)
            await wire.send(rtmp_peer.whole(2, MessageType.USER_CONTROL, b"\0\x07\0\0\0\0"))


@pytest.mark.parametrize(
    ("chats", "seconds"), [(True, DEFAULT.idle_media_seconds), (False, DEFAULT.silence_seconds)]
)
@virtual_sockets
async def test_a_publisher_that_falls_silent_is_closed_in_time(chats: bool, seconds: float) -> None:
    # If it sends nothing at all, the shorter deadline applies.
    seconds = min(seconds, DEFAULT.idle_media_seconds)
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.publishing(ports)
        began = clock()
        async with asyncio.TaskGroup() as tasks:
            chatting = tasks.create_task(send_pings(wire)) if chats else None
            await wire.read_to_end()
            if chatting is not None:
                chatting.cancel()
        assert seconds <= clock() - began <= seconds + 0.8
        assert ports.states[-1].sending == frozenset()
        await wire.close()


@virtual_sockets
async def test_a_tls_handshake_has_its_deadline(
    certificates: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = asyncio.get_running_loop().time
    async with loopback_listener(LoopbackPorts(), tls=server_context(certificates)) as listener:
        wire = await listener.dial("tls")
        began = clock()
        await wire.closed()
        assert clock() - began == pytest.approx(LIMITS.tls_handshake_seconds, abs=0.1)
        await until(lambda: listener.counters.connections == 0)
        assert listener.counters.refused == {"TLS handshake": 1}
        assert lines(caplog.records, wire.name) == ["refused"]
        await wire.close()


# -- the kernel ------------------------------------------------------------------------------------


def server_socket(port: int) -> socket.socket:
    """Return the server's socket of the connection from a port, which is in this process, too."""
    for entry in Path("/proc/self/fd").iterdir():
        if not entry.is_socket():
            continue
        candidate = socket.socket(fileno=os.dup(int(entry.name)))
        with contextlib.suppress(OSError):  # it listens: it has no peer
            if candidate.family != socket.AF_UNIX and candidate.getpeername()[1] == port:
                return candidate
        candidate.close()
    raise AssertionError("no such socket")


@pytest.mark.parametrize("address", ["v4", "tls"])
@real_time
async def test_the_kernel_looks_after_dead_peers(
    address: str, loop: str, certificates: CertificateFiles
) -> None:
    limits = msgspec.structs.replace(LIMITS, silence_seconds=7.5)
    async with loopback_listener(
        LoopbackPorts(), limits=limits, tls=server_context(certificates)
    ) as listener:
        wire = await listener.dial(
            address, client_context(certificates) if address == "tls" else None
        )
        await until(lambda: listener.counters.connections == 1)
        with server_socket(int(wire.name.rpartition(":")[2])) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            options = {
                socket.TCP_KEEPIDLE: 15,
                socket.TCP_KEEPINTVL: 5,
                socket.TCP_KEEPCNT: 3,
                socket.TCP_USER_TIMEOUT: 7500,
            }
            for option, value in options.items():
                assert sock.getsockopt(socket.IPPROTO_TCP, option) == value
        await wire.close()


def test_running_out_of_descriptors_only_pauses_the_listener(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        ports = LoopbackPorts()
        async with loopback_listener(ports) as listener:
            with contextlib.ExitStack() as stack:
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                with contextlib.suppress(OSError):
                    while True:
                        stack.enter_context(socket.socket())
                await asyncio.get_running_loop().sock_connect(
                    waiting, ("127.0.0.1", listener.port("v4"))
                )
                await until(lambda: "cannot accept" in caplog.text)
                assert listener.counters.connections == 0
            await (await listener.publishing(ports)).close()
        assert caplog.text.count("cannot accept") == 1

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Descriptors that other tests keep open, such as those of PostgreSQL, must not count.
    highest = max(int(entry) for entry in os.listdir("/proc/self/fd"))  # noqa: PTH208 # numbers
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 100), hard))
    try:
        play(scenario(), loop)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
