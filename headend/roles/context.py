"""Opens what every role uses: catalog, objects, sockets, bus, edge, presence among the hosts."""

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from api.pusher.delivery import announcing_notices
from api.schemas.urls import Addresses
from delivery.edge.memory import MemoryEdge
from delivery.edge.shared import Edges
from headend.config.listen_sockets import ListenSockets
from headend.config.settings import ServiceSettings
from headend.hosts.presence import HostIdentity, HostPresence
from headend.http.descriptors import raise_limit
from headend.install.installation import catalog_location, own_store, read_installation
from headend.install.media_store import bucket_of, open_store, read_store
from headend.recent_log import RecentLog, keeping_recent_log
from headend.roles.loop_watch import watch_loop
from headend.roles.readiness import create_store_health
from headend.supervision import BackgroundTask, run_in_background
from headend.systemd import notify, take_sockets
from media.loop_lag import LoopLag
from storage.bus.base import Bus
from storage.bus.memory import MemoryBus
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import FirstStart
from storage.installation_key import complete_key, verify_key
from storage.objects.store import MediaStore
from storage.store_lease import StoreLease
from storage.workers.store_health import StoreHealth

log = logging.getLogger(__name__)

# Longer than a start waits for the lease between two notifications, however slow the store is.
_EXTEND_SECONDS: Final = 90


class RoleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a role."""

    settings: ServiceSettings
    folder: Path
    sockets: ListenSockets
    addresses: Addresses
    catalog: Catalog
    first: FirstStart
    bus: Bus
    objects: MediaStore
    lease: StoreLease
    health: StoreHealth
    edges: Edges
    lag: LoopLag
    recent: RecentLog

    async def verify(self) -> None:
        """Check, before anything is cleaned up, that catalog and objects still belong together.

        Raises:
            StorageError: they do not (`StoreMismatch`), another catalog that belongs to the objects
                has their lease (`StoreClaimed`), or one of them cannot be read.
        """
        await self.lease.require()
        await verify_key(self.catalog, self.objects)


@asynccontextmanager
async def open_context(
    settings: ServiceSettings, *, origin: bool, ingest: bool
) -> AsyncGenerator[RoleContext, None]:
    """Open the resources of a role; `origin` and `ingest` select the sockets that it listens on.

    Raises:
        ExceptionGroup: of an `AddressError`, if a socket cannot be bound; of a `StorageError`,
            if the catalog cannot be used, the media belong to another (`StoreMismatch`), are not
            where they were (`EmptyStore`), or are in use by one that is a copy (`StoreInUse`).
    """
    folder = Path(settings.data)
    lag = LoopLag()
    raise_limit()
    async with AsyncExitStack() as stack:
        recent = stack.enter_context(keeping_recent_log())
        watch = BackgroundTask("event loop", partial(watch_loop, lag))
        await stack.enter_async_context(run_in_background(watch))
        sockets = ListenSockets.bind(
            settings, stack, origin=origin, ingest=ingest, held=take_sockets()
        )
        addresses = sockets.addresses(settings)
        catalog = await stack.enter_async_context(
            open_catalog(catalog_location(settings), migrate=False)
        )
        first = await read_installation(catalog)
        if catalog.is_shared:
            clock = BackgroundTask("database's clock", catalog.clock.keep_synchronized)
            await stack.enter_async_context(run_in_background(clock))
        bucket = bucket_of(settings)
        store = open_store(
            folder,
            bucket,
            cache_bytes=settings.storage.cache_bytes,
            min_free_bytes=settings.storage.min_free_bytes,
            has_cdn_copies=settings.storage.delivery == "cdn",
        )
        objects = await stack.enter_async_context(
            own_store(catalog, read_store(folder, bucket), store)
        )
        lease = StoreLease(objects, catalog)
        await lease.acquire(_WaitReport())
        await complete_key(catalog, objects)  # if it was another's
        objects.guard = lease
        await stack.enter_async_context(run_in_background(BackgroundTask("lease", lease.keep)))
        edges = _open_edges(
            settings,
            first.broadcaster_key,
            publishes=ingest,
            # With a database of its own there is no other process that publishes streams.
            serves_others=origin and (catalog.is_shared or not ingest),
        )
        yield RoleContext(
            settings=settings,
            folder=folder,
            sockets=sockets,
            addresses=addresses,
            catalog=catalog,
            first=first,
            bus=await stack.enter_async_context(_bus(settings, catalog, first.broadcaster_key)),
            objects=objects,
            lease=lease,
            health=create_store_health(catalog, objects, settings.storage.min_free_bytes),
            edges=await stack.enter_async_context(edges),
            lag=lag,
            recent=recent,
        )


@asynccontextmanager
async def _bus(settings: ServiceSettings, catalog: Catalog, key: str) -> AsyncGenerator[Bus, None]:
    """Open the bus, and announce on it the broadcast messages that this process writes."""
    async with AsyncExitStack() as stack:
        bus: Bus = MemoryBus()
        if settings.redis.url:
            # With redis-py: 45 ms of CPU and 6 MB.
            from storage.bus.redis import open_redis_bus  # noqa: PLC0415 # see above

            opened = open_redis_bus(settings.redis.url, namespace=_namespace(key))
            bus = await stack.enter_async_context(opened)
        await stack.enter_async_context(announcing_notices(catalog.outbox, bus))
        yield bus


@asynccontextmanager
async def _open_edges(
    settings: ServiceSettings, key: str, *, publishes: bool, serves_others: bool
) -> AsyncGenerator[Edges, None]:
    """Open the edges of a process that publishes streams, or serves those of others, or both."""
    if not settings.redis.url or not (publishes or serves_others):
        edge = MemoryEdge()
        yield Edges(writer=edge, reader=edge)
        return
    # With redis-py, which only these processes need.
    from headend.roles.redis_edges import open_redis_edges  # noqa: PLC0415 # see above

    namespace = _namespace(key)
    async with open_redis_edges(
        settings.redis.url, namespace, publishes=publishes, serves_others=serves_others
    ) as edges:
        yield edges


class _WaitReport:
    """Reports a start that waits: to the log once, and each time to the service manager."""

    def __init__(self) -> None:
        self._logged = ""

    def __call__(self, reason: str) -> None:
        if reason != self._logged:
            log.warning(reason)
        self._logged = reason
        # It waits, too.
        notify(f"STATUS={reason}\nEXTEND_TIMEOUT_USEC={_EXTEND_SECONDS * 1_000_000}")


def _namespace(key: str) -> str:
    """Return the namespace in Redis of the installation with this broadcaster key.

    It separates installations that share a Redis.
    """
    return f"headend.{key}"


@asynccontextmanager
async def open_presence(
    context: RoleContext, role: str
) -> AsyncGenerator[HostPresence | None, None]:
    """Register this process for the length of the block; None with SQLite, which has one writer.

    Raises:
        AddressError: others cannot connect to the address at which it accepts relayed encoders.
        HostNameTaken: another process of its name runs.
        MediaNotShared: another host runs, and media are in a folder.
        StorageError: the catalog does not answer.
    """
    settings = context.settings.hosts
    if not context.catalog.is_shared:
        yield None
        return
    identity = HostIdentity(
        name=settings.name or f"{socket.gethostname()}/{role}"[:255],
        role=role,
        address=context.sockets.relay_address(settings),
        version=version("headend"),
        capacity=settings.streams or None,
    )
    presence = HostPresence(context.catalog, identity, dead_seconds=settings.dead_seconds)
    async with presence.running(shares_media=bucket_of(context.settings) is not None):
        yield presence
