"""Web-sockets at the real server: long messages, fragments, unread answers, floods."""

import asyncio
import logging
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.headend.websocket_clients import (
    DEADLINE,
    KEY,
    BroadcastServer,
    client_event,
    close_code,
    receive_event,
    run_on_uvloop,
    subscribe,
)
from tests.support.waiting import until


def test_a_too_long_message_closes_only_its_own_connection() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server, server.client() as good:
            await subscribe(good, "a")
            for length in (10_001, 20_000, 1 << 20):
                async with server.client() as bad:
                    await subscribe(bad, "a")
                    with suppress(ConnectionClosed):  # it was faster
                        await bad.send("x" * length)
                    assert await close_code(bad) in (4009, 1009)
            server.broadcaster.hub.deliver(["a"], "live", "{}")
            assert (await receive_event(good))["event"] == "live"

    run_on_uvloop(scenario)


def test_bytes_and_many_pieces_are_no_messages_and_close_nothing() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server, server.client() as client:
            await subscribe(client)
            await client.send(b"\xff\x00")
            assert (await receive_event(client))["event"] == "pusher:error"
            await client.send(iter(['{"event":', '"pusher:ping"}']))
            assert (await receive_event(client))["event"] == "pusher:pong"

    run_on_uvloop(scenario)


def test_a_client_that_never_reads_again_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with (
            BroadcastServer.open() as server,
            server.client(max_queue=1, close_timeout=1) as slow,
        ):
            await subscribe(slow, "a")
            slow.transport.pause_reading()
            while len(server.broadcaster.hub):
                server.broadcaster.hub.deliver(["a"], "live", "x" * 8_000)
                await asyncio.sleep(0)
            # Its socket is closed, too, so that the server could be stopped at once.
            await asyncio.sleep(6)
            slow.transport.resume_reading()
            assert await close_code(slow) in (4100, 1006)

    with caplog.at_level(logging.ERROR):
        run_on_uvloop(scenario)
    assert caplog.records == []


async def upgraded(server: BroadcastServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect without a library; return the connection after the upgrade."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = [
        f"GET /app/{KEY}?protocol=7 HTTP/1.1",
        "Host: here",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "",
        "",
    ]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(DEADLINE):
        await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def framed(opcode: int, payload: bytes = b"") -> bytes:
    """Return a client's short frame, with a mask of zeros."""
    return bytes((opcode, 0x80 | len(payload), 0, 0, 0, 0)) + payload


def test_endless_pings_without_reading_are_answered_in_part_only() -> None:
    pings = framed(0x89, b"p" * 125) * 100

    async def scenario() -> None:
        async with BroadcastServer.open() as server:
            reader, writer = await upgraded(server)
            sent_bytes = received_bytes = 0
            async with asyncio.timeout(DEADLINE):
                while sent_bytes < 32 << 20:
                    writer.write(pings)
                    await writer.drain()
                    sent_bytes += len(pings)
            writer.write(framed(0x81, client_event("pusher:ping").encode()))
            async with asyncio.timeout(DEADLINE):
                last = b""
                while b"pusher:pong" not in last:
                    piece = await reader.read(1 << 20)
                    received_bytes += len(piece)
                    last = last[-100:] + piece
            assert received_bytes < 8 << 20
            writer.close()

    run_on_uvloop(scenario)


def test_a_message_of_too_many_fragments_ends_the_connection() -> None:
    async def scenario() -> None:
        async with BroadcastServer.open() as server:
            reader, writer = await upgraded(server)
            writer.write(framed(0x01))  # a text, not at its end
            async with asyncio.timeout(DEADLINE):
                with suppress(ConnectionError):
                    while not reader.at_eof():
                        writer.write(framed(0x00) * 100)
                        await writer.drain()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(0.01):
                                await reader.read(1000)
            writer.close()
            await until(lambda: len(server.broadcaster.hub) == 0)

    run_on_uvloop(scenario)
