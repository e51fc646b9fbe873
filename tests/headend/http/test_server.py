"""The server of a role: it uses the role's socket, leaves signals alone, and finishes requests."""

import asyncio
import signal
import socket
from typing import Any

import httpx
import pytest

from api.http.application import FastPath
from headend.config.listen_sockets import bind
from headend.http.server import serving
from tests.support.plain_http import PLAIN


class SlowApplication:
    """An application whose answers wait until the test releases them."""

    fast_path: FastPath | None = None

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.life: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # ASGI's own maps
        if scope["type"] == "lifespan":
            for each in ("startup", "shutdown"):
                await receive()
                self.life.append(each)
                await send({"type": f"lifespan.{each}.complete"})
            return
        self.asked.set()
        await self.go.wait()
        headers = [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"done"})


async def test_a_request_in_progress_is_answered_before_the_end() -> None:
    app = SlowApplication()
    with bind("127.0.0.1:0") as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
        async with (
            asyncio.timeout(60),
            httpx.AsyncClient(verify=PLAIN) as client,
            asyncio.TaskGroup() as tasks,
        ):
            async with serving(app, sock):
                assert app.life == ["startup"]
                answer = tasks.create_task(client.get(url))
                await app.asked.wait()
                asyncio.get_running_loop().call_soon(app.go.set)
            assert app.life == ["startup", "shutdown"]
            assert (await answer).text == "done"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2][:-1])))


async def test_a_request_on_its_way_is_answered_before_the_end() -> None:
    """Its connection is accepted; a client without a request does not delay the end for long."""
    app = SlowApplication()
    app.go.set()
    with bind("127.0.0.1:0") as sock:
        async with asyncio.timeout(60):
            async with serving(app, sock):
                address = "127.0.0.1", sock.getsockname()[1]
                streams = [await asyncio.open_connection(*address) for _ in range(2)]
                (reader, writer), (_, silent) = streams
                writer.write(b"GET / HTTP/1.1\r\n")
                await asyncio.sleep(0.05)  # accepted, and half a request
                asyncio.get_running_loop().call_later(0.1, writer.write, b"host: h\r\n\r\n")
            answer = await reader.read()
            for each in (writer, silent):
                each.close()
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"done")
    assert b"connection: close" in answer.lower()


async def test_a_block_that_fails_ends_the_server_as_well() -> None:
    app = SlowApplication()
    with bind("127.0.0.1:0") as sock:
        port = sock.getsockname()[1]
        with pytest.raises(ExceptionGroup) as raised:
            async with serving(app, sock):
                raise ValueError("of the block")
        assert isinstance(raised.value.exceptions[0], ValueError)
    assert app.life == ["startup", "shutdown"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_signals_stay_with_the_role() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    with bind("127.0.0.1:0") as sock:
        async with serving(SlowApplication(), sock):
            assert [signal.getsignal(number) for number in numbers] == before
