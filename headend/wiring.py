"""Which concrete thing stands behind each port: the only place that names them together.

A role is what one process does: take encoders in (`ingest`), show what they make (`api`), or both
(`serve`). All stand on the same ground: the catalog and the objects of one data folder.
"""

import asyncio
import shutil
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from api.addresses import Addresses
from api.app import create_app
from api.auth import is_owner
from api.embed import pages
from api.playback import Origin, OriginFirst
from api.status import status_app, status_handlers
from headend.adapters import (
    CatalogChronicle,
    CatalogDirectory,
    CatalogJournal,
    EngineSinks,
)
from headend.doors import Doors, port_of
from headend.installation import DATABASE, OWNER_TOKEN, found_in
from headend.settings import Settings
from headend.sockets import bind, public_base
from headend.states import keep_states_true
from headend.telemetry import Telemetry
from headend.tls import Tls
from headend.web import Application, serving
from headend.webfigures import CountedApplication, WebFigures
from ingest.listener import listening
from storage.catalog import Catalog, open_catalog
from storage.catalog.records import FirstStart
from storage.edge.memory import MemoryEdge
from storage.errors import StorageError
from storage.objects.disk import DiskObjects
from storage.publication import Window
from transcode.live import LiveTranscoding

__all__ = ["API", "INGEST", "SERVE", "Role", "Service"]


def wall_us() -> int:
    """Return the wall clock in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A running role, as its caller sees it; None is what the role does not have."""

    addresses: Addresses
    first: FirstStart
    token_file: Path | None = None
    status: str | None = None
    rtmp_port: int | None = None
    tls: Tls | None = None


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does; `service` runs it for the length of a block, and leaving that drains."""

    name: str
    service: Callable[[Settings], AbstractAsyncContextManager[Service]]
    writes: bool  # runs, and the states of streams
    installs: bool  # makes or migrates the database where that is due


class _Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What all roles stand on."""

    settings: Settings
    folder: Path
    doors: Doors
    addresses: Addresses
    catalog: Catalog
    first: FirstStart
    objects: DiskObjects
    edge: MemoryEdge


class _Encoders(msgspec.Struct, frozen=True, kw_only=True):
    """The side of a service that takes encoders in."""

    figures: Callable[[], bytes]
    tls: Tls | None


@asynccontextmanager
async def _serve(settings: Settings) -> AsyncGenerator[Service, None]:
    """Take encoders in and show what they make."""
    async with (
        _grounded(settings, viewers=True, encoders=True) as ground,
        _taking_encoders(ground) as encoders,
        _answering(_application(ground, encoders.figures), ground.doors.http),
    ):
        yield Service(
            addresses=ground.addresses,
            first=ground.first,
            token_file=ground.folder / OWNER_TOKEN,
            rtmp_port=port_of(ground.doors.rtmp),
            tls=encoders.tls,
        )


@asynccontextmanager
async def _ingest(settings: Settings) -> AsyncGenerator[Service, None]:
    """Take encoders in; others show what they make."""
    async with AsyncExitStack() as stack:
        listen = settings.ingest.status
        door = stack.enter_context(bind(listen)) if listen else None
        ground = await stack.enter_async_context(_grounded(settings, viewers=False, encoders=True))
        encoders = await stack.enter_async_context(_taking_encoders(ground))
        app = status_app(problems=_problems(ground), figures=encoders.figures)
        await stack.enter_async_context(_answering(app, door))
        yield Service(
            addresses=ground.addresses,
            first=ground.first,
            status=public_base("", "http", listen, port_of(door), "") if door else None,
            rtmp_port=port_of(ground.doors.rtmp),
            tls=encoders.tls,
        )


@asynccontextmanager
async def _api(settings: Settings) -> AsyncGenerator[Service, None]:
    """Show what encoders make, from disk, and answer callers."""
    figures = WebFigures()
    async with (
        _grounded(settings, viewers=True, encoders=False) as ground,
        _while_running(keep_states_true(ground.catalog, ground.folder)),
        _answering(
            CountedApplication(_application(ground, figures.text), figures), ground.doors.http
        ),
    ):
        yield Service(
            addresses=ground.addresses,
            first=ground.first,
            token_file=ground.folder / OWNER_TOKEN,
        )


SERVE: Final = Role(name="serve", service=_serve, writes=True, installs=True)
INGEST: Final = Role(name="ingest", service=_ingest, writes=True, installs=False)
API: Final = Role(name="api", service=_api, writes=False, installs=False)


@asynccontextmanager
async def _grounded(
    settings: Settings, *, viewers: bool, encoders: bool
) -> AsyncGenerator[_Ground, None]:
    folder = Path(settings.data)
    async with AsyncExitStack() as stack:
        doors = Doors.bound(settings, stack, viewers=viewers, encoders=encoders)
        addresses = doors.addresses(settings)
        catalog = await stack.enter_async_context(open_catalog(folder / DATABASE, migrate=False))
        yield _Ground(
            settings=settings,
            folder=folder,
            doors=doors,
            addresses=addresses,
            catalog=catalog,
            first=await found_in(catalog),
            objects=stack.enter_context(DiskObjects(folder / "objects")),
            edge=MemoryEdge(),
        )


@asynccontextmanager
async def _taking_encoders(ground: _Ground) -> AsyncGenerator[_Encoders, None]:
    settings, catalog, doors = ground.settings, ground.catalog, ground.doors
    await catalog.reset_live_states()
    tls = Tls(settings, ground.folder / "tls", ground.addresses) if doors.rtmps else None
    window = Window(listed=settings.live.listed_seconds, kept=settings.live.kept_seconds)
    transcoding = LiveTranscoding(
        objects=ground.objects,
        edge=ground.edge,
        window=window,
        wall_us=wall_us,
        chronicle=CatalogChronicle(catalog, wall_us).happened,
    )
    left = [record.hash for record in await catalog.all_streams()]
    async with (
        _while_running(
            transcoding.end_abandoned(left, settings.live.reconnect_seconds), transcoding.govern()
        ),
        listening(
            limits=settings.limits,
            directory=CatalogDirectory(
                catalog,
                window=settings.live.reconnect_seconds,
                goodbye=settings.live.goodbye_seconds,
            ),
            sinks=EngineSinks(transcoding),
            journal=CatalogJournal(catalog, wall_us),
            doors=_ingest_doors(doors, tls),
            drain_seconds=settings.drain_seconds,
        ) as listener,
    ):
        yield _Encoders(figures=Telemetry(listener, transcoding).text, tls=tls)


def _application(ground: _Ground, figures: Callable[[], bytes]) -> Application:
    """Return the API, the pages, the origin and the status, over what stands on the ground."""
    catalog, addresses = ground.catalog, ground.addresses

    async def owner(authorization: str | None, hash_: str, /) -> bool:
        return await is_owner(catalog, authorization, hash_)

    origin = Origin(objects=ground.objects, edge=ground.edge, showcase=catalog, is_owner=owner)
    app = create_app(
        catalog=catalog,
        addresses=addresses,
        broadcaster_key=ground.first.broadcaster_key,
        version=version("headend"),
        handlers=[
            *pages(showcase=catalog, addresses=addresses, is_owner=owner),
            *status_handlers(problems=_problems(ground), figures=figures),
        ],
    )
    return OriginFirst(origin, app)


@asynccontextmanager
async def _while_running(*chores: Awaitable[None]) -> AsyncGenerator[None, None]:
    """Do chores beside the block, and stop them with it."""

    async def do(chore: Awaitable[None]) -> None:
        await chore

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(do(chore)) for chore in chores]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def _answering(app: Application, door: socket.socket | None) -> AsyncGenerator[None, None]:
    """Serve an application for the length of the block, where there is a door for it."""
    if door is None:
        yield
        return
    async with serving(app, door):
        yield


def _ingest_doors(
    doors: Doors, tls: Tls | None
) -> list[tuple[socket.socket, ssl.SSLContext | None]]:
    found: list[tuple[socket.socket, ssl.SSLContext | None]] = []
    if doors.rtmp is not None:
        found.append((doors.rtmp, None))
    if doors.rtmps is not None and tls is not None:
        found.append((doors.rtmps, tls.context))
    return found


def _problems(ground: _Ground) -> Callable[[], Awaitable[list[str]]]:
    least = ground.settings.storage.min_free_bytes

    async def problems() -> list[str]:
        found: list[str] = []
        try:
            await ground.catalog.ping()
        except StorageError as error:
            found.append(str(error))
        free = shutil.disk_usage(ground.folder).free
        if free < least:
            found.append(f"free space is {free} bytes, storage.min_free_bytes is {least}")
        return found

    return problems
