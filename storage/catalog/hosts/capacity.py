"""Which host is to own a new stream: the one that its encoder connected to, or another with room.

Running streams stay where they are.
"""

from collections.abc import Iterable

import msgspec
from sqlalchemy import func, select

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries.living_hosts import is_living
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.schema.tables import hosts, stream_owners


class HostLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A living host: how many streams it owns, and may own at most (None: unlimited).

    One that is stopping may own no more. Others can reach it if it has an `address`.
    """

    host: int
    name: str
    address: str | None
    streams: int
    capacity: int | None

    @property
    def has_room(self) -> bool:
        """Whether it may own another stream."""
        return self.capacity is None or self.streams < self.capacity


def choose_host(first: HostLoad, others: Iterable[HostLoad]) -> HostLoad:
    """Return the host that is to own a stream whose encoder connected to `first`.

    That is `first` if it has room, or if no host has: a stream too many is better than none. Of
    several with room it is the one that uses the least of its limit; those without one come last.
    """
    if first.has_room:
        return first
    return min((each for each in others if each.has_room and each.address), key=_use, default=first)


def _use(load: HostLoad) -> tuple[bool, float, int]:
    limit = load.capacity or 1  # without one, the fewest streams
    return load.capacity is None, load.streams / limit, load.host


async def find_loads(connection: AsyncConnection, dead_seconds: float) -> tuple[HostLoad, ...]:
    """Return the living hosts, within the caller's transaction.

    Nothing is locked: concurrent claims may all choose the last free place.
    """
    table = hosts.c
    owned = select(func.count()).where(stream_owners.c.host_id == table.id).correlate(hosts)
    reader = RowReader(HostLoad, hosts, host=table.id, streams=owned.scalar_subquery())
    query = select(*reader.columns).where(is_living(connection, dead_seconds))
    return await reader.find_all(connection, query)
