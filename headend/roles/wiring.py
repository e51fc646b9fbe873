"""Which concrete thing stands behind each port: the only place that names them together.

A role is what one process does: take encoders in (`ingest`), show what they make (`api`), make
uploaded files playable (`transcode`), or all of it (`serve`). All stand on the same ground: the
catalog and the objects of one data folder.
"""

import shutil
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from api.app import create_app
from api.http.auth import needs_token
from api.http.rate_limit import CallerRateLimiter, RateLimits
from api.pusher.delivery import delivering_notices
from api.pusher.private import private_channel_handlers
from api.pusher.signed import signed_event_handlers
from api.pusher.socket import Broadcaster
from api.schemas.urls import Addresses
from api.status import status_app, status_handlers
from api.streams.command_client import Ingest
from headend.config.settings import Settings
from headend.config.sockets import bind, public_base
from headend.http.metrics import CountedApplication, WebFigures
from headend.http.server import Application, serving
from headend.install.installation import OWNER_TOKEN
from headend.install.tls import Tls
from headend.roles.background import while_running
from headend.roles.context import Ground, grounded, wall_us
from headend.roles.import_role import file_importers, import_rules
from headend.roles.ingest_role import taking_encoders
from headend.roles.listen_sockets import port_of
from headend.roles.media_remover import StoredMedia
from headend.roles.origin_role import Viewers
from headend.roles.recordings import keep_expired_away
from headend.roles.stale_streams import keep_states_true
from headend.roles.transcode_role import file_workers
from headend.roles.upload_intake import intake_on
from media.no_op import do_nothing
from storage.catalog import Catalog
from storage.catalog.records.common import FirstStart
from storage.cleanup.expired_uploads import keep_removing_expired_uploads
from storage.cleanup.orphans import keep_removing_orphans
from storage.errors import StorageError

__all__ = ["API", "INGEST", "SERVE", "TRANSCODE", "Role", "Service"]


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A running role, as its caller sees it; None is what the role does not have."""

    addresses: Addresses
    first: FirstStart
    token_file: Path | None = None
    status: str | None = None
    rtmp_port: int | None = None
    tls: Tls | None = None
    catalog: Catalog | None = None


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does; `service` runs it for the length of a block, and leaving that drains."""

    name: str
    service: Callable[[Settings], AbstractAsyncContextManager[Service]]
    writes: bool  # runs, and the states of streams
    installs: bool  # makes or migrates the database where that is due


@asynccontextmanager
async def _serve(settings: Settings) -> AsyncGenerator[Service, None]:
    """Take encoders in and show what they make."""
    async with (
        grounded(settings, viewers=True, encoders=True) as ground,
        _viewing(ground) as viewers,
        taking_encoders(ground) as encoders,
        while_running(
            file_workers(
                settings.transcode,
                ground.catalog,
                ground.objects,
                lambda: not encoders.is_shedding(),
            ).run(),
            file_importers(ground).run(),
            keep_removing_orphans(ground.objects, ground.catalog.references, wall_us),
            _expiring(ground),
            _finishing(ground),
        ),
        _broadcasting(ground) as broadcaster,
        _answering(
            broadcaster.in_front_of(
                _application(ground, viewers, encoders.figures, broadcaster, encoders.nudge)
            ),
            ground.doors.http,
        ),
        broadcaster.disconnecting_at_exit(),
    ):
        yield Service(
            addresses=ground.addresses,
            first=ground.first,
            token_file=ground.folder / OWNER_TOKEN,
            rtmp_port=port_of(ground.doors.rtmp),
            tls=encoders.tls,
            catalog=ground.catalog,
        )


@asynccontextmanager
async def _ingest(settings: Settings) -> AsyncGenerator[Service, None]:
    """Take encoders in; others show what they make."""
    async with AsyncExitStack() as stack:
        listen = settings.ingest.status
        door = stack.enter_context(bind(listen)) if listen else None
        ground = await stack.enter_async_context(grounded(settings, viewers=False, encoders=True))
        encoders = await stack.enter_async_context(taking_encoders(ground))
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
        grounded(settings, viewers=True, encoders=False) as ground,
        _viewing(ground) as viewers,
        while_running(keep_states_true(ground.catalog, ground.folder)),
        _broadcasting(ground) as broadcaster,
        _answering(
            broadcaster.in_front_of(
                CountedApplication(
                    _application(ground, viewers, figures.text, broadcaster), figures
                )
            ),
            ground.doors.http,
        ),
        broadcaster.disconnecting_at_exit(),
    ):
        yield Service(
            addresses=ground.addresses,
            first=ground.first,
            token_file=ground.folder / OWNER_TOKEN,
        )


@asynccontextmanager
async def _transcode(settings: Settings) -> AsyncGenerator[Service, None]:
    """Make uploaded files playable."""
    async with grounded(settings, viewers=False, encoders=False) as ground:
        workers = file_workers(settings.transcode, ground.catalog, ground.objects)
        clean = keep_removing_orphans(ground.objects, ground.catalog.references, wall_us)
        importers = file_importers(ground)
        ends = _expiring(ground), _finishing(ground)
        async with while_running(workers.run(), importers.run(), clean, *ends):
            yield Service(addresses=ground.addresses, first=ground.first)


SERVE: Final = Role(name="serve", service=_serve, writes=True, installs=True)
INGEST: Final = Role(name="ingest", service=_ingest, writes=True, installs=False)
API: Final = Role(name="api", service=_api, writes=False, installs=False)
TRANSCODE: Final = Role(name="transcode", service=_transcode, writes=False, installs=False)


def _expiring(ground: Ground) -> Awaitable[None]:
    """Take recordings away whose time is over."""
    media = StoredMedia(ground.objects, ground.edge)
    return keep_expired_away(ground.catalog.recordings, media, wall_us)


def _finishing(ground: Ground) -> Awaitable[None]:
    """Take uploads away that nobody goes on with."""
    catalog = ground.catalog
    return keep_removing_expired_uploads(ground.objects, catalog.uploads, catalog.links, wall_us)


@asynccontextmanager
async def _viewing(ground: Ground) -> AsyncGenerator[Viewers, None]:
    """Know where viewers are, for as long as they are shown anything."""
    place = ground.catalog, ground.objects, ground.edge, ground.addresses
    viewers = Viewers.of(ground.settings, *place)
    async with while_running(viewers.geo.keep_fresh()):
        yield viewers


@asynccontextmanager
async def _broadcasting(ground: Ground) -> AsyncGenerator[Broadcaster, None]:
    """Bring notices to the web-sockets of this process."""
    broadcaster = Broadcaster(
        key=ground.first.broadcaster_key,
        secret=ground.first.broadcaster_secret,
        limits=ground.settings.broadcaster,
    )
    async with (
        delivering_notices(ground.catalog.outbox, broadcaster.hub, ground.bus),
        while_running(broadcaster.ping_idle()),
    ):
        yield broadcaster


def _application(
    ground: Ground,
    viewers: Viewers,
    figures: Callable[[], bytes],
    broadcaster: Broadcaster,
    nudge: Callable[[], None] = do_nothing,
) -> Application:
    """Return the API, the pages, the origin and the status, over what stands on the ground."""
    catalog, addresses = ground.catalog, ground.addresses
    callers = CallerRateLimiter(
        RateLimits(
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
        intake=intake_on(
            ground.objects, ground.settings.storage.min_free_bytes, ground.settings.uploads
        ),
        ingest=Ingest(catalog, media, nudge),
        rate_limiter=callers,
        import_rules=import_rules(ground.settings.imports),
        handlers=[
            *viewers.handlers,
            *status_handlers(problems=_problems(ground), figures=figures),
            *signed_event_handlers(
                catalog.outbox, key=first.broadcaster_key, secret=first.broadcaster_secret
            ),
            *private_channel_handlers(
                catalog.outbox,
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


def _problems(ground: Ground) -> Callable[[], Awaitable[list[str]]]:
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
