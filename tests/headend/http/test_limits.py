"""Connections that send endlessly or too slowly, at the real server."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvloop

from api.http.application import FastPath
from api.http.response import HttpResponse, cross_origin_response
from headend.config.listen_sockets import bind
from headend.http.limits import HEAD_BYTES, BoundedProtocol
from headend.http.server import serving
from tests.support.e2e.service import SCALE

DEADLINE = 10.0 * SCALE
SHORT = 0.3
PIECE = b"x" * 65_536
LARGE = 32 << 20  # bytes: more than the kernel buffers for a client that does not read
GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"


class App:
    """Refuses requests below /no without reading them, and answers others with their length."""

    fast_path: FastPath | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        if scope["type"] == "lifespan":
            for each in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{each}.complete"})
            return
        refused = scope["path"].startswith("/no")
        if scope["path"] == "/large":
            headers = [(b"content-length", str(LARGE).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": bytes(LARGE)})
            return
        length, more = 0, not refused
        while more:
            message = await receive()
            length += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = b"no" if refused else str(length).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 413 if refused else 200,
                    "headers": headers})  # fmt: skip
        await send({"type": "http.response.body", "body": body})


class FastPathApp(App):
    """The same with a fast path for /quick."""

    def __init__(self) -> None:
        self.fast_path = self._quick

    def _quick(
        self, _method: str, path: str, _headers: object, _peer: str | None = None
    ) -> HttpResponse | None:
        return cross_origin_response(200, {}, b"quick") if path == "/quick" else None


@asynccontextmanager
async def client(
    port: int, host: str = "127.0.0.1"
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes; a reset ends it as well."""
    received = b""
    async with asyncio.timeout(DEADLINE):
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                received += piece
    return received


async def one(reader: asyncio.StreamReader) -> bytes:
    """Read one answer with a short body; return its first line and its body."""
    async with asyncio.timeout(DEADLINE):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        return head.split(b"\r\n")[0] + b" " + await reader.readexactly(length)


@pytest.fixture(params=[App, FastPathApp])
def at(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[int], Awaitable[None]]], None]:
    """Return a function that runs a scenario with the port of a server with short timeouts."""
    monkeypatch.setattr(BoundedProtocol, "head_seconds", SHORT)
    monkeypatch.setattr(BoundedProtocol, "linger_seconds", SHORT)
    monkeypatch.setattr(BoundedProtocol, "write_seconds", SHORT)

    def play(scenario: Callable[[int], Awaitable[None]]) -> None:
        async def go() -> None:
            with bind("127.0.0.1:0") as sock:
                async with serving(request.param(), sock):
                    await scenario(sock.getsockname()[1])

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(go())

    return play


At = Callable[[Callable[[int], Awaitable[None]]], None]
ENDLESS = {
    "headers": (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: " + b"y" * 1000 + b"\r\n"),
    "one header": (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"y" * 1000),
    "the address": (b"GET /", b"y" * 1000),
    "trailers": (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n",
        b"X: " + b"y" * 1000 + b"\r\n",
    ),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_an_endless_head_is_cut_off_before_it_fills_the_memory(at: At, what: str) -> None:
    begins, goes_on = ENDLESS[what]

    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(begins)
            tracemalloc.start()
            try:
                with contextlib.suppress(ConnectionError):
                    for _ in range(200):
                        writer.write(goes_on * 50)
                        await writer.drain()
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert most < 4 << 20
            assert b" 200 " not in await read_all(reader)

    at(scenario)


def test_a_head_of_usual_size_is_served_and_a_too_large_one_is_refused(at: At) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 30_000 + b"\r\n\r\n")
            assert await one(reader) == b"HTTP/1.1 200 OK 0"
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * HEAD_BYTES)
            assert (await read_all(reader)).startswith(b"HTTP/1.1 431 ")

    at(scenario)


@pytest.mark.parametrize("ends", [b"\r\n", b""])
def test_a_head_of_many_small_fields_is_refused_before_it_fills_the_memory(
    at: At, ends: bytes
) -> None:
    """A thousand such heads would take a gigabyte."""

    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"ab:c\r\n" * 127 + b"\r\n")
            assert await one(reader) == b"HTTP/1.1 200 OK 0"
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"ab:c\r\n" * 130 + ends)
            assert (await read_all(reader)).startswith(b"HTTP/1.1 431 ")

    at(scenario)


@pytest.mark.parametrize("begins", [b"", b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(at: At, begins: bytes) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(begins)
            assert await read_all(reader) == b""

    at(scenario)


def test_a_head_that_drips_ends_the_connection_on_later_requests_too(at: At) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b" 200 " in await one(reader)
            loop = asyncio.get_running_loop()
            began = loop.time()
            writer.write(b"GET /")
            with contextlib.suppress(ConnectionError):
                while loop.time() - began < DEADLINE and not reader.at_eof():
                    writer.write(b"E")
                    await writer.drain()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(SHORT / 10):
                            await reader.read(1)
            assert loop.time() - began < DEADLINE

    at(scenario)


def test_an_expected_body_may_arrive_slowly(at: At) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
            for _ in range(3):
                await asyncio.sleep(SHORT)
                writer.write(b"z")
            assert await one(reader) == b"HTTP/1.1 200 OK 3"
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await one(reader) == b"HTTP/1.1 200 OK 0"

    at(scenario)


def test_bytes_after_a_refusal_are_read_for_a_limited_time(at: At) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
            assert b" 413 " in await one(reader)
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(DEADLINE):
                    while not reader.at_eof():
                        writer.write(PIECE)
                        await writer.drain()
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(SHORT / 20):
                                await reader.read(1)

    at(scenario)


def test_a_body_that_ends_soon_after_its_refusal_leaves_the_connection_to_the_next_request(
    at: At,
) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + PIECE)
            assert b" 413 " in await one(reader)
            writer.write(b"z" * (100_000 - len(PIECE)))
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await one(reader) == b"HTTP/1.1 200 OK 0"
            await asyncio.sleep(2 * SHORT)  # past the time allowed for the refused body
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await one(reader) == b"HTTP/1.1 200 OK 0"

    at(scenario)


@pytest.mark.parametrize("rest", [b"z" * 10, b"z" * 10 + b"\r\n", b"z" * 10 + b"\r"])
def test_an_idle_connection_ends_however_its_last_request_ended(
    at: At, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    """The rest of an answered request, or a lone line break, is no reason to wait for ever."""
    monkeypatch.setattr(BoundedProtocol, "keep_alive_seconds", SHORT)

    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            await one(reader)
            writer.write(rest)
            assert await read_all(reader) == b""

    at(scenario)


def test_line_breaks_between_requests_do_not_keep_a_connection_open(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedProtocol, "keep_alive_seconds", SHORT)

    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer), asyncio.TaskGroup() as tasks:
            writer.write(GET % b"/")
            await one(reader)
            end = tasks.create_task(read_all(reader))
            async with asyncio.timeout(DEADLINE):
                while not end.done():
                    with contextlib.suppress(ConnectionError):
                        writer.write(b"\r\n")
                        await writer.drain()
                    await asyncio.sleep(SHORT / 10)

    at(scenario)


def test_what_is_not_http_is_refused_without_a_line_in_the_log(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can send it as often as he likes."""

    async def scenario(port: int) -> None:
        for garbage in (b"\x16\x03\x01\r\n\r\n", b"GET /?\xff HTTP/1.1\r\n\r\n", b"GET\r\n\r\n"):
            async with client(port) as (reader, writer):
                writer.write(garbage)
                assert (await read_all(reader)).startswith(b"HTTP/1.1 400 ")

    with caplog.at_level("WARNING"):
        at(scenario)
    assert caplog.records == []


def test_a_few_requests_may_come_before_the_first_is_answered(at: At) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(GET % b"/a" * 10 + GET % b"/quick" * 10)
            for _ in range(20):
                assert (await one(reader)).startswith(b"HTTP/1.1 200 OK ")

    at(scenario)


@pytest.mark.parametrize("path", [b"/", b"/quick"])
def test_requests_that_come_faster_than_answers_do_not_fill_the_memory(at: At, path: bytes) -> None:
    many = GET % path * 1000

    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer), asyncio.TaskGroup() as tasks:
            tracemalloc.start()
            try:
                answers = tasks.create_task(read_all(reader))
                with contextlib.suppress(ConnectionError):
                    for _ in range(50):
                        writer.write(many)
                        await writer.drain()
                answered = (await answers).count(b"HTTP/1.1 200 OK")
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert (most < 8 << 20, answered <= 100) == (True, True)

    at(scenario)


def test_a_client_that_reads_nothing_of_its_answer_is_dropped(at: At) -> None:
    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        try:
            writer.write(GET % b"/large")
            await reader.readexactly(1)
            # Of a socket, which can pause.
            cast("asyncio.Transport", writer.transport).pause_reading()
            # The kernel tells it of a reset when it writes.
            with pytest.raises(ConnectionError):
                async with asyncio.timeout(DEADLINE):
                    while True:
                        writer.write(b"G")
                        await writer.drain()
                        await asyncio.sleep(SHORT / 10)
        finally:
            writer.close()

    at(scenario)


def test_a_client_that_reads_slowly_gets_its_answer_whole(at: At) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(GET % b"/large")
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(32):
                assert len(await reader.readexactly(LARGE // 32)) == LARGE // 32
                await asyncio.sleep(SHORT / 8)

    at(scenario)
