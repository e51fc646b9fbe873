"""Health, readiness and metrics: with the API, and in processes that serve nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import httpx
from litestar import Litestar

from api.http.auth import needs_all_projects, needs_token
from api.http.errors import HANDLERS
from api.status import status_app, status_handlers
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change


def run_with_client(
    scenario: Callable[[httpx.AsyncClient], Awaitable[None]],
    *problems: str,
    limits: Callable[[], list[str]] = list,
) -> None:
    async def list_problems() -> list[str]:
        return list(problems)

    async def play() -> None:
        app: Any = status_app(  # httpx' own types
            problems=list_problems, metrics_text=lambda: b"figures 1\n", limits=limits
        )
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://status") as client:
            await scenario(client)

    asyncio.run(play())


def test_a_healthy_process_is_ready() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "problems": []})
        figures = await client.get("/metrics")
        assert figures.text == "figures 1\n"
        assert figures.headers["content-type"].startswith("text/plain; version=0.0.4")

    run_with_client(scenario)


def test_problems_make_a_process_unready_but_it_stays_alive() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "5")
        assert ready.json() == {"status": "not ready", "problems": ["no room"]}
        assert (await client.get("/healthz")).status_code == 200

    run_with_client(scenario, "no room")


def test_a_degraded_process_is_ready_and_reports_its_problems() -> None:
    async def ready(client: httpx.AsyncClient) -> None:
        answer = await client.get("/readyz")
        expected = {"status": "ready", "problems": ["Redis is away"]}
        assert (answer.status_code, answer.json()) == (200, expected)

    async def not_ready(client: httpx.AsyncClient) -> None:
        answer = await client.get("/readyz")
        expected = {"status": "not ready", "problems": ["no room", "Redis is away"]}
        assert (answer.status_code, answer.json()) == (503, expected)

    run_with_client(ready, limits=lambda: ["Redis is away"])
    run_with_client(not_ready, "no room", limits=lambda: ["Redis is away"])


def test_other_paths_are_404() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        for path in ("/", "/api/projects", "/schema", "/live/x", "/watch/x"):
            answer = await client.get(path)
            assert (answer.status_code, set(answer.json())) == (404, {"message"})

    run_with_client(scenario)


async def test_metrics_on_a_public_listener_need_a_token_for_all_projects(tmp_path: Path) -> None:
    async def list_problems() -> list[str]:
        return []

    def guarded(catalog: Catalog) -> Litestar:
        guards = [needs_token(catalog), needs_all_projects]
        handlers = status_handlers(
            problems=list_problems, metrics_text=lambda: b"figures 1\n", guards=guards
        )
        return Litestar(
            [*handlers], exception_handlers=HANDLERS, openapi_config=None, logging_config=None
        )

    async with open_catalog(tmp_path / "catalog.sqlite", migrate=True) as catalog:
        await catalog.installation.first_start(0)
        tokens = catalog.tokens
        _, project_token = await tokens.add("one project", 1, Change(0), write=True)
        _, owner_token = await tokens.add("all projects", None, Change(0), write=False)
        transport = httpx.ASGITransport(app=cast("Any", guarded(catalog)))  # httpx' own types
        async with httpx.AsyncClient(transport=transport, base_url="http://public") as client:

            async def status(path: str, token: str | None) -> int:
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                return (await client.get(path, headers=headers)).status_code

            statuses = [
                await status("/metrics", token)
                for token in (None, "wrong", project_token, owner_token)
            ]
            assert statuses == [401, 401, 403, 200]
            assert [await status(path, None) for path in ("/healthz", "/readyz")] == [200, 200]
