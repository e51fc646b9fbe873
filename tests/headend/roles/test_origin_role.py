"""The origin role: the requests that it serves, passes on, and logs."""

import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar, get

from api.http.client_address import BadNetwork
from api.origin.geo import GeoError
from delivery.edge.memory import MemoryEdge
from headend.roles.origin_role import OriginRole
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from tests.support.api.application import ADDRESSES, NOW_US
from tests.support.headend.installed import settings_of
from tests.support.sql import migrated


@asynccontextmanager
async def role_on(
    folder: Path, **changed: str
) -> AsyncGenerator[tuple[OriginRole, Catalog, DiskObjects]]:
    location = migrated(folder / "catalog.db")
    with DiskObjects(folder / "objects") as objects:
        async with open_catalog(location, migrate=False) as catalog:
            await catalog.installation.first_start(NOW_US)
            settings = settings_of(folder, **changed)
            edge = MemoryEdge()
            yield OriginRole.create(settings, catalog, objects, edge, ADDRESSES), catalog, objects


@get("/api/thing", sync_to_thread=False)
def other_handler() -> str:
    return "the API's"


def client_of(role: OriginRole, access: str = "off") -> httpx.AsyncClient:
    app = Litestar([other_handler, *role.handlers], logging_config=None)
    wrapped: Any = role.wrap(app, access)  # Any: httpx has its own ASGI types
    return httpx.AsyncClient(transport=httpx.ASGITransport(wrapped), base_url="http://a.example")


@pytest.mark.parametrize(
    ("access", "logged"),
    [("off", set[str]()), ("api", {"/api/thing"}), ("all", {"/api/thing", "unknown"})],
)
async def test_requests_are_logged_as_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, access: str, logged: set[str]
) -> None:
    caplog.set_level(logging.INFO)
    async with role_on(tmp_path) as (role, _, _), client_of(role, access) as client:
        assert (await client.get("/api/thing")).text == "the API's"
        assert (await client.get("/live/AAAAAAAAAAAA/index.m3u8")).status_code == 404
    lines = [record for record in caplog.records if record.message == "request"]
    assert {vars(line)["route"] for line in lines} == logged


async def test_the_fast_path_is_there_unless_all_requests_are_logged(tmp_path: Path) -> None:
    async with role_on(tmp_path) as (role, _, _):
        app = Litestar([], logging_config=None)
        fast = {name: role.wrap(app, name).fast_path is not None for name in ("off", "api", "all")}
    assert fast == {"off": True, "api": True, "all": False}


@pytest.mark.parametrize(
    ("changed", "country"),
    [
        pytest.param({}, "RO", id="no web server"),
        pytest.param({"http__public_url": "https://tv.example"}, None, id="an unknown one"),
        pytest.param(
            {"http__public_url": "https://tv.example", "http__trusted_proxies": "127.0.0.1"},
            "RO",
            id="a known one",
        ),
    ],
)
async def test_private_addresses_prove_a_country_only_where_no_proxy_hides_viewers(
    tmp_path: Path, changed: dict[str, str], country: str | None
) -> None:
    async with role_on(tmp_path, geo__private_country="RO", **changed) as (role, _, _):
        assert role.geo.country("10.0.0.5", []) == country


@pytest.mark.parametrize(("published", "status"), [(True, 200), (False, 404)])
async def test_media_of_a_hidden_page_are_not_served(
    tmp_path: Path, published: bool, status: int
) -> None:
    async with role_on(tmp_path) as (role, catalog, objects), client_of(role) as client:
        (stream,) = await catalog.streams.find_all()
        change = catalog.streams.publish if published else catalog.streams.unpublish
        await change(stream.id, Change(NOW_US))
        playlist = f"live/{stream.hash}/index.m3u8"
        await objects.put(playlist, b"#EXTM3U\n")
        for path in (f"/{playlist}", f"/watch/{stream.hash}", f"/embed/{stream.hash}"):
            assert (await client.get(path)).status_code == status, path


@pytest.mark.parametrize(
    ("changed", "target"),
    [
        (
            {
                "storage__delivery": "redirect",
                "storage__endpoint": "http://10.0.0.5:7480",
                "storage__public_endpoint": "https://s3.example",
                "storage__region": "us-east-1",
            },
            "https://s3.example/media/one/",
        ),
        (
            {"storage__delivery": "cdn", "storage__cdn_url": "https://cdn.example/one"},
            "https://cdn.example/one/",
        ),
    ],
)
async def test_media_are_redirected_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], target: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    async with (
        role_on(tmp_path, storage__url="s3://media/one", **changed) as (role, catalog, objects),
        client_of(role) as client,
    ):
        (stream,) = await catalog.streams.find_all()
        await catalog.streams.publish(stream.id, Change(NOW_US))
        segment = f"live/{stream.hash}/20260131T120000123/720p/1.m4s"
        await objects.put(segment, b"media")
        await catalog.cdn_folders.open(stream.hash)
        record = await catalog.visibility.find(stream.hash)
        assert record is not None
        assert record.cdn_token is not None
        copy = f"cdn/{stream.hash}/{record.cdn_token}/20260131T120000123/720p/1.m4s"
        place = segment if changed["storage__delivery"] == "redirect" else copy
        answer = await client.get(f"/{segment}")
        assert answer.status_code == 302
        assert answer.headers["location"].partition("?")[0] == target + place
        page = await client.get(f"/watch/{stream.hash}")
        origin = "/".join(target.split("/")[:3])
        policy = page.headers["content-security-policy"]
        (connect,) = re.findall("connect-src ([^;]+);", policy)
        assert connect.split().count(origin) == 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"http__trusted_proxies": "nowhere"}, BadNetwork),
        ({"geo__database": "/none.mmdb"}, GeoError),
    ],
)
async def test_invalid_settings_are_refused_at_the_start(
    tmp_path: Path, changed: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        async with role_on(tmp_path, **changed):
            pass
