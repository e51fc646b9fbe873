"""Requests and responses as values, for the routes that Litestar does not serve itself.

The origin, the pages and the static files build an `HttpResponse`; the fast path of the server or
`send_response` (ASGI) sends it. A response that is not ready yet is a `PendingResponse`. No routing
and no request bodies. Pure except for waiting, sending and closing files.
Source: RFC 9110, sections 13 (conditions), 14 (ranges) and 15 (status codes).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from api.http.browser_headers import MEDIA_POLICY
from api.http.conditional import Unsatisfiable, accepts_gzip, byte_range, has_entity_tag
from api.http.open_file import OpenFile

METHODS: Final = "GET, HEAD, OPTIONS"
# The request headers that a response depends on.
_RELEVANT: Final = {
    name.encode(): name for name in ("accept-encoding", "if-none-match", "if-range", "range")
}
_BODILESS: Final = frozenset({204, 304})
_FIRST_ERROR: Final = 400

# As on the wire, names in lower case.
Headers = tuple[tuple[bytes, bytes], ...]
# Routes of pages and static files, for the application.
PageHandlers = list[ASGIRouteHandler]


class HttpRequest(msgspec.Struct, frozen=True):
    """A method and the headers that a response depends on.

    Header names are in lower case; of a repeated header the last value counts.
    """

    method: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, method: str, headers: Iterable[tuple[bytes, bytes]]) -> "HttpRequest":
        """Build a request from headers as they are on the wire."""
        relevant: dict[str, str] = {}
        for name, value in headers:  # the first thing that each request of a viewer costs
            if name in _RELEVANT:
                relevant[_RELEVANT[name]] = value.decode("latin-1")
        return cls(method, relevant)

    @classmethod
    def from_scope(cls, scope: Scope) -> "HttpRequest":
        """Build a request from an ASGI scope; a web socket has the empty method."""
        if scope["type"] != "http":
            return cls("", {})
        return cls.of(scope["method"], scope["headers"])

    @property
    def accepts_gzip(self) -> bool:
        """Whether the client accepts gzip."""
        return accepts_gzip(self.headers.get("accept-encoding"))

    def has_current(self, tag: str) -> bool:
        """Return True if the client already holds the representation with this entity tag."""
        return has_entity_tag(self.headers.get("if-none-match"), tag)


class Representation(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes or a file, the headers that describe them, and an entity tag with its quotes."""

    body: bytes | OpenFile
    headers: Headers
    tag: str | None = None

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.body) if isinstance(self.body, bytes) else self.body.size


class HttpResponse(msgspec.Struct, frozen=True):
    """A response with all its headers except those of the connection and the date.

    With a `file`, its bytes from `start` up to `stop` (exclusive) are the body; the sender closes
    it.
    """

    status: int
    headers: Headers
    body: bytes = b""
    file: OpenFile | None = None
    start: int = 0
    stop: int = 0

    def close(self) -> None:
        """Close the file, if there is one."""
        if self.file is not None:
            self.file.close()


class PendingResponse:
    """A response that is not ready yet; it is delivered to one subscriber.

    It holds no task, timer or future, so that thousands can wait at a time. All calls are made on
    the event loop.
    """

    # Not an ABC: `isinstance` of one takes ten times as long, and each request asks three times.
    __slots__ = ()

    def subscribe(self, callback: Callable[[HttpResponse], None]) -> None:
        """Have `callback` called once, later, with the response; it never raises.

        The callback is not called from within this call: a response that is ready is returned in
        place of this object. The subscriber closes the response. An object without a subscriber
        can be dropped.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Forget the subscriber, whose client is gone; its callback is not called any more.

        Without effect once the response was delivered.
        """
        raise NotImplementedError


# -- building -------------------------------------------------------------------------------------


def encode_headers(headers: Mapping[str, str]) -> Headers:
    """Return headers as they are sent."""
    return tuple(
        (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
    )


_CROSS_ORIGIN: Final = encode_headers(
    {
        "access-control-allow-origin": "*",
        "access-control-expose-headers": (
            "Content-Length, Content-Range, Content-Encoding, ETag, Date"
        ),
        "cross-origin-resource-policy": "cross-origin",
        "timing-allow-origin": "*",
        "x-content-type-options": "nosniff",
        "content-security-policy": MEDIA_POLICY,
    }
)
_EVERY_ORIGIN: Final = _CROSS_ORIGIN[0]  # admits scripts of every origin
_ACCEPT_RANGES: Final = (b"accept-ranges", b"bytes")


def new_response(status: int, headers: Mapping[str, str], body: bytes = b"") -> HttpResponse:
    """Return a response with its `Content-Length`, unless the status allows no body.

    An error is not cached unless `headers` have a rule of their own.
    """
    more = {} if status in _BODILESS else {"content-length": str(len(body))}
    # Without a rule a cache may keep 404, 405 and others for as long as it likes (RFC 9111, 4.2.2),
    # or for as long as what else is below the path.
    if status >= _FIRST_ERROR and "cache-control" not in map(str.lower, headers):
        more["cache-control"] = "no-store"
    return HttpResponse(status, encode_headers({**headers, **more}), body)


def cross_origin_response(
    status: int, headers: Mapping[str, str], body: bytes = b""
) -> HttpResponse:
    """Return a response that scripts of every origin may read."""
    response = new_response(status, headers, body)
    return msgspec.structs.replace(response, headers=(*_CROSS_ORIGIN, *response.headers))


# The answer to any preflight. Every origin may read these responses, but none that the browser's
# cookies opened, so a page may send any header. `*` stands for all but Authorization (Fetch
# standard, "CORS-preflight fetch"). Browsers of older television sets do not know it: the headers
# that players send are named, too. It is the same for all requests: nothing is reflected or varies.
PREFLIGHT: Final = cross_origin_response(
    204,
    {
        "allow": METHODS,
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": ", ".join(
            (
                "*",
                "Accept-Encoding",
                "Authorization",
                "Cache-Control",
                "CMCD-Object",
                "CMCD-Request",
                "CMCD-Session",
                "CMCD-Status",
                "Content-Type",
                "If-Modified-Since",
                "If-None-Match",
                "If-Range",
                "Pragma",
                "Range",
                "X-Playback-Session-Id",
                "X-Requested-With",
            )
        ),
        "access-control-max-age": "86400",
    },
)


def text_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a response of one line of plain text."""
    kind = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return new_response(status, {**kind, **(headers or {})}, f"{text}\n".encode())


def json_response(status: int, value: object, headers: Mapping[str, str]) -> HttpResponse:
    """Return a JSON response that scripts of every origin may read."""
    kind = {
        "content-type": "application/json",
        "x-content-type-options": "nosniff",
        "access-control-allow-origin": "*",
    }
    return new_response(status, {**kind, **headers}, msgspec.json.encode(value))


def media_headers(
    content_type: str, cache_control: str, extra: Mapping[str, str], *, has_ranges: bool = True
) -> Headers:
    """Return the headers that describe a media object; scripts of every origin may read it.

    `has_ranges`: parts of it are served, which the headers say.
    """
    headers = {**extra, "content-type": content_type, "cache-control": cache_control}
    return (*_CROSS_ORIGIN, *encode_headers(headers), *((_ACCEPT_RANGES,) if has_ranges else ()))


def respond(request: HttpRequest, representation: Representation) -> HttpResponse:
    """Answer GET or HEAD with a representation, a range of it, or 304.

    A range is ignored unless the headers of the representation announce ranges.
    The response takes over the file of the representation; it is closed here if none of its bytes
    are sent.
    """
    response = _respond(request, representation)
    if isinstance(representation.body, OpenFile) and response.file is None:
        representation.body.close()
    return response


def _respond(request: HttpRequest, representation: Representation) -> HttpResponse:
    headers = representation.headers
    tag = representation.tag
    if tag is not None:
        headers = (*headers, (b"etag", tag.encode()))
        if request.has_current(tag):
            return HttpResponse(304, headers)
    size = representation.size
    start, stop, status = 0, size, 200
    # If-Range: the rest of one version must not be appended to the beginning of another
    # (RFC 9110, 13.1.5).
    if (
        "range" in request.headers
        and _ACCEPT_RANGES in headers
        and request.headers.get("if-range", tag) == tag
    ):
        try:
            part = byte_range(request.headers["range"], size)
        except Unsatisfiable:
            return cross_origin_response(
                416, {"content-range": f"bytes */{size}", "cache-control": "no-store"}
            )
        if part is not None:
            start, stop = part
            status = 206
            headers = (*headers, (b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, size)))
    headers = (*headers, (b"content-length", b"%d" % (stop - start)))
    if request.method == "HEAD":
        return HttpResponse(status, headers)
    if isinstance(representation.body, OpenFile):
        return HttpResponse(status, headers, b"", representation.body, start, stop)
    return HttpResponse(status, headers, representation.body[start:stop])


# -- waiting --------------------------------------------------------------------------------------


async def wait_for(pending: PendingResponse, receive: Receive) -> HttpResponse | None:
    """Wait for a response, as ASGI needs it; None if the client disconnects first.

    A cancelled wait cancels the response.
    """
    answer: asyncio.Future[HttpResponse | None] = asyncio.get_running_loop().create_future()

    def deliver(response: HttpResponse) -> None:
        if answer.cancelled():  # the waiting task has not been resumed yet
            response.close()
        else:
            answer.set_result(response)

    async with asyncio.TaskGroup() as tasks:
        pending.subscribe(deliver)
        watching = tasks.create_task(_watch(receive, pending, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                pending.cancel()  # has no effect after the delivery
            elif (response := answer.result()) is not None:
                response.close()  # delivered and cancelled in the same turn of the event loop
            raise
        finally:
            watching.cancel()


async def _watch(
    receive: Receive, pending: PendingResponse, answer: asyncio.Future[HttpResponse | None]
) -> None:
    """End the wait when the client disconnects: its connection no longer counts for it."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not answer.done():
        pending.cancel()
        answer.set_result(None)


# -- sending over ASGI ----------------------------------------------------------------------------


async def send_response(response: HttpResponse, method: str, send: Send) -> None:
    """Send a response and close it; HEAD gets no body."""
    try:
        await send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": list(response.headers),
            }
        )
        if response.file is not None:
            async for piece in response.file.read(response.start, response.stop):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        body = b"" if method == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body, "more_body": False})
    finally:
        response.close()


async def send_page(response: HttpResponse, request: HttpRequest, send: Send) -> None:
    """Send a page's response; close a web socket, and answer 405 to all but GET and HEAD.

    If every origin may read the response, OPTIONS is answered as a preflight.
    """
    if not request.method:
        await send({"type": "websocket.close", "code": 1000, "reason": None})
        return
    if request.method not in {"GET", "HEAD"}:
        response = _other_method(request.method, response)
    await send_response(response, request.method, send)


def _other_method(method: str, response: HttpResponse) -> HttpResponse:
    """Return the answer to a method that no page has, where GET would get `response`."""
    if _EVERY_ORIGIN not in response.headers:
        return text_response(405, "method not allowed", {"allow": "GET, HEAD"})
    if method == "OPTIONS":
        return PREFLIGHT
    return cross_origin_response(405, {"allow": METHODS})
