"""Heads whose end, host or fields a proxy in front could read in another way than the server."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from api.http.application import FastPath
from api.http.response import HttpResponse, cross_origin_response
from headend.config.listen_sockets import bind
from headend.http.limits import BoundedProtocol
from headend.http.server import serving
from tests.headend.http.test_limits import client, one, read_all

SHORT = 0.3  # seconds
HIDDEN = b"DELETE /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
TOKENS = (b"foo", b"h2c", b"websocket", b"websocket, foo", b"foo, websocket", b"TLS/1.0")
CONNECTION = (
    b"Connection: upgrade\r\n",
    b"Connection: keep-alive, Upgrade\r\n",
    b"Connection: close\r\nConnection: UPGRADE\r\n",
    b"Connection: Upgrade\r\nConnection: keep-alive\r\n",
)
BODIES = {
    "content-length": (b"Content-Length: %d\r\n\r\n" % len(HIDDEN), HIDDEN),
    "chunked": (
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN),
    ),
    "no body": (b"\r\n", HIDDEN),
    "an empty body": (b"Content-Length: 0\r\n\r\n", HIDDEN),
}


class Recorder:
    """Answers with the length of the body, and records what it was asked for."""

    fast_path: FastPath | None = None

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.fields: list[list[tuple[bytes, bytes]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        if scope["type"] == "lifespan":
            for each in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{each}.complete"})
            return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        length, more = 0, True
        while more:
            message = await receive()
            length += len(message.get("body", b""))
            more = message.get("more_body", False)
        self.requests.append((scope["method"], scope["path"]))
        self.fields.append(list(scope["headers"]))
        body = b"%d" % length
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class FastRecorder(Recorder):
    """The same with a fast path, at once and in a task."""

    def __init__(self) -> None:
        super().__init__()
        self.fast_path = self._quick

    def _quick(
        self, method: str, path: str, headers: Any, _peer: str | None = None
    ) -> HttpResponse | Any | None:
        async def later() -> HttpResponse:
            await asyncio.sleep(0.05)
            self.fields.append(list(headers))
            return cross_origin_response(404, {}, b"later")

        self.requests.append((method, path))
        if path == "/quick":
            return cross_origin_response(404, {}, b"quick")
        return later() if path == "/later" else None


Scenario = Callable[[int], Awaitable[None]]
Serve = Callable[[Recorder, Scenario], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return a function that runs a scenario with the port of a server of an application."""
    monkeypatch.setattr(BoundedProtocol, "head_seconds", SHORT)
    monkeypatch.setattr(BoundedProtocol, "keep_alive_seconds", SHORT)

    def run(app: Recorder, scenario: Scenario) -> None:
        async def go() -> None:
            with bind("127.0.0.1:0") as sock:
                async with serving(app, sock):
                    await scenario(sock.getsockname()[1])

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(go())

    return run


async def exchange(port: int, *packets: bytes) -> bytes:
    """Send packets, each after the server had time for the one before; return all that came."""
    async with client(port) as (reader, writer), asyncio.TaskGroup() as tasks:
        answers = tasks.create_task(read_all(reader))
        for number, packet in enumerate(packets):
            await asyncio.sleep(0.02 if number else 0)
            with contextlib.suppress(ConnectionError):  # closed after an earlier packet
                writer.write(packet)
                await writer.drain()
        return await answers


@pytest.mark.parametrize("packets", [1, 2])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("token", TOKENS)
def test_what_follows_an_offer_of_another_protocol_is_no_request(
    serve: Serve, token: bytes, body: str, packets: int
) -> None:
    fields, after = BODIES[body]
    app = FastRecorder()

    async def scenario(port: int) -> None:
        for connection in CONNECTION:
            head = b"POST /asked HTTP/1.1\r\nHost: a\r\nUpgrade: %b\r\n" % token
            head += connection + fields
            answer = await exchange(port, *([head + after] if packets == 1 else [head, after]))
            assert answer.count(b"HTTP/1.1 ") == 1, (connection, answer)
            assert b"connection: close\r\n" in answer.lower(), answer
            if "no body" not in body and "empty" not in body:
                assert answer.startswith(b"HTTP/1.1 400 "), (connection, answer)

    serve(app, scenario)
    assert {path for _, path in app.requests} <= {"/asked"}


@pytest.mark.parametrize("path", [b"/asked", b"/quick", b"/later"])
def test_an_offer_without_a_body_is_ignored_and_answered(serve: Serve, path: bytes) -> None:
    """Java's HTTP client offers h2c with its first request."""
    lines = (
        b"GET %b HTTP/1.1" % path,
        b"Host: a",
        b"Connection: Upgrade, HTTP2-Settings",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
        b"",
        b"",
    )

    async def scenario(port: int) -> None:
        answer = await exchange(port, b"\r\n".join(lines))
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n0")

    serve(Recorder(), scenario)


def test_an_offer_behind_a_request_that_is_being_answered_is_answered_after_it(
    serve: Serve,
) -> None:
    first = b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n"
    offer = b"GET /asked HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n"

    async def scenario(port: int) -> None:
        answers = await exchange(port, first + offer + HIDDEN, HIDDEN)
        assert answers.count(b"HTTP/1.1 ") == 2
        assert answers.index(b" 404 ") < answers.index(b" 200 ")

    app = FastRecorder()
    serve(app, scenario)
    assert app.requests == [("GET", "/later"), ("GET", "/asked")]


TRAILERS = {
    "an address": b"X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n",
    "an identity": b"Authorization: Bearer token\r\nCookie: a=b\r\nHost: other\r\n",
    "an offer": b"Connection: upgrade\r\nUpgrade: foo\r\n",
    "a web-socket": b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    "a close": b"Connection: close\r\n",
    "an expectation": b"Expect: 100-continue\r\n",
    "many": b"X: y\r\n" * 120,
}


@pytest.mark.parametrize("path", [b"/asked", b"/later"])
@pytest.mark.parametrize("trailers", TRAILERS)
def test_trailer_fields_never_become_header_fields(
    serve: Serve, path: bytes, trailers: str
) -> None:
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    body = b"3\r\nabc\r\n0\r\n" + TRAILERS[trailers] + b"\r\n"
    app = FastRecorder()

    async def scenario(port: int) -> None:
        for packets in ([head + body], [head, body], [head, *(bytes([each]) for each in body[:40]),
                        body[40:]]):  # fmt: skip
            answers = await exchange(port, *packets)
            assert answers.count(b"HTTP/1.1 ") == 1
            assert answers.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 404 "))

    serve(app, scenario)
    assert len(app.fields) == 3
    for fields in app.fields:
        assert fields == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize("trailers", ["an offer", "a web-socket"])
def test_a_request_behind_an_offer_in_trailers_is_not_swallowed_by_an_open_connection(
    serve: Serve, trailers: str
) -> None:
    """A proxy that sent the trailers must see the connection end before it sends the next one."""
    head = b"POST /asked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(head + b"0\r\n" + TRAILERS[trailers] + b"\r\n")
            assert (await one(reader)).startswith(b"HTTP/1.1 200 ")
            writer.write(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            rest = await read_all(reader)
            assert rest == b"" or rest.startswith(b"HTTP/1.1 200 ")

    serve(Recorder(), scenario)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /asked HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (b"GET /asked HTTP/1.1\r\nhost:\r\n\r\n", 200),
        (b"GET /asked HTTP/1.0\r\n\r\n", 200),
        (b"GET /asked HTTP/1.1\r\n\r\n", 400),
        (b"GET /asked HTTP/2.0\r\n\r\n", 400),
        (b"GET /asked HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n", 400),
        (b"GET /asked HTTP/1.1\r\nHost: a\r\nX: y\r\nHost: b\r\n\r\n", 400),
        (b"GET /asked HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"HEAD /asked HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400),
    ],
)
def test_a_request_names_one_host(serve: Serve, head: bytes, status: int) -> None:
    async def scenario(port: int) -> None:
        answer = await exchange(port, head, HIDDEN if status == 400 else b"")
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.endswith(b"\r\n\r\n") == head.startswith(b"HEAD")

    app = Recorder()
    serve(app, scenario)
    assert app.requests == ([] if status == 400 else [("GET", "/asked")])


@pytest.mark.parametrize(
    "fields",
    [
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 3\r\n Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding:\r\n",
    ],
)
def test_a_body_whose_end_is_in_doubt_is_refused_before_the_request_is_handled(
    serve: Serve, fields: bytes
) -> None:
    head = b"POST /quick HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"
    app = FastRecorder()

    async def scenario(port: int) -> None:
        for packets in ([head + b"0\r\n\r\n" + HIDDEN], [head, b"0\r\n\r\n", HIDDEN]):
            answer = await exchange(port, *packets)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.1 ") == 1

    serve(app, scenario)
    assert app.requests == []


def test_nothing_is_written_behind_an_answer_whose_request_breaks_off_in_garbage(
    serve: Serve,
) -> None:
    """A proxy could take it for the answer to the next request of its shared connection."""
    head = b"POST /quick HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario(port: int) -> None:
        answers = await exchange(port, head, b"not a length\r\n" + HIDDEN)
        assert answers.count(b"HTTP/1.1 ") == 1
        assert answers.startswith(b"HTTP/1.1 404 ")

    serve(FastRecorder(), scenario)


@pytest.mark.parametrize("path", [b"/quick", b"/later"])
def test_head_gets_no_body(serve: Serve, path: bytes) -> None:
    async def scenario(port: int) -> None:
        async with client(port) as (reader, writer):
            for _ in range(2):
                writer.write(b"HEAD %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
                async with asyncio.timeout(5):
                    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 ")
            writer.write(b"GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert (await read_all(reader)).startswith(b"HTTP/1.1 ")

    serve(FastRecorder(), scenario)
