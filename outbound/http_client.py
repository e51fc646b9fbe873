"""HTTP requests to untrusted servers, each over a connection to an address that was checked.

A host name is resolved once for each connection. Its addresses are checked, and the connection is
made to a checked address, so a name that resolves differently a moment later (DNS rebinding) gains
nothing. The request and the certificate still use the name. No proxy, no cookies, no credentials.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpcore
import msgspec

from outbound.policy import Network, OutboundError, WebAddress, is_fetchable

# A name may have many addresses; if these do not answer, the others hardly will.
_MOST_TRIED: Final = 4
_CONNECT_SECONDS: Final = 10.0
_MOST_BYTES: Final = 64 << 10  # of an answer that says whether something was done
_NOT_IN_TIME: Final = "The server did not answer in time."

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class FetchRefused(OutboundError):
    """The file cannot be fetched, or the server be called, now or later."""


class FetchInterrupted(OutboundError):
    """The file, or the answer, did not arrive this time."""


class Answer(msgspec.Struct, frozen=True):
    """What a server answered: its status, and the beginning of the body."""

    status: int
    body: bytes


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host name, in the order in which to try them.

    Raises:
        OSError: the name has no address, or cannot be resolved.
    """
    loop = asyncio.get_running_loop()
    results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in results]


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that are allowed."""

    def __init__(self, resolve: Resolve, allowed: Sequence[Network]) -> None:
        self._resolve = resolve
        self._allowed = allowed
        inner: object = httpcore.AnyIOBackend()
        # cast: the library types it for an environment without anyio, too
        self._inner = cast("httpcore.AsyncNetworkBackend", inner)
        self.stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's own form
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # Any: the library's own options
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                resolved = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchInterrupted("The address names a server that cannot be found.") from error
        addresses = [address for address in resolved if is_fetchable(address, self._allowed)]
        if not addresses:
            raise FetchRefused("The address leads to a private network.")
        for address in addresses[:_MOST_TRIED]:
            try:
                stream = await self._inner.connect_tcp(
                    address, port, timeout or _CONNECT_SECONDS, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            self.stream = stream
            return stream
        raise FetchInterrupted("The server cannot be reached.")


class CheckedClient:
    """An HTTP client for untrusted servers.

    `allowed` are the private networks that may be connected to; `tls` verifies certificates (None:
    with the system's authorities). A server must begin its response within `answer_seconds`.
    """

    def __init__(
        self,
        *,
        allowed: Sequence[Network] = (),
        resolve: Resolve = resolve_host,
        tls: ssl.SSLContext | None = None,
        answer_seconds: float = 30.0,
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._tls = tls
        self._answer_seconds = answer_seconds

    async def call(
        self, method: str, address: WebAddress, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Send a request, as `request` does, and return the answer.

        Up to `_MOST_BYTES` of it must arrive within `answer_seconds`; the rest is not read.
        """
        received = bytearray()
        try:
            async with (
                asyncio.timeout(self._answer_seconds),
                self.request(method, address, headers, body) as response,
            ):
                async for data in response.aiter_stream():
                    received += data
                    if len(received) >= _MOST_BYTES:
                        break
        except TimeoutError as error:
            raise FetchInterrupted(_NOT_IN_TIME) from error
        return Answer(response.status, bytes(received[:_MOST_BYTES]))

    @asynccontextmanager
    async def request(
        self, method: str, address: WebAddress, headers: Mapping[str, str], body: bytes = b""
    ) -> AsyncGenerator[httpcore.Response, None]:
        """Send a request and yield the response; its body may be read within the block.

        Raises:
            FetchRefused: the host is in a private network, or its certificate is not valid.
            FetchInterrupted: the server did not answer, or broke off.
        """
        network = _CheckedBackend(self._resolve, self._allowed)
        connection = httpcore.AsyncHTTPConnection(
            origin=httpcore.Origin(address.scheme.encode(), address.host.encode(), address.port),
            ssl_context=await self._verification() if address.scheme == "https" else None,
            network_backend=network,
        )
        length = {"Content-Length": str(len(body))} if body or method != "GET" else {}
        request = httpcore.Request(
            method,
            httpcore.URL(
                scheme=address.scheme, host=address.host, port=address.port, target=address.target
            ),
            headers={"Host": address.netloc, **length, **headers},
            content=body,
        )
        try:
            try:
                async with asyncio.timeout(self._answer_seconds):
                    response = await connection.handle_async_request(request)
            except TimeoutError as error:
                raise FetchInterrupted(_NOT_IN_TIME) from error
            try:
                yield response
            finally:
                await response.aclose()
        except httpcore.ConnectError as error:
            if _is_about_certificate(error):
                raise FetchRefused("The server's certificate is not valid.") from error
            raise FetchInterrupted("The server cannot be reached.") from error
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise FetchInterrupted("The connection to the server broke.") from error
        except httpcore.ProtocolError as error:
            raise FetchInterrupted("The server broke off, or its answer is no HTTP.") from error
        finally:
            await connection.aclose()
            # It is not part of the connection yet if the TLS handshake was interrupted.
            if network.stream is not None:
                await network.stream.aclose()

    async def _verification(self) -> ssl.SSLContext:
        """Return what verifies certificates.

        Loading the system's authorities takes 20 ms of CPU, so it is done at the first HTTPS
        request.
        """
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


def _is_about_certificate(error: BaseException | None) -> bool:
    for _ in range(8):  # a chain of causes is short
        if error is None:
            return False
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
