"""The composition root: assembles the roles from the concrete parts of all packages.

A role is what one process does: `ingest` accepts encoders, `api` serves viewers and callers,
`transcode` makes uploaded files playable, and `serve` does all of it. Every role runs on the
catalog and the objects of one data folder (`headend.roles.context`).
"""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.registry import Collector

from api.app import create_app
from api.http.application import Application, PlainApplication
from api.http.auth import needs_all_projects, needs_token
from api.http.browser_sessions import BrowserSessions
from api.http.caller_limits import CallerRateLimiter, RateLimits
from api.http.client_address import TrustedProxies
from api.operations.report import StreamRoom
from api.ports import MailTest
from api.pusher.delivery import delivering_notices
from api.pusher.grants import holding_in
from api.pusher.private import private_channel_handlers
from api.pusher.signed import signed_event_handlers
from api.pusher.socket import Broadcaster
from api.schemas.urls import Addresses
from api.status import status_app, status_handlers
from api.streams.command_client import IngestClient
from headend.config.listen_sockets import port_of, public_base
from headend.config.settings import ServiceSettings
from headend.duties.condition_watch import keep_watching_conditions
from headend.duties.media_remover import StoredMedia
from headend.duties.project_remover import keep_removing_projects
from headend.hosts.presence import HostPresence
from headend.hosts.stale_streams import keep_resetting_stale_streams, keep_resetting_unowned_streams
from headend.http.connections import ConnectionLimiter
from headend.http.descriptors import connection_bound, raise_limit
from headend.http.metrics import CountedApplication, HttpMetrics, metrics_text
from headend.http.server import serving
from headend.install.certificates import RtmpsCertificate
from headend.install.installation import OWNER_TOKEN
from headend.install.media_store import bucket_of
from headend.own_command import own_command
from headend.roles.adapters import service_policy
from headend.roles.context import RoleContext, open_context, open_presence
from headend.roles.edge_metrics import EdgeMetrics
from headend.roles.ingest_role import IngestRole, run_ingest
from headend.roles.operations import InstallationReporter
from headend.roles.origin_role import OriginRole
from headend.roles.readiness import find_problems
from headend.roles.transcode_role import file_workers, import_rules
from headend.roles.upload_intake import create_intake, quota_limits
from headend.supervision import BackgroundTask, run_in_background
from media.no_op import do_nothing, never
from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.records.common import FirstStart
from storage.cleanup.cleanups import log_cleanups, media_cleanups, upload_cleanups
from storage.cleanup.periodic import Cleanup, keep_cleaning
from storage.cleanup.removals import keep_removing
from storage.cleanup.withdrawn_copies import keep_deleting_withdrawn_copies
from storage.objects.disk_threads import VIEWERS


class RunningService(msgspec.Struct, frozen=True, kw_only=True):
    """A running role, as its caller sees it; None for what the role does not have."""

    addresses: Addresses
    first: FirstStart
    token_file: Path | None = None
    status: str | None = None
    rtmp_port: int | None = None
    tls: RtmpsCertificate | None = None
    catalog: Catalog | None = None


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does; `service` runs it for the length of a block and drains at its end."""

    name: str
    service: Callable[[ServiceSettings], AbstractAsyncContextManager[RunningService]]
    writes: bool  # writes runs and the states of streams
    installs: bool  # creates or migrates the database


@asynccontextmanager
async def _serve(settings: ServiceSettings) -> AsyncGenerator[RunningService, None]:
    """Run all roles in one process."""
    async with (
        open_context(settings, origin=True, ingest=True) as context,
        _open_origin(context) as origin,
        open_presence(context, "serve") as presence,
        run_ingest(context, presence) as ingest,
        run_in_background(
            *file_workers(context, lambda: not ingest.is_shedding()),
            *_cleanups(context),
            *_delete_copies(context),
            *_remove_deleted(context),
            *_send_mails(context),
            _watch_machine(context),
        ),
        _serve_viewers(context, origin, ingest.metrics, ingest, presence) as status,
    ):
        yield RunningService(
            addresses=context.addresses,
            first=context.first,
            token_file=context.folder / OWNER_TOKEN,
            status=status,
            rtmp_port=port_of(context.sockets.rtmp),
            tls=ingest.tls,
            catalog=context.catalog,
        )


@asynccontextmanager
async def _ingest(settings: ServiceSettings) -> AsyncGenerator[RunningService, None]:
    """Accept encoders; other processes serve origin."""
    async with (
        open_context(settings, origin=False, ingest=True) as context,
        open_presence(context, "ingest") as presence,
        run_ingest(context, presence) as ingest,
        run_in_background(_watch_machine(context)),
        _serve_status(
            context, settings.ingest.status, metrics_text(*ingest.metrics), presence
        ) as status,
    ):
        yield RunningService(
            addresses=context.addresses,
            first=context.first,
            status=status,
            rtmp_port=port_of(context.sockets.rtmp),
            tls=ingest.tls,
        )


@asynccontextmanager
async def _api(settings: ServiceSettings) -> AsyncGenerator[RunningService, None]:
    """Serve viewers from disk, and callers of the API."""
    async with (
        open_context(settings, origin=True, ingest=False) as context,
        _open_origin(context) as origin,
        run_in_background(
            _reset_stale_streams(context),
            *_delete_copies(context),
            *_remove_deleted(context),
            *_send_mails(context),
            _watch_machine(context),
            # Beside a bucket, received files are in this process's own data folder.
            *(_clean_uploads(context) if bucket_of(settings) is not None else ()),
        ),
        _serve_viewers(context, origin, (EdgeMetrics(context.edges),)) as status,
    ):
        yield RunningService(
            addresses=context.addresses,
            first=context.first,
            token_file=context.folder / OWNER_TOKEN,
            status=status,
        )


@asynccontextmanager
async def _transcode(settings: ServiceSettings) -> AsyncGenerator[RunningService, None]:
    """Transcode uploaded files."""
    async with (
        open_context(settings, origin=False, ingest=False) as context,
        run_in_background(*file_workers(context), *_cleanups(context), _watch_machine(context)),
    ):
        yield RunningService(addresses=context.addresses, first=context.first)


# Monitors send a few requests a minute.
_STATUS_CONNECTIONS: Final = 64

SERVE: Final = Role(name="serve", service=_serve, writes=True, installs=True)
INGEST: Final = Role(name="ingest", service=_ingest, writes=True, installs=False)
API: Final = Role(name="api", service=_api, writes=False, installs=False)
TRANSCODE: Final = Role(name="transcode", service=_transcode, writes=False, installs=False)
ROLES: Final = {role.name: role for role in (SERVE, INGEST, API, TRANSCODE)}


def _cleanups(context: RoleContext) -> tuple[BackgroundTask, ...]:
    """Return the background tasks that remove what is over or not needed any more.

    One does what a migration left to be done, and returns.
    """
    days, catalog = context.settings.storage.trash_days, context.catalog
    media = media_cleanups(context.objects, catalog, trash_days=days)
    return (
        *_repeated(context, (*media, *log_cleanups(catalog))),
        *_clean_uploads(context),
        BackgroundTask("rest of the migration", catalog.finish_migration),
    )


def _clean_uploads(context: RoleContext) -> tuple[BackgroundTask, ...]:
    """Return the tasks that remove expired uploads, and bytes of no upload in the scratch."""
    return _repeated(context, upload_cleanups(context.objects, context.catalog))


def _repeated(context: RoleContext, cleanups: Sequence[Cleanup]) -> tuple[BackgroundTask, ...]:
    now_us, verify = context.catalog.clock.now_us, context.verify
    return tuple(
        BackgroundTask(cleanup.what, partial(keep_cleaning, cleanup, now_us, verify))
        for cleanup in cleanups
    )


def _reset_stale_streams(context: RoleContext) -> BackgroundTask:
    """Return the task that takes the streams of killed ingest processes off the air."""
    catalog = context.catalog
    resetting = (
        partial(keep_resetting_unowned_streams, catalog, context.settings.hosts.dead_seconds)
        if catalog.is_shared
        else partial(keep_resetting_stale_streams, catalog, context.folder)
    )
    return BackgroundTask("stale streams", resetting)


def _delete_copies(context: RoleContext) -> tuple[BackgroundTask, ...]:
    """Return the task that deletes copies for a CDN, where there can be any."""
    if bucket_of(context.settings) is None:
        return ()
    deleting = partial(
        keep_deleting_withdrawn_copies,
        context.objects,
        context.catalog.cdn_folders,
        context.catalog.clock.now_us,
        context.verify,
        is_in_use=context.settings.storage.delivery == "cdn",
    )
    return (BackgroundTask("copies for the CDN", deleting),)


def _remove_deleted(context: RoleContext) -> tuple[BackgroundTask, ...]:
    """Return the tasks that remove what this process or another one deletes.

    They remove the rows of projects, and objects that no row names any more.
    """
    catalog, objects, drop_folder, verify = (
        context.catalog,
        context.objects,
        context.edges.drop_folder,
        context.verify,
    )
    media = StoredMedia(objects, drop_folder, catalog.removals.are_held)
    return (
        BackgroundTask(
            "removed projects",
            partial(keep_removing_projects, catalog.removed_projects, media, verify),
        ),
        BackgroundTask(
            "removals",
            partial(
                keep_removing,
                objects,
                drop_folder,
                catalog.removals,
                catalog.clock.now_us,
                verify,
            ),
        ),
    )


def _watch_machine(context: RoleContext) -> BackgroundTask:
    """Return the task that finds what is wrong with this machine."""
    watching = partial(keep_watching_conditions, context.settings, context.catalog, context.folder)
    return BackgroundTask("conditions", watching)


def _send_mails(context: RoleContext) -> tuple[BackgroundTask, ...]:
    """Return the task that tells operators of alerts, where a mail server is set."""
    if not context.settings.mail.server:
        return ()
    # With an SMTP client, which only these processes need.
    from headend.roles.mail import mailer_task  # noqa: PLC0415 # see above

    return (mailer_task(context.settings.mail, context.catalog, _console(context)),)


def _mail_test(context: RoleContext) -> MailTest | None:
    """Return what tries out the mail server; None where none is set."""
    if not context.settings.mail.server:
        return None
    from headend.roles.mail import mail_test  # noqa: PLC0415 # as above

    return mail_test(context.settings.mail, context.catalog, _console(context))


def _console(context: RoleContext) -> str:
    return f"{context.addresses.http}/console"


@asynccontextmanager
async def _open_origin(context: RoleContext) -> AsyncGenerator[OriginRole, None]:
    """Create the origin role, and run what it needs in the background."""
    objects = context.objects.using(VIEWERS)
    origin = OriginRole.create(
        context.settings, context.catalog, objects, context.edges.reader, context.addresses
    )
    async with run_in_background(
        BackgroundTask("geo database", origin.geo.keep_fresh),
        BackgroundTask("visibility", origin.visibility.run_queries),
    ):
        yield origin


@asynccontextmanager
async def _serve_viewers(
    context: RoleContext,
    origin: OriginRole,
    collectors: Sequence[Collector],
    ingest: IngestRole | None = None,
    presence: HostPresence | None = None,
) -> AsyncGenerator[str | None, None]:
    """Serve HTTP and web-sockets, whose answers are counted; yield the URL of the status, if any.

    `ingest` is the one in this process, if there is one.
    """
    answers = HttpMetrics()
    metrics = metrics_text(answers, *collectors)
    async with _run_broadcaster(context, origin.clients) as broadcaster:
        app = _application(context, origin, metrics, broadcaster, ingest, presence)
        async with (
            _serve_http(
                broadcaster.in_front_of(CountedApplication(app, answers)),
                context.sockets.http,
                _connection_limiter(context, origin.clients),
            ),
            _serve_status(context, context.settings.status.listen, metrics, presence) as status,
            broadcaster.disconnecting_at_exit(),
        ):
            yield status


@asynccontextmanager
async def _run_broadcaster(
    context: RoleContext, clients: TrustedProxies
) -> AsyncGenerator[Broadcaster, None]:
    """Deliver broadcast messages to the WebSockets of this process."""
    broadcaster = Broadcaster(
        key=context.first.broadcaster_key,
        secret=context.first.broadcaster_secret,
        limits=context.settings.broadcaster,
        address_of=clients.client_address,
        find_holding=holding_in(context.catalog, context.catalog.clock.now_us),
    )
    async with (
        delivering_notices(context.catalog.outbox, broadcaster.hub, context.bus),
        run_in_background(
            BackgroundTask("web-socket pings", broadcaster.ping_idle),
            BackgroundTask("private channels", broadcaster.end_ended),
        ),
    ):
        yield broadcaster


def _application(
    context: RoleContext,
    origin: OriginRole,
    metrics: Callable[[], bytes],
    broadcaster: Broadcaster,
    ingest: IngestRole | None = None,
    presence: HostPresence | None = None,
) -> Application:
    """Return the application of API, pages, origin and status.

    `ingest` is the one in this process, if there is one.
    """
    nudge = do_nothing if ingest is None else ingest.nudge
    catalog, addresses = context.catalog, context.addresses
    callers = CallerRateLimiter(
        RateLimits(
            requests=context.settings.api.requests_per_minute,
            attempts=context.settings.api.attempts_per_minute,
        ),
        address_of=origin.clients.client_address,
    )
    first = context.first
    guard = needs_token(
        catalog, callers, BrowserSessions.of(catalog, addresses, catalog.clock.now_us)
    )
    problems = _problems(context, presence)
    media = StoredMedia(
        context.objects, context.edges.drop_folder, context.catalog.removals.are_held
    )
    release = version("headend")
    room: StreamRoom = do_nothing if ingest is None else ingest.room
    operations = InstallationReporter(
        context.settings,
        catalog,
        version=release,
        store=context.objects.location,
        problems=problems,
        logged=context.recent.newest_first,
        room=room,
    )
    trash_us = context.settings.trash.keep_days * DAY_US
    app = create_app(
        catalog=catalog,
        addresses=addresses,
        broadcaster_key=context.first.broadcaster_key,
        version=release,
        media=media,
        intake=create_intake(
            context.objects,
            context.settings.storage.min_free_bytes,
            context.settings.uploads,
            shared=catalog.is_shared and bucket_of(context.settings) is not None,
            trash_us=trash_us,
        ),
        ingest=IngestClient(catalog, media, nudge),
        # The process that executes a command compares its deadline with the same clock. Litestar
        # copies what it provides: a function as itself, a bound method with its object.
        clock_us=lambda: catalog.clock.now_us(),
        trash_us=trash_us,
        rate_limiter=callers,
        import_rules=import_rules(context.settings.imports),
        quotas=quota_limits(context.settings.quotas),
        command=own_command(),
        knows_countries=context.settings.knows_countries,
        home=context.settings.http.home,
        end_holds_seconds=context.settings.live.end_holds_seconds,
        policy=service_policy(context.settings),
        problems=problems,
        room=room,
        files_wait=never if ingest is None else ingest.is_shedding,
        operations=operations,
        mail_test=_mail_test(context),
        handlers=[
            *origin.handlers,
            *status_handlers(
                problems=problems,
                limits=partial(_limits, context),
                metrics_text=metrics,
                guards=[guard, needs_all_projects],
            ),
            *signed_event_handlers(
                catalog.outbox, key=first.broadcaster_key, secret=first.broadcaster_secret
            ),
            *private_channel_handlers(
                catalog.outbox,
                key=first.broadcaster_key,
                sign=broadcaster.sign,
                guard=guard,
                admits=broadcaster.admits,
            ),
        ],
    )
    return origin.wrap(app, context.settings.log.access)


@asynccontextmanager
async def _serve_status(
    context: RoleContext,
    listen: str,
    metrics: Callable[[], bytes],
    presence: HostPresence | None = None,
) -> AsyncGenerator[str | None, None]:
    """Serve health and metrics without a token; yield the URL, None without a socket for it."""
    sock = context.sockets.status
    app = status_app(
        problems=_problems(context, presence),
        limits=partial(_limits, context),
        metrics_text=metrics,
    )
    limiter = ConnectionLimiter(_STATUS_CONNECTIONS)
    async with _serve_http(PlainApplication(app), sock, limiter):
        yield None if sock is None else public_base("", "http", listen, port_of(sock), "")


@asynccontextmanager
async def _serve_http(
    app: Application, sock: socket.socket | None, limiter: ConnectionLimiter
) -> AsyncGenerator[None, None]:
    """Serve an application for the length of the block, if there is a socket for it."""
    if sock is None:
        yield
        return
    async with serving(app, sock, limiter):
        yield


def _connection_limiter(context: RoleContext, proxies: TrustedProxies) -> ConnectionLimiter:
    """Return the limiter of HTTP, which leaves encoders their descriptors."""
    settings, sockets = context.settings, context.sockets
    encoders = settings.limits.connections if sockets.rtmp or sockets.rtmps else 0
    return ConnectionLimiter(
        connection_bound(settings.http.connections, raise_limit(), encoders), proxies
    )


def _limits(context: RoleContext) -> list[str]:
    """Return the degradations for which a load balancer should not choose another process."""
    limits = [context.lease.problem] if context.lease.problem else []
    if not context.bus.is_connected:
        limits.append(
            "Redis does not answer: viewers of streams that other processes make get what is stored"
        )
    if context.health.pause is not None:
        limits.append(context.health.pause)
    return limits


def _problems(
    context: RoleContext, presence: HostPresence | None
) -> Callable[[], Awaitable[list[str]]]:
    store = "the disk of the media" if bucket_of(context.settings) is None else "the bucket"

    async def problems() -> list[str]:
        causes = await find_problems(
            context.catalog,
            context.health,
            context.folder,
            store=store,
            min_free_bytes=context.settings.storage.min_free_bytes,
        )
        if presence is not None and presence.problem:
            causes.append(presence.problem)
        return causes

    return problems
