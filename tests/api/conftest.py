"""The application, in a folder of its own; the origin, with a run on air."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path

import pytest
from litestar.testing import AsyncTestClient

from api.streams.command_client import IngestClient
from headend.roles.media_remover import StoredMedia
from storage.catalog import open_catalog
from storage.edge.memory import MemoryEdge
from storage.objects.disk import DiskObjects
from tests.support.api.application import BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.origin_client import OnSite, OriginSite
from tests.support.api.shared_application import application_over
from tests.support.sql import run_sql


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    """The disk of the application."""
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


@pytest.fixture
def catalog_place(migrated_place: Path) -> str | Path:
    """Where the application's catalog is: a file, as 200 tests on both would take a minute more.

    Modules that are for both databases have their own, which returns `both_places`.
    """
    return migrated_place


@pytest.fixture
def taken_seconds() -> float:
    """How long the application waits for an ingest, of which there is none in most tests."""
    return 0.1


@pytest.fixture
async def house(
    catalog_place: str | Path, objects: DiskObjects, taken_seconds: float
) -> AsyncGenerator[ApiService]:
    async with open_catalog(catalog_place, migrate=True) as catalog:
        first = await catalog.installation.first_start(NOW_US)
        media = StoredMedia(objects, MemoryEdge())
        run_sql(catalog_place, f"UPDATE installation SET broadcaster_key = '{BROADCASTER_KEY}'")
        app = application_over(
            catalog=catalog,
            media=media,
            ingest=IngestClient(catalog, media, taken_seconds=taken_seconds),
            objects=objects,
        )
        # The application answers its own errors: none may come through to the server.
        async with AsyncTestClient(app, raise_server_exceptions=True) as client:
            yield ApiService(
                client=client,
                catalog=catalog,
                key=first.project.key,
                broadcaster_key=BROADCASTER_KEY,
                owner={"Authorization": f"Bearer {first.owner_token}"},
            )


@pytest.fixture
def on_site(tmp_path: Path) -> OnSite:
    """Run a scene on a site with a run that is on air."""

    def play(scene: Callable[[OriginSite], Awaitable[None]]) -> None:
        async def go() -> None:
            site = OriginSite(tmp_path)
            await site.publish()
            async with site.client:
                await scene(site)

        asyncio.run(go())

    return play
