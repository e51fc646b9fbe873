"""An ASGI application that may answer some requests as values, without ASGI.

Applications in front of another one (`api.origin.origin`, `api.pusher.socket`,
`headend.http.metrics`) each say which fast path the whole has.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from api.http.client_address import RawHeaders
from api.http.response import HttpResponse, PendingResponse

# An application of any framework; Any: ASGI's own maps.
AsgiCall = Callable[[Any, Any, Any], Awaitable[None]]
# A response, now or later; or a coroutine that returns one of them.
FastAnswer = (
    HttpResponse | PendingResponse | Coroutine[Any, Any, HttpResponse | PendingResponse] | None
)
# Takes the method, which is not HEAD, the target, the headers (names in lower case) and the peer's
# address (None for a local socket). Returns None if the request needs ASGI.
FastPath = Callable[[str, str, RawHeaders, str | None], FastAnswer]


class Application(Protocol):
    """An ASGI application."""

    @property
    def fast_path(self) -> FastPath | None:
        """The function that a server asks first; None if all requests need ASGI."""
        ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        """Answer one request."""
        ...


class PlainApplication:
    """An application of another framework, all of whose requests need ASGI."""

    fast_path: FastPath | None = None

    def __init__(self, app: AsgiCall) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        """Answer one request."""
        await self._app(scope, receive, send)
