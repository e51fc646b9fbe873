"""HTTP servers on loopback to download files from, well-behaved and hostile."""

import asyncio
import re
import ssl
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec


class WebRequest(msgspec.Struct, frozen=True):
    """A request."""

    target: str
    headers: dict[str, str]
    method: str = "GET"
    body: bytes = b""

    @property
    def range_start(self) -> int:
        """The first requested byte."""
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(match[1]) if match else 0


Responder = Callable[[WebRequest, asyncio.StreamWriter], Awaitable[None]]


class WebServer(msgspec.Struct):
    """A server: its port, and the received requests."""

    port: int
    requests: list[WebRequest]

    def url(self, target: str = "/film.mp4", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{target}"


@asynccontextmanager
async def web_server(
    respond: Responder, *, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[WebServer]:
    """Respond to every request with `respond`; a connection ends after one response."""
    site = WebServer(0, [])

    at_work: set[asyncio.Task[None]] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        at_work.add(task)
        # Cancelled by the end of the test, as some responses never end.
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            pairs = (line.split(": ", 1) for line in lines if line)
            headers = {name.lower(): value for name, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = first.split()
            request = WebRequest(target, headers, method, body)
            site.requests.append(request)
            await respond(request, writer)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError, ssl.SSLError, CancelledError):
            await writer.wait_closed()
        at_work.discard(task)

    server = await asyncio.start_server(meet, "127.0.0.1", 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in at_work:
            task.cancel()
        if at_work:
            await asyncio.wait(at_work)


def response_bytes(status: str, *headers: str, body: bytes = b"") -> bytes:
    """Return a response as bytes, without any default headers."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


def file_server(
    data: bytes, *, tag: str = '"one"', breaks_after: int | None = None, ranges: bool = True
) -> Responder:
    """Serve a file; with `breaks_after` each response is cut off after that many bytes."""

    async def serve(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        resumes = ranges and request.range_start and request.headers.get("if-range") == tag
        start = request.range_start if resumes else 0
        body = data[start:]
        lines = [f"Content-Length: {len(body)}", *([f"ETag: {tag}"] if tag else [])]
        if resumes:
            lines.append(f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}")
        status = "206 Partial Content" if resumes else "200 OK"
        writer.write(response_bytes(status, *lines, body=body[:breaks_after]))
        await writer.drain()

    return serve
