"""Web-sockets at the real server: long messages, fragments, unread answers, floods."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from api.http.application import PlainApplication
from api.pusher.limits import PusherSettings
from headend.config.listen_sockets import bind
from headend.http.connections import ConnectionLimiter
from headend.http.limits import BoundedProtocol
from headend.http.server import serving
from headend.http.websockets import SocketProtocol
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


def handshake(*fields: bytes, method: bytes = b"GET", query: bytes = b"") -> bytes:
    """Return the head of a client that is no library, with further fields."""
    lines = (
        b"%b /app/%b?protocol=7%b HTTP/1.1" % (method, KEY.encode(), query),
        b"Host: here",
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        *fields,
        b"",
        b"",
    )
    return b"\r\n".join(lines)


@asynccontextmanager
async def upgraded(
    server: BroadcastServer,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect without a library; yield the connection after the upgrade.

    It is closed in any case: uvloop waits for ever when its loop is closed with open connections.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(handshake())
        async with asyncio.timeout(DEADLINE):
            await reader.readuntil(b"\r\n\r\n")
        yield reader, writer
    finally:
        writer.close()


def framed(opcode: int, payload: bytes = b"") -> bytes:
    """Return a client's short frame, with a mask of zeros."""
    return bytes((opcode, 0x80 | len(payload), 0, 0, 0, 0)) + payload


def test_endless_pings_without_reading_are_answered_in_part_only() -> None:
    pings = framed(0x89, b"p" * 125) * 100

    async def scenario() -> None:
        async with (
            BroadcastServer.open() as server,
            upgraded(server) as (reader, writer),
        ):
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

    run_on_uvloop(scenario)


def test_a_message_of_too_many_fragments_ends_the_connection() -> None:
    async def scenario() -> None:
        async with (
            BroadcastServer.open() as server,
            upgraded(server) as (reader, writer),
        ):
            writer.write(framed(0x01))  # a text, not at its end
            async with asyncio.timeout(DEADLINE):
                with suppress(ConnectionError):
                    while not reader.at_eof():
                        writer.write(framed(0x00) * 100)
                        await writer.drain()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(0.01):
                                await reader.read(1000)
            await until(lambda: len(server.broadcaster.hub) == 0)

    run_on_uvloop(scenario)


REFUSED = {
    "a long field": (handshake(b"X: " + b"y" * 8192), b"431"),
    "a field of the library's length": (handshake(b"X: " + b"y" * 8190), b"431"),
    "a long target": (handshake(query=b"&x=" + b"y" * 8192), b"431"),
    "many fields": (handshake(*(b"X: y",) * 128), b"431"),
    "a length": (handshake(b"Content-Length: 1"), b"400"),
    "chunks": (handshake(b"Transfer-Encoding: chunked"), b"400"),
    "another method": (handshake(method=b"POST"), b"405"),
    "no key": (handshake().replace(b"Sec-WebSocket-Key: ", b"X: "), b"400"),
    "another version": (handshake().replace(b"Version: 13", b"Version: 8"), b"400"),
    "two keys": (handshake(b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), b"400"),
    "an older HTTP": (handshake().replace(b"HTTP/1.1", b"HTTP/1.0"), b"426"),
    "a target that is not ASCII": (handshake(query=b"&x=\xe4"), b"400"),
    "an empty body": (handshake(b"Content-Length: 0"), b"101"),
    "fields of the longest length": (handshake(b"X: " + b"y" * 8100), b"101"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_handshake_is_always_answered(what: str) -> None:
    head, status = REFUSED[what]

    async def scenario() -> None:
        async with BroadcastServer.open() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            try:
                writer.write(head)
                async with asyncio.timeout(DEADLINE):
                    line = await reader.readline()
                    assert line.split()[1] == status, line
                    if status != b"101":
                        with suppress(ConnectionError):
                            while await reader.read(65_536):
                                pass
            finally:
                writer.close()

    run_on_uvloop(scenario)


def test_a_handshake_that_is_not_completed_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a silent application nor a client that does not close holds a place."""
    monkeypatch.setattr(SocketProtocol, "handshake_seconds", 0.3)

    async def silent(scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        if scope["type"] == "lifespan":
            for each in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{each}.complete"})
            return
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async def scenario() -> None:
        limiter = ConnectionLimiter()
        with bind("127.0.0.1:0") as sock:
            async with serving(PlainApplication(silent), sock, limiter):
                port = sock.getsockname()[1]
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(handshake())
                    await until(lambda: len(limiter) == 1)
                    async with asyncio.timeout(DEADLINE):
                        with suppress(ConnectionError):
                            assert await reader.read() == b""
                    await until(lambda: len(limiter) == 0)
                finally:
                    writer.close()

    run_on_uvloop(scenario)


def test_a_web_socket_has_none_of_the_deadlines_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SocketProtocol, "handshake_seconds", 0.3)
    for name in ("head_seconds", "linger_seconds", "write_seconds", "keep_alive_seconds"):
        monkeypatch.setattr(BoundedProtocol, name, 0.3)

    async def scenario() -> None:
        async with (
            BroadcastServer.open() as server,
            server.client() as client,
            upgraded(server) as (reader, _),
        ):
            await subscribe(client, "a")
            await asyncio.sleep(0.9)
            server.broadcaster.hub.deliver(["a"], "live", "{}")
            assert (await receive_event(client))["event"] == "live"
            async with asyncio.timeout(DEADLINE):
                assert b"connection_established" in await reader.read(1000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await reader.read(1)  # b"" would be the end

    run_on_uvloop(scenario)


@pytest.mark.parametrize(
    "frames",
    [
        bytes((0x83, 0x80, 0, 0, 0, 0)),  # an unknown kind
        bytes((0x81, 0x01)) + b"x",  # without a mask
        framed(0x81, b"\xff\xfe"),  # no text
        bytes((0x89, 0xFE, 1, 0, 0, 0, 0, 0)) + bytes(256),  # a long ping
    ],
)
def test_frames_that_break_the_protocol_leave_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture, frames: bytes
) -> None:
    """A stranger must not hide the errors of others among his own."""

    async def scenario() -> None:
        async with BroadcastServer.open() as server:
            for _ in range(10):
                async with upgraded(server) as (reader, writer):
                    writer.write(frames)
                    async with asyncio.timeout(DEADLINE):
                        with suppress(ConnectionError):
                            while await reader.read(1000):
                                pass
            await until(lambda: len(server.broadcaster.hub) == 0)

    with caplog.at_level(logging.INFO):
        run_on_uvloop(scenario)
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []


def test_all_channels_may_be_subscribed_to_at_once() -> None:
    most = PusherSettings().channels

    async def scenario() -> None:
        async with BroadcastServer.open() as server, upgraded(server) as (reader, writer):
            texts = [
                client_event("pusher:subscribe", channel=f"c{number}") for number in range(most)
            ]
            writer.write(b"".join(framed(0x81, text.encode()) for text in texts))
            received = b""
            async with asyncio.timeout(DEADLINE):
                while received.count(b"subscription_succeeded") < most:
                    piece = await reader.read(65_536)
                    assert piece, received[-300:]
                    received += piece

    run_on_uvloop(scenario)
