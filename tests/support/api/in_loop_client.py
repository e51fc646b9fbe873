"""A client of an application that runs in the loop of the test itself.

Litestar's own runs the application in a second thread with a loop of its own: of each request,
half the CPU went into waking one thread and then the other.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from httpx import ASGITransport, AsyncClient
from litestar import Litestar

__all__ = ["client_of"]


@asynccontextmanager
async def client_of(app: Litestar) -> AsyncGenerator[AsyncClient]:
    """Start an application for the length of the block, and call it without a socket.

    Redirects are followed. What the application does not answer itself is raised here.
    """
    untyped: Any = app  # Any: httpx has its own ASGI types
    transport = ASGITransport(untyped, client=("testclient", 50000))
    async with (
        app.lifespan(),
        AsyncClient(
            transport=transport,
            base_url="http://testserver.local",
            headers={"User-Agent": "testclient"},
            follow_redirects=True,
            trust_env=False,
        ) as client,
    ):
        yield client
