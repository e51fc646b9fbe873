"""The HTTP server inside the service: uvicorn, on a socket of ours, without its own signals."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn

from headend.http.fast_path import FastPath, FastPathProtocol
from headend.http.limits import BoundedProtocol
from headend.http.websockets import MAX_MESSAGE, SocketProtocol

__all__ = ["Application", "serving"]

# An ASGI application, whatever made it.
Application = Callable[..., Awaitable[None]]

log = logging.getLogger(__name__)

# Answers that are being sent get this long at the end.
_GRACE_SECONDS: Final = 5
_START_SECONDS: Final = 10.0


class _Server(uvicorn.Server):
    """Leaves the process's signals alone: they stop the whole service, in its own order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def _protocol(app: Application) -> type[asyncio.Protocol]:
    """Return the protocol for an application: with the fast path if it has one."""
    function: FastPath | None = getattr(app, "fast_path", None)
    if function is None:
        return BoundedProtocol

    class Protocol(FastPathProtocol):
        fast_path = staticmethod(function)

    return Protocol


@asynccontextmanager
async def serving(app: Application, sock: socket.socket) -> AsyncGenerator[None, None]:
    """Serve the app for the length of the block."""
    server = _Server(
        uvicorn.Config(
            app,
            http=_protocol(app),
            ws=SocketProtocol,
            ws_max_size=MAX_MESSAGE,
            # The dialogues ping by themselves; compressing short messages costs twice the memory.
            ws_ping_interval=None,
            ws_per_message_deflate=False,
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
                # uvicorn tells nobody when it has started.
                while not server.started and not task.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            yield
        finally:
            server.should_exit = True
