"""The lines of the access log, and that they have no secrets."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from api.app import create_app
from api.http.access_log import AccessLog
from api.http.caller_limits import peer_address
from storage.catalog import open_catalog
from tests.support.api.application import ADDRESSES, NOW_US, STREAMS
from tests.support.sql import migrated


def untyped(app: AccessLog) -> Any:  # httpx and Litestar write ASGI's own maps differently
    return app


@asynccontextmanager
async def logged_service(
    folder: Path, *, everything: bool = False
) -> AsyncGenerator[tuple[AsyncClient, str]]:
    """Open an application with an access log; yield a client and the owner's token."""
    async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
        first = await catalog.installation.first_start(NOW_US)
        app = create_app(catalog=catalog, addresses=ADDRESSES, broadcaster_key="key")
        outer = AccessLog(app, address_of=peer_address, everything=everything)
        transport = ASGITransport(untyped(outer), client=("192.0.2.7", 1234))
        async with AsyncClient(transport=transport, base_url="http://live.example") as client:
            yield client, str(first.owner_token)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the facts of the logged lines."""
    return [record.__dict__ for record in caplog.records if record.name == "api.http.access_log"]


async def test_a_request_has_one_line_with_client_route_and_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with logged_service(tmp_path) as (client, token):
        answer = await client.post(
            STREAMS, json={"title": "x"}, headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 201
    (line,) = lines(caplog)
    assert line["levelname"] == "INFO"
    assert line["message"] == "request"
    assert line["peer"] == "192.0.2.7"
    assert line["method"] == "POST"
    assert line["route"] == "/api/projects/{project_id}/streams"
    assert line["status"] == 201
    assert line["bytes_in"] == len(answer.request.content)
    assert line["bytes_out"] == len(answer.content)
    assert line["token"] == 1
    assert line["ms"] >= 0


async def test_neither_token_nor_query_nor_name_nor_key_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="api")
    async with logged_service(tmp_path) as (client, token):
        headers = {"Authorization": f"Bearer {token}"}
        listed = await client.get(f"{STREAMS}?search=S3CRET&token={token}", headers=headers)
        streams = listed.json()["data"]
        await client.get("/api/S3CRET", headers=headers)
        await client.get("/api/projects/S3CRET/streams", headers=headers)
        await client.post(STREAMS, content=b'{"S3CRET": 1', headers=headers)
        await client.get(STREAMS, headers={"Authorization": "Bearer S3CRET"})
    requests = lines(caplog)
    assert [line["status"] for line in requests] == [200, 404, 404, 400, 401]
    assert [line["token"] for line in requests] == [1, None, 1, 1, None]
    assert requests[1]["route"] == "unknown"
    records = [each.__dict__ for each in caplog.records if each.name.startswith("api")]
    text = repr(records)
    assert "S3CRET" not in text
    assert token not in text
    assert all(stream["stream"] not in text for stream in streams)


async def test_viewers_have_lines_only_where_everything_is_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with logged_service(tmp_path) as (client, _):
        await client.get("/schema/openapi.json")
    assert lines(caplog) == []
    async with logged_service(tmp_path, everything=True) as (client, _):
        await client.get("/schema/openapi.json")
    (line,) = lines(caplog)
    assert line["route"] == "/schema/openapi.json"


async def test_a_request_whose_answer_fails_is_still_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def breaking(scope: Any, receive: Any, send: Any) -> None:
        raise ConnectionResetError

    app = AccessLog(breaking, address_of=peer_address)
    async with AsyncClient(
        transport=ASGITransport(untyped(app)), base_url="http://live.example"
    ) as client:
        with pytest.raises(ConnectionResetError):
            await client.get("/api/x")
    (line,) = lines(caplog)
    assert line["status"] == 0
