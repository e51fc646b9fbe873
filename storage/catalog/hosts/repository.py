"""Hosts (`catalog.hosts`): the processes that receive streams, each a row while it runs.

All times are the database's, whatever the clocks of the hosts are.
"""

from typing import Final

import msgspec
from sqlalchemy import case, delete, func, insert, or_, select, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.database import Repository
from storage.catalog.queries import trash_rows
from storage.catalog.queries.living_hosts import is_living
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.schema.tables import hosts, stream_owners, streams

# For rows that were not removed: a host that was killed may never return under its name.
_KEPT_US: Final = 86_400 * MICROSECONDS


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A process that receives streams.

    Other hosts connect to it at `address`; None: they cannot. `silent_us` is how long ago it was
    last seen, `streams` how many streams it owns, `capacity` how many it may own at most (None:
    unlimited; 0: it is stopping). One that is not `alive` owns them in name only.
    """

    id: int
    name: str
    role: str
    address: str | None
    version: str
    started_us: int
    silent_us: int
    alive: bool
    streams: int
    capacity: int | None = None


class Hosts(Repository):
    """The hosts of a catalog; a method is one transaction."""

    async def register(
        self, name: str, role: str, address: str | None, version: str, capacity: int | None = None
    ) -> int:
        """Add a host that has just started, and return its number, which was never given before.

        It may own `capacity` streams at most (None: unlimited; see
        `storage.catalog.hosts.capacity`).

        A host of the same name is removed, and its streams have no owner any more. Hosts that were
        not seen for a day are removed, too, and the owners of streams that were deleted,
        unless these are in the trash.
        """
        table, owners = hosts.c, stream_owners.c
        async with self._database.writing() as connection:
            now = now_in(connection)
            old = (table.name == name) | (table.seen_us < now - _KEPT_US)
            locked = select(table.id).where(old).order_by(table.id).with_for_update()
            numbers = (await connection.execute(locked)).scalars().all()
            await connection.execute(delete(hosts).where(table.id.in_(numbers)))
            stream_is_deleted = ~select(streams.c.id).where(
                streams.c.id == owners.stream_id
            ).exists() & ~trash_rows.has_record("stream", owners.stream_id)
            has_no_owner = or_(owners.host_id.is_(None), owners.host_id.not_in(select(table.id)))
            is_unused = (has_no_owner, owners.taken_us < now - _KEPT_US, stream_is_deleted)
            await connection.execute(delete(stream_owners).where(*is_unused))
            row = {"name": name, "role": role, "address": address, "version": version}
            row |= {"capacity": capacity}
            statement = insert(hosts).values(**row, started_us=now, seen_us=now, steady_us=now)
            return (await connection.execute(statement.returning(table.id))).scalar_one()

    async def beat(self, host: int, name: str, dead_seconds: float) -> bool:
        """Record that a host was seen now; return False if its row is gone.

        A database that was restored from a backup may give its number to a host of another `name`.
        If the host was not seen for `dead_seconds` before, its time of being seen without a break
        starts anew.
        """
        async with self._database.beating() as connection:
            now = now_in(connection)
            steady = case((is_living(connection, dead_seconds), hosts.c.steady_us), else_=now)
            same = (hosts.c.id == host, hosts.c.name == name)
            statement = update(hosts).where(*same).values(seen_us=now, steady_us=steady)
            return (await connection.execute(statement)).rowcount == 1

    async def limit(self, host: int, capacity: int | None) -> None:
        """Set how many streams a host may own at most; those that it owns stay."""
        async with self._database.writing() as connection:
            statement = update(hosts).where(hosts.c.id == host)
            await connection.execute(statement.values(capacity=capacity))

    async def leave(self, host: int) -> None:
        """Remove a host that ends; its streams have no owner any more."""
        async with self._database.writing() as connection:
            await connection.execute(delete(hosts).where(hosts.c.id == host))

    async def find_all(self, dead_seconds: float) -> tuple[HostRecord, ...]:
        """Return all hosts by their names, also those not seen for `dead_seconds`."""
        table = hosts.c
        owned = (
            select(func.count())
            .where(stream_owners.c.host_id == table.id)
            .correlate(hosts)
            .scalar_subquery()
        )
        async with self._database.reading() as connection:
            reader = RowReader(
                HostRecord,
                hosts,
                silent_us=now_in(connection) - table.seen_us,
                alive=is_living(connection, dead_seconds),
                streams=owned,
            )
            query = select(*reader.columns).order_by(table.name)
            return await reader.find_all(connection, query)
