"""A client of an application that runs in the test's own event loop.

Litestar's test client runs the application on a second thread: half the CPU of each request went
into switching threads.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from httpx import ASGITransport, AsyncClient
from litestar import Litestar


@asynccontextmanager
async def client_of(app: Litestar) -> AsyncGenerator[AsyncClient]:
    """Start an application for the length of the block, and call it without a socket.

    The client follows redirects, and raises the application's unhandled exceptions.
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
