"""What all roles stand on: one data folder's catalog and objects, the doors, the bus."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from api.pusher.delivery import announcing_notices
from api.schemas.urls import Addresses
from headend.config.settings import Settings
from headend.install.installation import catalog_place, found_in
from headend.roles.listen_sockets import Doors
from storage.bus.base import Bus
from storage.bus.memory import MemoryBus
from storage.bus.redis import open_redis_bus
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import FirstStart
from storage.edge.memory import MemoryEdge
from storage.objects.disk import DiskObjects

__all__ = ["Ground", "grounded", "wall_us"]


def wall_us() -> int:
    """Return the wall clock in microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Ground(msgspec.Struct, frozen=True, kw_only=True):
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


@asynccontextmanager
async def grounded(
    settings: Settings, *, viewers: bool, encoders: bool
) -> AsyncGenerator[Ground, None]:
    """Open what a role stands on; `viewers` and `encoders` say whose doors it has."""
    folder = Path(settings.data)
    async with AsyncExitStack() as stack:
        doors = Doors.bound(settings, stack, viewers=viewers, encoders=encoders)
        addresses = doors.addresses(settings)
        catalog = await stack.enter_async_context(
            open_catalog(catalog_place(settings), migrate=False)
        )
        first = await found_in(catalog)
        yield Ground(
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
        await stack.enter_async_context(announcing_notices(catalog.outbox, bus))
        yield bus
