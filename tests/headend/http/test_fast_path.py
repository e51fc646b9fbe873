"""The fast path of the HTTP server: real sockets, a real origin, misbehaving connections."""

import asyncio
import contextlib
import os
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from api.origin.origin import Origin, OriginFirst
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from headend.config.listen_sockets import bind
from headend.http.server import serving
from storage.catalog.records.common import PublicRecord
from storage.objects.disk import DiskObjects
from tests.support.e2e.service import SCALE
from tests.support.waiting import until

HASH = "abcdefABCDEF"
RUN = "20260131T120000123"
SEGMENT = f"/live/{HASH}/{RUN}/720p/1.m4s"
PLAYLIST = f"/live/{HASH}/{RUN}/720p/index.m3u8"
MEGABYTE = 1 << 20
DEADLINE = 20.0 * SCALE
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class OneStreamRecords:
    """The public record of one stream, visible to all; finding it can be made to fail."""

    broken = False

    async def find(self, hash_: str, /) -> PublicRecord | None:
        if self.broken:
            raise RuntimeError("a mistake of ours")
        return PublicRecord(
            hash=hash_, project=1, title="", description="",
            published=True, hidden=False, live=True,
        )  # fmt: skip


async def is_owner(authorization: str | None, hash_: str, /) -> bool:
    return False


async def other(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the origin: echoes the request."""
    if scope["type"] == "lifespan":
        for each in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{each}.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    echo = f"{scope['method']} {scope['path']} ".encode() + body
    headers = [(b"content-length", str(len(echo)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": echo})


class ReceivedResponse(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes


class OriginServer:
    """A server with a folder of objects."""

    def __init__(self, folder: Path) -> None:
        self.objects = DiskObjects(folder)
        self.edge = MemoryEdge()
        self.public_records = OneStreamRecords()
        self.origin = Origin(
            objects=self.objects,
            edge=self.edge,
            visibility=VisibilityCache(self.public_records, is_owner),
        )
        self.port = 0

    async def connect(self) -> "RawHttpClient":
        return RawHttpClient(*await asyncio.open_connection("127.0.0.1", self.port, limit=MEGABYTE))


class RawHttpClient:
    """A connection that sends exactly the given requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(self, path: str, *headers: str, method: str = "GET", version: str = "1.1") -> None:
        lines = [f"{method} {path} HTTP/{version}", "Host: here", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode())

    async def head(self) -> ReceivedResponse:
        async with asyncio.timeout(DEADLINE):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()[:-1]
        pairs = [line.partition(": ") for line in lines]
        return ReceivedResponse(
            int(first.split()[1]), {name: value for name, _, value in pairs}, b""
        )

    async def answer(self, *, bodiless: bool = False) -> ReceivedResponse:
        answer = await self.head()
        length = 0 if bodiless else int(answer.headers.get("content-length", "0"))
        async with asyncio.timeout(DEADLINE):
            answer.body = await self.reader.readexactly(length)
        return answer

    async def get(self, path: str, *headers: str) -> ReceivedResponse:
        self.ask(path, *headers)
        return await self.answer()

    async def rest(self) -> bytes:
        """Read until the server closes or resets the connection."""
        received = bytearray()
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(MEGABYTE):
                    received += piece
        return bytes(received)


@asynccontextmanager
async def origin_server(folder: Path) -> AsyncGenerator[OriginServer, None]:
    server = OriginServer(folder)
    app: Any = OriginFirst(server.origin, other)
    with bind("127.0.0.1:0") as sock:
        server.port = sock.getsockname()[1]
        async with serving(app, sock):
            yield server


@pytest.fixture(params=LOOPS)
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Return a function that runs a scenario against a server, on each kind of event loop."""

    def play(scenario: Callable[[OriginServer], Awaitable[None]]) -> None:
        async def go() -> None:
            async with origin_server(tmp_path) as server:
                await server.edge.put_playlists({PLAYLIST[1:]: "#EXTM3U\n" + 300 * "#A LINE\n"})
                await scenario(server)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(go())

    return play


At = Callable[[Callable[[OriginServer], Awaitable[None]]], None]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_one_connection_is_used_for_many_different_requests(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        data = os.urandom(3 * MEGABYTE)
        await server.objects.put(SEGMENT[1:], data)
        client = await server.connect()
        for _ in range(3):
            assert (await client.get(SEGMENT)).body == data
            some = await client.get(SEGMENT, "Range: bytes=1000000-2999999")
            assert (some.status, some.body) == (206, data[1_000_000:3_000_000])
            assert (await client.get(PLAYLIST)).body.startswith(b"#EXTM3U")
            assert (await client.get("/elsewhere")).body == b"GET /elsewhere "
            assert (await client.get(SEGMENT.replace("1.m4s", "2.m4s"))).status == 404
            tag = some.headers["etag"]
            assert (await client.get(SEGMENT, f"If-None-Match: {tag}")).status == 304
            client.ask(SEGMENT, method="HEAD")
            head = await client.answer(bodiless=True)
            assert head.headers["content-length"] == str(len(data))
        client.writer.close()

    at(scenario)


def test_an_empty_file_is_an_answer_too(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        await server.objects.put(SEGMENT[1:], b"")
        client = await server.connect()
        for _ in range(2):
            answer = await client.get(SEGMENT)
            assert (answer.status, answer.headers["content-length"]) == (200, "0")
        client.writer.close()

    at(scenario)


def test_the_fast_path_answers_as_asgi_does(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        await server.objects.put(SEGMENT[1:], os.urandom(1000))
        client = await server.connect()
        for path in (SEGMENT, PLAYLIST, SEGMENT.replace("1.m4s", "9.m4s")):
            for header in ("X: y", "Range: bytes=5-9", "Range: bytes=9999999-",
                           "If-None-Match: *", "Accept-Encoding: gzip"):  # fmt: skip
                short = await client.get(path, header)
                # A query keeps a request off the fast path and means nothing to the origin.
                long = await client.get(f"{path}?x", header)
                for each in (short, long):
                    each.headers.pop("date")
                assert msgspec.structs.astuple(short) == msgspec.structs.astuple(long)
        client.writer.close()

    at(scenario)


def test_pipelined_requests_are_answered_in_order(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        data = os.urandom(5 * MEGABYTE)
        await server.objects.put(SEGMENT[1:], data)
        client = await server.connect()
        for _ in range(4):
            client.ask(SEGMENT)
            client.ask(PLAYLIST)
            client.ask("/elsewhere", "Content-Length: 3", method="POST")
            client.writer.write(b"abc")
        for _ in range(4):
            assert (await client.answer()).body == data
            assert (await client.answer()).body.startswith(b"#EXTM3U")
            assert (await client.answer()).body == b"POST /elsewhere abc"
        client.writer.close()

    at(scenario)


def test_an_unexpected_body_is_not_taken_for_the_next_request(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        client = await server.connect()
        await client.get(PLAYLIST)
        client.ask(PLAYLIST, "Content-Length: 200000")
        client.writer.write(b"GET /x HTTP/1.1\r\n\r\n".ljust(200_000))
        assert (await client.answer()).body.startswith(b"#EXTM3U")
        assert (await client.get("/elsewhere")).body == b"GET /elsewhere "
        client.writer.close()

    at(scenario)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_to_close_gets_its_whole_answer_before_the_close(at: At, version: str) -> None:
    async def scenario(server: OriginServer) -> None:
        data = os.urandom(3 * MEGABYTE)
        await server.objects.put(SEGMENT[1:], data)
        client = await server.connect()
        client.ask(SEGMENT, "Connection: close", version=version)
        assert (await client.answer()).body == data
        assert await client.rest() == b""
        client.writer.close()

    at(scenario)


def test_a_slow_reader_takes_little_memory_and_delays_no_other(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        path = server.objects.path(SEGMENT[1:])
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(64 * MEGABYTE))
        slow, quick = await server.connect(), await server.connect()
        await quick.get(PLAYLIST)
        tracemalloc.start()
        try:
            slow.ask(SEGMENT)
            await slow.head()
            for _ in range(50):
                assert (await quick.get(PLAYLIST)).status == 200
            # The client's own buffer is 2 MB at most, a piece of the server's is 64 kB.
            assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
        finally:
            tracemalloc.stop()
        async with asyncio.timeout(DEADLINE):
            for _ in range(64):
                assert await slow.reader.readexactly(MEGABYTE) == bytes(MEGABYTE)
        assert (await slow.get(PLAYLIST)).status == 200
        for each in (slow, quick):
            each.writer.close()

    at(scenario)


def test_a_reader_that_disconnects_leaves_no_open_file(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        await server.objects.put(SEGMENT[1:], bytes(32 * MEGABYTE))
        watcher = await server.connect()
        await watcher.get(PLAYLIST)
        before = descriptors()
        for _ in range(5):
            client = await server.connect()
            client.ask(SEGMENT)
            await client.head()
            # Unread bytes make this a reset.
            client.writer.close()
            with contextlib.suppress(ConnectionError):
                await client.writer.wait_closed()
        await until(lambda: descriptors() <= before, within=20)
        assert (await watcher.get(PLAYLIST)).status == 200
        watcher.writer.close()

    at(scenario)


def test_a_file_that_became_shorter_cuts_the_connection(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        path = server.objects.path(SEGMENT[1:])
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(64 * MEGABYTE))
        client = await server.connect()
        await client.get(PLAYLIST)
        client.ask(SEGMENT)
        await client.head()
        os.truncate(path, 0)
        assert len(await client.rest()) < 64 * MEGABYTE
        client.writer.close()

    at(scenario)


def test_a_file_that_is_not_in_memory_is_sent_too(at: At) -> None:
    async def scenario(server: OriginServer) -> None:
        data = os.urandom(3 * MEGABYTE)
        await server.objects.put(SEGMENT[1:], data)
        with server.objects.path(SEGMENT[1:]).open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        client = await server.connect()
        assert (await client.get(SEGMENT)).body == data
        client.writer.close()

    at(scenario)


def test_an_error_of_ours_is_answered_and_does_not_end_the_connection(
    at: At, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: OriginServer) -> None:
        client = await server.connect()
        server.public_records.broken = True
        failed = await client.get(PLAYLIST)
        assert failed.status == 500
        # A script of another origin sees the status, not a failure of the network.
        assert failed.headers["access-control-allow-origin"] == "*"
        assert failed.headers["cache-control"] == "no-store"
        server.public_records.broken = False
        assert (await client.get(PLAYLIST)).status == 200
        client.writer.close()

    at(scenario)
    assert "a mistake of ours" in caplog.text


@pytest.mark.parametrize("kind", LOOPS)
def test_an_answer_in_progress_is_finished_before_the_server_ends(
    tmp_path: Path, kind: str
) -> None:
    async def go() -> None:
        begun = asyncio.Event()
        async with asyncio.TaskGroup() as tasks, origin_server(tmp_path) as server:
            await server.objects.put(SEGMENT[1:], bytes(32 * MEGABYTE))
            client = await server.connect()

            async def watch() -> None:
                client.ask(SEGMENT)
                await client.head()
                begun.set()
                assert len(await client.rest()) == 32 * MEGABYTE
                client.writer.close()

            tasks.create_task(watch())
            await begun.wait()

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(go())
