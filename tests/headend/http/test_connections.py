"""The number of connections that the real server keeps: in total, per client, behind a proxy."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from api.http.client_address import TrustedProxies
from api.pusher.limits import PusherSettings
from api.pusher.socket import Broadcaster
from headend.config.listen_sockets import bind
from headend.http.connections import ConnectionLimiter
from headend.http.server import serving
from tests.headend.http.test_limits import FastPathApp, client, one, read_all
from tests.support.waiting import SCALE, until

GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
FORWARDED = b"POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\nContent-Length: 1\r\n\r\n"
PROXY = TrustedProxies(["127.0.0.1"])
BROADCASTER = Broadcaster(key="key", secret="secret", limits=PusherSettings())


def play(limiter: ConnectionLimiter, scenario: Callable[[int], Awaitable[None]]) -> None:
    """Run a scenario against a server with this limiter; it gets the server's port."""

    async def go() -> None:
        with bind("[::]:0") as sock:
            async with serving(BROADCASTER.in_front_of(FastPathApp()), sock, limiter):
                await scenario(sock.getsockname()[1])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


@asynccontextmanager
async def crowd(
    port: int, count: int, host: str = "127.0.0.1"
) -> AsyncGenerator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Open so many connections."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(client(port, host)) for _ in range(count)]


async def is_refused(reader: asyncio.StreamReader) -> bool:
    """Return whether a connection is closed; one whose request waits for its body stays open."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.1 * SCALE):
            return (await read_all(reader)).startswith(b"HTTP/1.1 503 ")
    return False


def test_one_client_holds_half_of_the_connections_and_another_gets_in() -> None:
    limiter = ConnectionLimiter(8)

    async def scenario(port: int) -> None:
        async with crowd(port, 4) as connections:
            await until(lambda: len(limiter) == 4)
            async with client(port) as (reader, writer):
                with contextlib.suppress(ConnectionError):
                    writer.write(GET % b"/")
                answer = await read_all(reader)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 503 ")
            for reader, writer in connections:
                writer.write(GET % b"/quick")
                assert await one(reader) == b"HTTP/1.1 200 OK quick"
            async with client(port, "::1") as (reader, writer):
                writer.write(GET % b"/")
                assert await one(reader) == b"HTTP/1.1 200 OK 0"
        await until(lambda: len(limiter) == 0)
        async with client(port) as (reader, writer):
            writer.write(GET % b"/")
            assert await one(reader) == b"HTTP/1.1 200 OK 0"

    play(limiter, scenario)


def test_the_total_of_connections_is_limited_and_logged_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headend.http.connections")
    limiter = ConnectionLimiter(3)

    async def scenario(port: int) -> None:
        async with crowd(port, 20, "::1"), crowd(port, 20):
            await until(lambda: len(limiter) == 3)
            async with crowd(port, 20) as refused:
                for reader, _ in refused:
                    await read_all(reader)
                assert len(limiter) == 3

    play(limiter, scenario)
    assert len(caplog.records) == 1


def test_a_web_socket_is_a_connection_until_it_ends() -> None:
    limiter = ConnectionLimiter(100)

    async def scenario(port: int) -> None:
        async with connect(f"ws://127.0.0.1:{port}/app/key?protocol=7") as socket:
            await socket.recv()
            assert len(limiter) == 1
        await until(lambda: len(limiter) == 0)

    play(limiter, scenario)


def test_a_web_socket_behind_a_proxy_is_charged_to_its_client_until_its_end() -> None:
    limiter = ConnectionLimiter(8, PROXY)

    async def scenario(port: int) -> None:
        async with AsyncExitStack() as stack:
            url = f"ws://127.0.0.1:{port}/app/key?protocol=7"

            async def connect_as(viewer: str) -> None:
                fields = {"X-Forwarded-For": viewer}
                await stack.enter_async_context(connect(url, additional_headers=fields))

            for _ in range(4):
                await connect_as("192.0.2.1")
            with pytest.raises(InvalidStatus):
                await connect_as("192.0.2.1")
            await until(lambda: len(limiter) == 4)
            await connect_as("192.0.2.2")
        await until(lambda: len(limiter) == 0)

    play(limiter, scenario)


@pytest.mark.parametrize("path", [b"/no", b"/quick"])
def test_the_rest_of_a_request_that_is_answered_early_is_charged_until_it_has_come(
    path: bytes,
) -> None:
    """Its connection is busy, so one viewer behind a proxy could otherwise take all places."""
    limiter = ConnectionLimiter(8, PROXY)
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %b\r\nContent-Length: 2\r\n\r\n"

    async def scenario(port: int) -> None:
        async with crowd(port, 4) as connections:
            for reader, writer in connections:
                writer.write(head % (path, b"192.0.2.1"))
                assert await one(reader)
            for viewer, status in ((b"192.0.2.1", b"503"), (b"192.0.2.2", b"413")):
                async with client(port) as (reader, writer):
                    writer.write(head % (b"/no", viewer))
                    assert (await reader.readline()).split()[1] == status
            for number, (reader, writer) in enumerate(connections):
                writer.write(b"zz" + FORWARDED % b"198.51.100.%d" % number + b"z")
                assert await one(reader) == b"HTTP/1.1 200 OK 1"
            await until(lambda: len(limiter) == 4)
            reader, writer = connections[0]
            writer.write(FORWARDED % b"192.0.2.1" + b"z")
            assert await one(reader) == b"HTTP/1.1 200 OK 1"

    play(limiter, scenario)


def test_a_proxys_connections_are_charged_to_the_clients_whose_requests_they_carry() -> None:
    limiter = ConnectionLimiter(40, PROXY)

    async def scenario(port: int) -> None:
        async with crowd(port, 30) as connections:
            await until(lambda: len(limiter) == 30)
            # Ten places are free, so one client may have ten requests under way.
            for _, writer in connections[:12]:
                writer.write(FORWARDED % b"192.0.2.1")
            refused = [reader for reader, _ in connections[:12] if await is_refused(reader)]
            assert len(refused) == 2
            # Others behind the same proxy are served.
            for number, (reader, writer) in enumerate(connections[12:]):
                writer.write(FORWARDED % b"198.51.100.%d" % number + b"z")
                assert await one(reader) == b"HTTP/1.1 200 OK 1"
            # So is the first again, once one of its requests is answered.
            reader, writer = next(pair for pair in connections if pair[0] not in refused)
            writer.write(b"z")
            assert await one(reader) == b"HTTP/1.1 200 OK 1"
            reader, writer = connections[12]
            writer.write(FORWARDED % b"192.0.2.1" + b"z")
            assert await one(reader) == b"HTTP/1.1 200 OK 1"

    play(limiter, scenario)


def test_a_newcomer_gets_the_place_of_what_a_proxy_has_not_used_for_longest() -> None:
    limiter = ConnectionLimiter(4, PROXY)

    async def scenario(port: int) -> None:
        async with crowd(port, 4) as pool:
            for request in (FORWARDED % b"192.0.2.1" + b"z", GET % b"/quick"):
                for reader, writer in pool:
                    writer.write(request)
                    assert (await one(reader)).startswith(b"HTTP/1.1 200 OK ")
            # One of them is used once more, and another has a request under way.
            again, at_work, *idle = pool
            again[1].write(FORWARDED % b"192.0.2.1" + b"z")
            await one(again[0])
            at_work[1].write(FORWARDED % b"192.0.2.2")
            viewers = (b"198.51.100.%d" % number for number in itertools.count())
            async with AsyncExitStack() as stack:
                # One comes from elsewhere, the others through the proxy.
                for (closed, _), host in zip(
                    (*idle, again), ("::1", "127.0.0.1", "127.0.0.1"), strict=True
                ):
                    reader, writer = await stack.enter_async_context(client(port, host))
                    assert await read_all(closed) == b""
                    # It has a request under way, and is not closed for the next one.
                    writer.write(FORWARDED % next(viewers))
                    assert len(limiter) == 4
                reader, _ = await stack.enter_async_context(client(port))
                assert (await read_all(reader)).startswith(b"HTTP/1.1 503 ")
                at_work[1].write(b"z")
                assert await one(at_work[0]) == b"HTTP/1.1 200 OK 1"
        await until(lambda: len(limiter) == 0)

    play(limiter, scenario)


def test_what_proxies_keep_open_is_free_for_their_clients() -> None:
    limiter = ConnectionLimiter(4, PROXY)

    async def scenario(port: int) -> None:
        async with crowd(port, 4) as pool:
            for reader, writer in pool:
                writer.write(FORWARDED % b"192.0.2.1" + b"z")
                await one(reader)
            for _, writer in pool[:2]:  # one client, of the two that all places are enough for
                writer.write(FORWARDED % b"192.0.2.1")
            assert not any([await is_refused(reader) for reader, _ in pool[:2]])

    play(limiter, scenario)


def test_a_request_that_a_proxy_is_refused_does_not_count() -> None:
    limiter = ConnectionLimiter(10, PROXY)
    headers = [(b"x-forwarded-for", b"192.0.2.1")]
    charged = [limiter.charge("127.0.0.1", headers) for _ in range(20)]
    assert charged.count(None) == 10
    for holders in charged:
        if holders is not None:
            limiter.discharge(holders)
    assert limiter.charge("127.0.0.1", headers) is not None
