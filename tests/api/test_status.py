"""Health, readiness and figures: with the API, and alone where a process shows nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from api.status import status_app


def ask(scene: Callable[[httpx.AsyncClient], Awaitable[None]], *problems: str) -> None:
    async def found() -> list[str]:
        return list(problems)

    async def play() -> None:
        app: Any = status_app(problems=found, figures=lambda: b"figures 1\n")  # httpx' own types
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://status") as client:
            await scene(client)

    asyncio.run(play())


def test_a_process_that_is_well_says_so() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "problems": []})
        figures = await client.get("/metrics")
        assert figures.text == "figures 1\n"
        assert figures.headers["content-type"].startswith("text/plain; version=0.0.4")

    ask(scene)


def test_what_is_wrong_is_said_and_the_process_is_alive_all_the_same() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "5")
        assert ready.json() == {"status": "not ready", "problems": ["no room"]}
        assert (await client.get("/healthz")).status_code == 200

    ask(scene, "no room")


def test_there_is_nothing_else() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for path in ("/", "/api/projects", "/schema", "/live/x", "/watch/x"):
            answer = await client.get(path)
            assert (answer.status_code, set(answer.json())) == (404, {"message"})

    ask(scene)
