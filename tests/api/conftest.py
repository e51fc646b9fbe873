"""Fixtures of the application and its stores, and of an origin with a live run."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from api.app import create_app
from api.http.caller_limits import CallerRateLimiter, RateLimits
from api.streams.command_client import IngestClient
from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import open_edge_store
from delivery.edge.remote import open_remote_edge
from headend.duties.media_remover import StoredMedia
from storage.bus.base import Bus
from storage.bus.memory import MemoryBus
from storage.bus.redis import open_redis_bus
from storage.catalog import Catalog, open_catalog
from storage.installation_key import complete_key
from storage.objects.disk import DiskObjects
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.in_loop_client import client_of
from tests.support.api.origin_client import OnSite, OriginSite
from tests.support.api.shared_application import application_over
from tests.support.manual_clock import ManualClock
from tests.support.redis_server import RedisServer, redis_server
from tests.support.shared_engines import ON_SHARED, bucket_objects
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server


@pytest.fixture
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[DiskObjects]:
    """The application's store: a disk, or a bucket on shared engines."""
    if ON_SHARED:
        server: S3Server = request.getfixturevalue("s3_server")
        with bucket_objects(server, tmp_path / "scratch") as bucket:
            yield bucket
        return
    with DiskObjects(tmp_path / "objects") as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """The Redis server of all applications on shared engines."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def live_edge(request: pytest.FixtureRequest) -> AsyncGenerator[MemoryEdge]:
    """The application's edge: in memory, and also in Redis on shared engines."""
    if not ON_SHARED:
        yield MemoryEdge()
        return
    server: RedisServer = request.getfixturevalue("shared_redis")
    async with open_edge_store(server.url, namespace="contract") as store:
        edge = PublishingEdge(store)
        async with asyncio.TaskGroup() as tasks:
            publishing = tasks.create_task(edge.run())
            yield edge
            publishing.cancel()


@pytest.fixture
async def bus(request: pytest.FixtureRequest) -> AsyncGenerator[Bus]:
    """The bus between processes: in memory, or in Redis on shared engines."""
    if not ON_SHARED:
        yield MemoryBus()
        return
    server: RedisServer = request.getfixturevalue("shared_redis")
    async with open_redis_bus(server.url, namespace="contract") as opened:
        yield opened


class StartedFile(NamedTuple):
    """An SQLite catalog after its first start, and its owner's token."""

    location: Path
    owner_token: str


@pytest.fixture(scope="session")
def started_file(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> StartedFile:
    """Created once: a first start takes half as long as many tests."""
    location = Path(shutil.copy(migrated_file, tmp_path_factory.mktemp("started") / "catalog.db"))

    async def start() -> str:
        async with open_catalog(location, migrate=False) as catalog:
            return await first_start(catalog, location) or ""

    return StartedFile(location, asyncio.run(start()))


async def first_start(catalog: Catalog, location: str | Path) -> str | None:
    """Set the broadcaster's key of a new catalog, and return its owner's token."""
    first = await catalog.installation.first_start(NOW_US)
    if first.owner_token is not None:
        run_sql(location, f"UPDATE installation SET broadcaster_key = '{BROADCASTER_KEY}'")
    return first.owner_token


@pytest.fixture
def catalog_database(
    request: pytest.FixtureRequest, started_file: StartedFile, tmp_path: Path
) -> str | Path:
    """The application's catalog: a file, since running all 200 tests on both takes a minute more.

    Modules that test both databases override it with `either_database`.
    """
    if ON_SHARED:
        return request.getfixturevalue("postgres_database")
    return Path(shutil.copy(started_file.location, tmp_path / "catalog.db"))


@pytest.fixture
def taken_seconds() -> float:
    """How long the application waits for an ingest, which most tests do not have."""
    return 0.1


@pytest.fixture
async def api_service(
    catalog_database: str | Path,
    started_file: StartedFile,
    objects: DiskObjects,
    live_edge: MemoryEdge,
    taken_seconds: float,
) -> AsyncGenerator[ApiService]:
    # Each of these databases has its tables already.
    async with open_catalog(catalog_database, migrate=False) as catalog:
        token = await first_start(catalog, catalog_database) or started_file.owner_token
        project = await catalog.projects.find("1")
        assert project is not None
        if ON_SHARED:
            await complete_key(catalog, objects)
        media = StoredMedia(objects, live_edge.drop_folder)
        app = application_over(
            catalog=catalog,
            media=media,
            ingest=IngestClient(catalog, media, taken_seconds=taken_seconds),
            objects=objects,
        )
        # The application handles all its errors: none may reach the server.
        async with client_of(app) as client:
            yield ApiService(
                client=client,
                catalog=catalog,
                key=project.key,
                broadcaster_key=BROADCASTER_KEY,
                owner={"Authorization": f"Bearer {token}"},
            )


@pytest.fixture
def rates() -> RateLimits:
    """The limits of `limited_service`, for a test to override."""
    return RateLimits(requests=0, attempts=0)


@pytest.fixture
async def limited_service(api_service: ApiService, rates: RateLimits) -> AsyncGenerator[ApiService]:
    """An application with rate limits, at one moment, over the catalog of `api_service`."""
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        rate_limiter=CallerRateLimiter(rates, clock=ManualClock()),
        clock_us=lambda: NOW_US,
    )
    async with client_of(app) as client:
        yield msgspec.structs.replace(api_service, client=client)


@asynccontextmanager
async def origin_site(request: pytest.FixtureRequest, folder: Path) -> AsyncGenerator[OriginSite]:
    """Open an origin; on shared engines, another process makes the run."""
    if not ON_SHARED:
        yield OriginSite(folder)
        return
    bucket: DiskObjects = request.getfixturevalue("objects")
    server: RedisServer = request.getfixturevalue("shared_redis")
    server.command("FLUSHALL")  # the runs of all tests have the same name
    async with (
        open_edge_store(server.url, namespace="origin") as store,
        open_remote_edge(store) as edge,
    ):
        yield OriginSite(folder, objects=bucket, edge=edge, maker=PublishingEdge(store))


@pytest.fixture
def on_site(request: pytest.FixtureRequest, tmp_path: Path) -> OnSite:
    """Run a coroutine with an origin that has a live run."""
    for name in ("objects", "shared_redis") if ON_SHARED else ():
        request.getfixturevalue(name)

    def play(scenario: Callable[[OriginSite], Awaitable[None]]) -> None:
        async def go() -> None:
            async with origin_site(request, tmp_path) as site:
                await site.publish()
                async with site.client:
                    await scenario(site)

        asyncio.run(go())

    return play
