"""Thousands of requests that wait for their answers: a real server, real sockets."""

import asyncio
import contextlib
import resource
import socket
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from api.http.application import FastAnswer
from api.http.client_address import TrustedProxies
from api.http.open_file import open_file
from api.http.response import (
    HttpResponse,
    PendingResponse,
    cross_origin_response,
    send_response,
    wait_for,
)
from headend.config.listen_sockets import bind
from headend.http import fast_path
from headend.http.connections import ConnectionLimiter
from headend.http.metrics import CountedApplication, HttpMetrics, metrics_text
from headend.http.parked import ParkedConnections
from headend.http.server import serving
from tests.support.counted_calls import counted_calls
from tests.support.waiting import SCALE, until

DEADLINE = 20.0 * SCALE
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
PART = cross_origin_response(200, {"content-type": "text/plain"}, b"the part")
SWITCH = (
    b"GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Reader(PendingResponse):
    """One request that waits for the application's next publication."""

    __slots__ = ("app", "callback")
    callback: Callable[[HttpResponse], None]

    def __init__(self, app: "PublishingApplication") -> None:
        self.app = app

    def subscribe(self, callback: Callable[[HttpResponse], None]) -> None:
        if self.app.is_broken:
            raise RuntimeError("a mistake of ours")
        self.callback = callback
        self.app.readers[self] = None

    def cancel(self) -> None:
        self.app.cancelled += 1
        self.app.readers.pop(self, None)


class PublishingApplication:
    """Answers /wait once something is published, /looked/wait after a lookup, the rest at once."""

    def __init__(self) -> None:
        self.readers: dict[Reader, None] = {}
        self.cancelled = 0
        self.is_broken = False
        self.looked_up = asyncio.Event()

    def publish(self, response: HttpResponse = PART) -> None:
        readers, self.readers = self.readers, {}
        for reader in readers:
            reader.callback(response)

    def fast_path(self, _method: str, path: str, _headers: object, _peer: str | None) -> FastAnswer:
        if path.startswith("/live/wait"):
            return Reader(self)
        if path == "/live/looked/wait":
            return self._look_up()
        if path == "/live/quick":
            return cross_origin_response(200, {}, b"quick")
        return None

    async def _look_up(self) -> PendingResponse:
        await self.looked_up.wait()
        return Reader(self)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        if scope["type"] == "lifespan":
            for each in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{each}.complete"})
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["path"].startswith("/live/wait"):
            response = await wait_for(Reader(self), receive)
            if response is not None:
                await send_response(response, scope["method"], send)
        else:
            echo = cross_origin_response(200, {}, scope["path"].encode())
            await send_response(echo, scope["method"], send)


class RawConnection:
    """A connection; `get` sends a request, `answer` reads one answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def get(self, path: str) -> None:
        self.writer.write(GET % path.encode())

    async def head(self) -> bytes:
        async with asyncio.timeout(DEADLINE):
            return (await self.reader.readuntil(b"\r\n\r\n")).lower()

    async def answer(self) -> bytes:
        """Return the status and the body."""
        head = await self.head()
        lines = head.split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        async with asyncio.timeout(DEADLINE):
            return head[9:13] + await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Read until the server closes; a reset ends it as well."""
        received = b""
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(65_536):
                    received += piece
        return received


class ServedPublisher:
    """A publisher behind a server."""

    def __init__(self, port: int, app: PublishingApplication) -> None:
        self.port = port
        self.app = app
        self.clients: list[RawConnection] = []

    async def connect(self) -> RawConnection:
        client = RawConnection(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def parked(self, count: int = 1) -> None:
        """Wait until so many requests are parked."""
        await until(lambda: len(self.app.readers) == count, within=20)


@asynccontextmanager
async def served_publisher(
    metrics: HttpMetrics | None = None, limiter: ConnectionLimiter | None = None
) -> AsyncGenerator[ServedPublisher]:
    app = PublishingApplication()
    served: Any = app if metrics is None else CountedApplication(app, metrics)
    with bind("127.0.0.1:0") as listener:
        scenario = ServedPublisher(listener.getsockname()[1], app)
        async with serving(served, listener, limiter):
            yield scenario
            for client in scenario.clients:
                client.writer.close()


@pytest.fixture(params=LOOPS)
def at(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that runs a scenario against a server, on each kind of event loop."""

    def play(
        act: Callable[[ServedPublisher], Awaitable[None]], metrics: HttpMetrics | None = None
    ) -> None:
        async def go() -> None:
            async with served_publisher(metrics) as served:
                await act(served)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(go())

    return play


At = Callable[..., None]


def test_a_parked_request_is_answered_and_its_connection_stays_usable(at: At) -> None:
    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        for path in ("/live/wait", "/live/wait", "/live/looked/wait"):
            client.get(path)
            served.app.looked_up.set()
            await served.parked()
            served.app.publish()
            assert await client.answer() == b"200 the part"
            client.get("/live/quick")
            assert await client.answer() == b"200 quick"
            client.get("/slow")
            assert await client.answer() == b"200 /slow"
        assert served.app.cancelled == 0

    at(act)


def test_many_readers_get_the_same_answer_and_all_are_counted(at: At) -> None:
    metrics = HttpMetrics()

    async def act(served: ServedPublisher) -> None:
        clients = [await served.connect() for _ in range(20)]
        for client in clients:
            client.get("/live/wait")
        clients[0].get("/live/wait?twice")
        await served.parked(20)
        served.app.publish()
        for client in clients:
            assert await client.answer() == b"200 the part"
        await served.parked()  # the one behind the first
        clients[1].get("/live/looked/wait")
        served.app.looked_up.set()
        await served.parked(2)
        served.app.publish()
        for client in clients[:2]:
            assert await client.answer() == b"200 the part"

    at(act, metrics)
    assert 'answers_total{room="live",status="2xx"} 22.0' in metrics_text(metrics)().decode()


def test_a_head_request_is_parked_too(at: At) -> None:
    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        client.writer.write((GET % b"/live/wait").replace(b"GET", b"HEAD"))
        await served.parked()
        served.app.publish(HttpResponse(200, ((b"content-length", b"8"),)))
        assert b"content-length: 8\r\n" in await client.head()
        client.get("/live/quick")
        assert await client.answer() == b"200 quick"

    at(act)


@pytest.mark.parametrize("line", [b"HTTP/1.0", b"HTTP/1.1\r\nConnection: close"])
def test_requests_that_close_the_connection_wait_in_asgi(at: At, line: bytes) -> None:
    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        client.writer.write((GET % b"/live/wait").replace(b"HTTP/1.1", line))
        await served.parked()
        served.app.publish()
        assert (await client.rest()).endswith(b"\r\n\r\nthe part")

    at(act)


@pytest.mark.parametrize("line", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_disconnect_cancels_a_parked_request(
    at: At, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Its place is free at once, so nothing of its request may remain."""

    async def act(served: ServedPublisher) -> None:
        leaving, staying = await served.connect(), await served.connect()
        leaving.writer.write((GET % b"/live/wait").replace(b"HTTP/1.1", line))
        staying.get("/live/wait")
        await served.parked(2)
        leaving.writer.close()
        await served.parked(1)
        assert served.app.cancelled == 1
        served.app.publish()
        assert await staying.answer() == b"200 the part"

    at(act)
    assert not caplog.records


def test_the_end_of_the_client_during_the_lookup_leaves_nothing_parked(at: At) -> None:
    async def act(served: ServedPublisher) -> None:
        leaving, staying = await served.connect(), await served.connect()
        leaving.get("/live/looked/wait")
        staying.get("/live/looked/wait")
        staying.get("/behind")
        await asyncio.sleep(0.05)
        leaving.writer.close()
        await leaving.writer.wait_closed()
        served.app.looked_up.set()
        await until(lambda: len(served.app.readers) + served.app.cancelled >= 1)
        await served.parked(1)
        served.app.publish()
        assert await staying.answer() == b"200 the part"
        assert await staying.answer() == b"200 /behind"

    at(act)


def test_requests_behind_a_parked_one_wait_for_their_turn(at: At) -> None:
    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        behind = ("/live/quick", "/slow", "/live/wait?2", "/live/quick", "/other")
        for path in ("/live/wait", *behind):
            client.get(path)
        await served.parked()
        # The requests have been read: another connection's, sent later, is answered.
        other = await served.connect()
        other.get("/slow")
        assert await other.answer() == b"200 /slow"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.reader.read(1)
        served.app.publish()
        # Behind an unfinished answer, requests take ASGI.
        for body in (b"the part", b"/live/quick", b"/slow"):
            assert await client.answer() == b"200 " + body
        await served.parked()
        served.app.publish()
        for body in (b"the part", b"/live/quick", b"/other"):
            assert await client.answer() == b"200 " + body

    at(act)


def test_the_body_of_a_parked_request_is_not_buffered(at: At) -> None:
    size = 8 << 20

    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        head = b"GET /live/wait HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
        client.writer.write(head)
        await served.parked()
        tracemalloc.start()
        try:
            for _ in range(size // 65_536):
                client.writer.write(b"z" * 65_536)
                await client.writer.drain()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        served.app.publish()
        assert await client.answer() == b"200 the part"
        client.get("/live/quick")
        assert await client.answer() == b"200 quick"
        assert most < size // 2

    at(act)


def test_an_answer_before_it_does_not_end_the_connection_while_it_is_parked(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path.FastPathProtocol, "keep_alive_seconds", 0.1)

    async def act(served: ServedPublisher) -> None:
        for path in ("/live/wait", "/live/looked/wait"):
            client = await served.connect()
            client.writer.write(GET % b"/live/quick" + GET % path.encode())
            assert await client.answer() == b"200 quick"
            await asyncio.sleep(0.3)
            served.app.looked_up.set()
            await served.parked()
            served.app.publish()
            assert await client.answer() == b"200 the part"
            assert await client.rest() == b""  # now it is idle

    at(act)


def test_a_web_socket_cannot_take_over_a_connection_with_a_parked_request(at: At) -> None:
    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        client.writer.write(GET % b"/live/wait" + SWITCH)
        assert await client.rest() == b""
        await until(lambda: not served.app.readers)

    at(act)


def test_a_request_that_waits_too_long_gets_503_and_its_connection_stays_usable(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headend.http.server.ParkedConnections", lambda: ParkedConnections(0.2))

    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        client.get("/live/wait")
        head = await client.head()
        assert head.startswith(b"http/1.1 503 ")
        assert b"retry-after: 1\r\n" in head
        assert (served.app.cancelled, len(served.app.readers)) == (1, 0)
        client.get("/live/quick")
        assert await client.answer() == b"200 quick"

    at(act)


@pytest.mark.parametrize("kind", LOOPS)
def test_draining_does_not_wait_for_parked_requests(kind: str) -> None:
    async def go() -> None:
        scenario: ServedPublisher
        async with served_publisher() as scenario:
            client, ordinary = await scenario.connect(), await scenario.connect()
            ordinary.get("/live/quick")
            await ordinary.answer()
            client.get("/live/wait")
            client.get("/behind")
            await scenario.parked()
            scenario.clients.clear()
        # The server has ended: its bytes are in the socket.
        received = await client.rest()
        assert received.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in received
        assert b"connection: close\r\n" in received
        assert received.count(b"HTTP/1.1") == 1
        assert (scenario.app.cancelled, len(scenario.app.readers)) == (1, 0)
        client.writer.close()
        ordinary.writer.close()

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(go())


def test_a_failed_answer_ends_its_connection_and_no_other(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(served: ServedPublisher) -> None:
        clients = [await served.connect() for _ in range(3)]
        for client in clients:
            client.get("/live/wait")
        await served.parked(3)
        readers = list(served.app.readers)
        for reader, answer in zip(readers, (PART, HttpResponse(999, ()), PART), strict=True):
            reader.callback(answer)
        answers = [await client.rest() if number == 1 else await client.answer()
                for number, client in enumerate(clients)]  # fmt: skip
        assert sorted(answers) == [b"", b"200 the part", b"200 the part"]

    at(act)
    assert "request failed" in caplog.text


def test_a_failed_subscription_ends_its_connection_and_no_other(at: At) -> None:
    async def act(served: ServedPublisher) -> None:
        bad, good = await served.connect(), await served.connect()
        good.get("/live/wait")
        await served.parked()
        served.app.is_broken = True
        bad.get("/live/wait")
        assert await bad.answer() == b"500 "
        served.app.is_broken = False
        served.app.publish()
        assert await good.answer() == b"200 the part"

    at(act)


def test_a_parked_request_counts_for_the_client_that_a_proxy_names() -> None:
    limiter = ConnectionLimiter(5, TrustedProxies(["127.0.0.1"]))
    forwarded = b"GET /live/wait HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"

    async def go() -> None:
        async with served_publisher(limiter=limiter) as served:
            clients = [await served.connect() for _ in range(3)]
            await until(lambda: len(limiter) == 3)
            # Two places are free, so one client may have two requests waiting.
            for number, client in enumerate(clients[:2], 1):
                client.writer.write(forwarded)
                await served.parked(number)
            clients[2].writer.write(forwarded)
            assert (await clients[2].rest()).startswith(b"HTTP/1.1 503 ")
            await until(lambda: len(limiter) == 2)
            served.app.publish()
            for client in clients[:2]:
                assert await client.answer() == b"200 the part"
                client.writer.write(forwarded)
            await served.parked(2)
            for client in clients:
                client.writer.close()
            await until(lambda: len(limiter) == 0)
            assert not served.app.readers

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


def test_a_file_is_an_answer_too(at: At, tmp_path: Path) -> None:
    data = bytes(range(256)) * 8192
    (tmp_path / "part").write_bytes(data)

    async def act(served: ServedPublisher) -> None:
        client = await served.connect()
        for path in ("/live/wait", "/slow", "/live/quick"):
            client.get(path)
        await served.parked()
        file = open_file(tmp_path / "part")
        headers = ((b"content-length", b"%d" % len(data)),)
        served.app.publish(HttpResponse(200, headers, b"", file, 0, len(data)))
        assert await client.answer() == b"200 " + data
        assert await client.answer() == b"200 /slow"
        assert await client.answer() == b"200 /live/quick"

    at(act)


def test_two_thousand_are_parked_at_once_and_answered_together() -> None:
    many = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * many + 500:
        pytest.skip("too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * many + 500), hard))

    async def go() -> None:
        async with served_publisher() as served:
            app, sockets = served.app, list[socket.socket]()
            try:
                for _ in range(many):
                    sockets.append(socket.create_connection(("127.0.0.1", served.port)))
                    sockets[-1].sendall(GET % b"/live/wait")
                    await asyncio.sleep(0)
                await served.parked(many)
                tasks = len(asyncio.all_tasks())
                with counted_calls() as count:
                    app.publish()
                await asyncio.sleep(0)
                for each in sockets:
                    each.settimeout(DEADLINE)
                    assert each.recv(4096).endswith(b"\r\n\r\nthe part")
                assert (tasks < 10, count.calls < 20 * many) == (True, True)
            finally:
                for each in sockets:
                    each.close()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(go())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
