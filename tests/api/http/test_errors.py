"""Responses and log lines of internal errors."""

import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from httpx import AsyncClient
from litestar import get

from api.app import create_app
from storage.catalog import Catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.migrations import migrate
from tests.support.api.application import ADDRESSES, STREAMS
from tests.support.api.in_loop_client import client_of


@get("/boom")
async def boom() -> None:
    raise ZeroDivisionError("S3CRET")


@asynccontextmanager
async def _client(location: Path) -> AsyncGenerator[tuple[AsyncClient, dict[str, str]]]:
    """Open the application over a catalog that waits for 50 ms only; yield the owner's headers."""
    async with open_database(database_url(location), create=True, busy_ms=50) as database:
        await migrate(database)
        catalog = Catalog(database)
        token = (await catalog.installation.first_start(1)).owner_token
        app = create_app(
            catalog=catalog, addresses=ADDRESSES, broadcaster_key="key", handlers=[boom]
        )
        async with client_of(app) as client:
            yield client, {"Authorization": f"Bearer {token}"}


async def test_an_internal_error_is_500_with_an_id_that_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _client(tmp_path / "catalog.db") as (client, _):
        with caplog.at_level(logging.ERROR):
            answer = await client.get("/boom")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"message"}
    (record,) = [each for each in caplog.records if each.name == "api.http.errors"]
    number = record.__dict__["error"]
    assert answer.json()["message"] == f"Something went wrong here: {number}."
    assert record.__dict__["path"] == "/boom"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


async def test_two_faults_have_two_ids(tmp_path: Path) -> None:
    async with _client(tmp_path / "catalog.db") as (client, _):
        assert (await client.get("/boom")).content != (await client.get("/boom")).content


async def test_a_broken_catalog_shows_neither_statement_nor_path_nor_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    location = tmp_path / "catalog.db"
    async with _client(location) as (client, owner):
        connection = sqlite3.connect(location)
        connection.execute("ALTER TABLE streams RENAME TO elsewhere")
        connection.commit()
        connection.close()
        with caplog.at_level(logging.DEBUG):
            answer = await client.get(STREAMS, headers=owner)
    assert answer.status_code == 500
    for word in ("streams", "SELECT", "sqlite", "no such table", str(tmp_path)):
        assert word not in answer.text
    token = owner["Authorization"].removeprefix("Bearer ")
    logged = caplog.text + repr([record.__dict__ for record in caplog.records])
    assert "no such table" in logged
    assert token not in logged


async def test_a_busy_catalog_is_503_with_retry_after(tmp_path: Path) -> None:
    location = tmp_path / "catalog.db"
    async with _client(location) as (client, owner):
        other = sqlite3.connect(location, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            answer = await client.post(STREAMS, json={"title": "x"}, headers=owner)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert set(answer.json()) == {"message"}
            # Reading is still possible.
            assert (await client.get(STREAMS, headers=owner)).status_code == 200
        finally:
            other.close()
        answer = await client.post(STREAMS, json={"title": "x"}, headers=owner)
        assert answer.status_code == 201


async def test_no_refusal_is_kept_by_a_cache(tmp_path: Path) -> None:
    async with _client(tmp_path / "catalog.db") as (client, _):
        for path in ("/nothing", STREAMS, "/boom"):
            assert (await client.get(path)).headers["cache-control"] == "no-store"
