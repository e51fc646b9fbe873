"""The HTTP server of a role: uvicorn on a given socket, without its signal handlers."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn

from api.http.application import Application
from headend.http.connections import ConnectionLimiter
from headend.http.fast_path import FastPathProtocol
from headend.http.limits import BoundedProtocol
from headend.http.parked import ParkedConnections
from headend.http.websockets import MAX_MESSAGE, SocketProtocol

log = logging.getLogger(__name__)

# For answers that are being sent at the end.
_GRACE_SECONDS: Final = 5
_START_SECONDS: Final = 10.0
# Connections that the kernel holds until they are accepted, all in one turn of the event loop.
# `headend.http.descriptors` reserves a descriptor for each.
_BACKLOG: Final = 256


class _Server(uvicorn.Server):
    """Installs no signal handlers: signals stop the whole role, in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def _protocol(app: Application, connections: ConnectionLimiter) -> type[asyncio.Protocol]:
    """Return the protocol for an application: with the fast path if it has one."""
    function = app.fast_path
    if function is None:

        class Plain(BoundedProtocol):
            limiter = connections

        return Plain

    class Fast(FastPathProtocol):
        limiter = connections
        fast_path = staticmethod(function)
        parked = ParkedConnections()

    return Fast


@asynccontextmanager
async def serving(
    app: Application, sock: socket.socket, limiter: ConnectionLimiter | None = None
) -> AsyncGenerator[None, None]:
    """Serve the app for the length of the block; `limiter` bounds the connections."""
    server = _Server(
        uvicorn.Config(
            app,
            http=_protocol(app, ConnectionLimiter() if limiter is None else limiter),
            ws=SocketProtocol,
            ws_max_size=MAX_MESSAGE,
            # The application sends pings itself; compression of short messages doubles the memory.
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            backlog=_BACKLOG,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(server.serve(sockets=[sock]))
        try:
            async with asyncio.timeout(_START_SECONDS):
                # uvicorn has no event for its start.
                while not server.started and not task.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            yield
        finally:
            server.should_exit = True
            # A task group cancels its tasks where the block fails. A server that is cancelled
            # leaves its sockets open, and uvloop then waits for ever when its loop is closed.
            await asyncio.wait({task}, timeout=_GRACE_SECONDS + _START_SECONDS)
