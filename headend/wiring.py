"""Which concrete thing stands behind each port: the only place that names them together.

A role is what one process does: take encoders in (`ingest`), show what they make (`api`), make
uploaded files playable (`transcode`), or all of it (`serve`). All stand on the same ground: the
catalog and the objects of one data folder.
"""

import shutil
import socket
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from api.addresses import Addresses
from api.app import create_app
from api.auth import needs_token
from api.ingest import Ingest, nobody
from api.pusher.delivery import delivering, telling
from api.pusher.private import authorising
from api.pusher.signed import publishing
from api.pusher.socket import Broadcaster
from api.ratelimit import Callers, Rates
from api.status import status_app, status_handlers
from headend.adapters import (
    CatalogChronicle,
    CatalogDirectory,
    CatalogJournal,
    EngineSinks,
)
from headend.chores import while_running
from headend.doors import Doors, port_of
from headend.filework import file_workers
from headend.installation import OWNER_TOKEN, catalog_place, found_in
from headend.intake import intake_on
from headend.media import StoredMedia
from headend.orders import Orders
from headend.settings import Settings
from headend.sockets import bind, public_base
from headend.states import keep_states_true
from headend.telemetry import Telemetry
from headend.tls import Tls
from headend.viewers import Viewers
from headend.web import Application, serving
from headend.webfigures import CountedApplication, WebFigures
from ingest.listener import listening
from media.keys import PublicHash
from storage.bus.base import Bus
from storage.bus.memory import MemoryBus
from storage.bus.redis import open_redis_bus
from storage.catalog import Catalog, open_catalog
from storage.catalog.records import FirstStart
from storage.edge.memory import MemoryEdge
from storage.errors import StorageError
from storage.leftovers import keep_clean
from storage.objects.disk import DiskObjects
from storage.publication import Window
from transcode.live import LiveTranscoding

__all__ = ["API", "INGEST", "SERVE", "TRANSCODE", "Role", "Service"]


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
    bus: Bus
    objects: DiskObjects
    edge: MemoryEdge


class _Encoders(msgspec.Struct, frozen=True, kw_only=True):
    """The side of a service that takes encoders in."""

    figures: Callable[[], bytes]
    tls: Tls | None
    nudge: Callable[[], None]  # there is a command


@asynccontextmanager
async def _serve(settings: Settings) -> AsyncGenerator[Service, None]:
    """Take encoders in and show what they make."""
    async with (
        _grounded(settings, viewers=True, encoders=True) as ground,
        _viewing(ground) as viewers,
        _taking_encoders(ground) as encoders,
        while_running(
            file_workers(settings.transcode, ground.catalog, ground.objects).run(),
            keep_clean(ground.objects, ground.catalog.videos, wall_us),
        ),
        _broadcasting(ground) as broadcaster,
        _answering(
            broadcaster.before(
                _application(ground, viewers, encoders.figures, broadcaster, encoders.nudge)
            ),
            ground.doors.http,
        ),
        broadcaster.closing(),
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
        _viewing(ground) as viewers,
        while_running(keep_states_true(ground.catalog, ground.folder)),
        _broadcasting(ground) as broadcaster,
        _answering(
            broadcaster.before(
                CountedApplication(
                    _application(ground, viewers, figures.text, broadcaster), figures
                )
            ),
            ground.doors.http,
        ),
        broadcaster.closing(),
    ):
        yield Service(
            addresses=ground.addresses,
            first=ground.first,
            token_file=ground.folder / OWNER_TOKEN,
        )


@asynccontextmanager
async def _transcode(settings: Settings) -> AsyncGenerator[Service, None]:
    """Make uploaded files playable."""
    async with _grounded(settings, viewers=False, encoders=False) as ground:
        workers = file_workers(settings.transcode, ground.catalog, ground.objects)
        clean = keep_clean(ground.objects, ground.catalog.videos, wall_us)
        async with while_running(workers.run(), clean):
            yield Service(addresses=ground.addresses, first=ground.first)


SERVE: Final = Role(name="serve", service=_serve, writes=True, installs=True)
INGEST: Final = Role(name="ingest", service=_ingest, writes=True, installs=False)
API: Final = Role(name="api", service=_api, writes=False, installs=False)
TRANSCODE: Final = Role(name="transcode", service=_transcode, writes=False, installs=False)


@asynccontextmanager
async def _grounded(
    settings: Settings, *, viewers: bool, encoders: bool
) -> AsyncGenerator[_Ground, None]:
    folder = Path(settings.data)
    async with AsyncExitStack() as stack:
        doors = Doors.bound(settings, stack, viewers=viewers, encoders=encoders)
        addresses = doors.addresses(settings)
        catalog = await stack.enter_async_context(
            open_catalog(catalog_place(settings), migrate=False)
        )
        first = await found_in(catalog)
        yield _Ground(
            settings=settings,
            folder=folder,
            doors=doors,
            addresses=addresses,
            catalog=catalog,
            first=first,
            bus=await stack.enter_async_context(_bus(settings, catalog, first.broadcaster_key)),
            objects=stack.enter_context(DiskObjects(folder / "objects")),
            edge=MemoryEdge(),
        )


@asynccontextmanager
async def _bus(settings: Settings, catalog: Catalog, key: str) -> AsyncGenerator[Bus, None]:
    """Hold the bus open, which says when this process wrote a notice."""
    async with AsyncExitStack() as stack:
        bus: Bus = MemoryBus()
        if settings.redis.url:
            # Installations that share a Redis differ in their key.
            opened = open_redis_bus(settings.redis.url, namespace=f"headend.{key}")
            bus = await stack.enter_async_context(opened)
        await stack.enter_async_context(telling(catalog.notices, bus))
        yield bus


@asynccontextmanager
async def _viewing(ground: _Ground) -> AsyncGenerator[Viewers, None]:
    """Know where viewers are, for as long as they are shown anything."""
    place = ground.catalog, ground.objects, ground.edge, ground.addresses
    viewers = Viewers.of(ground.settings, *place)
    async with while_running(viewers.geo.keep_fresh()):
        yield viewers


@asynccontextmanager
async def _broadcasting(ground: _Ground) -> AsyncGenerator[Broadcaster, None]:
    """Bring notices to the web-sockets of this process."""
    broadcaster = Broadcaster(
        key=ground.first.broadcaster_key,
        secret=ground.first.broadcaster_secret,
        limits=ground.settings.broadcaster,
    )
    async with (
        delivering(ground.catalog.notices, broadcaster.hub, ground.bus),
        while_running(broadcaster.sweep()),
    ):
        yield broadcaster


@asynccontextmanager
async def _taking_encoders(ground: _Ground) -> AsyncGenerator[_Encoders, None]:
    settings, catalog, doors = ground.settings, ground.catalog, ground.doors
    await catalog.reset_live_states(wall_us())
    tls = Tls(settings, ground.folder / "tls", ground.addresses) if doors.rtmps else None
    window = Window(listed=settings.live.listed_seconds, kept=settings.live.kept_seconds)
    transcoding = LiveTranscoding(
        objects=ground.objects,
        edge=ground.edge,
        window=window,
        wall_us=wall_us,
        chronicle=CatalogChronicle(catalog, wall_us).happened,
    )
    left: defaultdict[float, list[PublicHash]] = defaultdict(list)
    for hash_, window_seconds in (await catalog.reconnect_windows()).items():
        own = window_seconds is not None
        left[window_seconds if own else settings.live.reconnect_seconds].append(hash_)
    async with (
        while_running(
            *(transcoding.end_abandoned(hashes, seconds) for seconds, hashes in left.items()),
            transcoding.govern(),
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
        orders = Orders(
            catalog=catalog,
            streams=listener.streams,
            left=transcoding,
            media=StoredMedia(ground.objects, ground.edge),
            now_us=wall_us,
        )
        async with while_running(orders.carry_out()):
            yield _Encoders(
                figures=Telemetry(listener, transcoding).text, tls=tls, nudge=orders.nudge
            )


def _application(
    ground: _Ground,
    viewers: Viewers,
    figures: Callable[[], bytes],
    broadcaster: Broadcaster,
    nudge: Callable[[], None] = nobody,
) -> Application:
    """Return the API, the pages, the origin and the status, over what stands on the ground."""
    catalog, addresses = ground.catalog, ground.addresses
    callers = Callers(
        Rates(
            requests=ground.settings.api.requests_per_minute,
            attempts=ground.settings.api.attempts_per_minute,
        ),
        address_of=viewers.clients.client_address,
    )
    first = ground.first
    media = StoredMedia(ground.objects, ground.edge)
    app = create_app(
        catalog=catalog,
        addresses=addresses,
        broadcaster_key=ground.first.broadcaster_key,
        version=version("headend"),
        media=media,
        intake=intake_on(ground.objects, ground.settings.storage.min_free_bytes),
        ingest=Ingest(catalog, media, nudge),
        callers=callers,
        handlers=[
            *viewers.handlers,
            *status_handlers(problems=_problems(ground), figures=figures),
            *publishing(
                catalog.notices, key=first.broadcaster_key, secret=first.broadcaster_secret
            ),
            *authorising(
                catalog.notices,
                key=first.broadcaster_key,
                sign=broadcaster.sign,
                guard=needs_token(catalog, callers),
                admits=broadcaster.admits,
            ),
        ],
    )
    return viewers.before(app, ground.settings.log.access)


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
