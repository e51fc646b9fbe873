"""Owners of streams (`catalog.owners`): which host runs the engine of a stream and publishes.

The `generation` of a stream rises with each owner, so that what an older owner still writes is
distinguished from what the present one writes. It is the time of the claim by the database's clock,
in seconds, or one more than the last generation if that is later. So a database that was restored
from a backup gives later generations than before the restore, which are in the names of media in
the bucket.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, and_, bindparam, case, func, null, select, update

from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.hosts.capacity import choose_host, find_loads
from storage.catalog.queries.insert_missing import insert_missing
from storage.catalog.queries.living_hosts import is_living
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.settings import effective_settings
from storage.catalog.schema.tables import hosts, projects, stream_owners, streams
from storage.errors import HostGone

# The first start after hosts were introduced finds every stream that was ever live.
ORPHANED_AT_ONCE: Final = 500
# Half of `dead_seconds` is enough if the owner is also silent on its connection: it renews its row
# once a second and sends something twice a second to each host that relays to it.
_SILENT_SHARE: Final = 1 / 2
_NO_HOST: Final = 0  # numbers of hosts begin with 1
# Generations count seconds from 2020 on: the column holds them until 2088.
_FIRST_SECOND_US: Final = 1_577_836_800 * MICROSECONDS


class StreamOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The host that owns a stream, by its number and `name`.

    Other hosts connect to it at `address`; None: they cannot.
    """

    host: int
    name: str
    address: str | None
    generation: int


class OrphanedStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream whose owner is gone without having ended its run.

    `reconnect_seconds` is how long the run waits for its encoder; None: the service's setting.
    `released`: the owner released the stream, or there was none, so that nothing of a run is still
    to be stored. `paused`: the stream's owner had paused the run's output.
    """

    stream: int
    hash: PublicHash
    generation: int
    reconnect_seconds: float | None
    released: bool = False
    paused: bool = False


_ORPHANED: Final = RowReader(
    OrphanedStream,
    stream_owners,
    hash=streams.c.hash,
    released=stream_owners.c.host_id == _NO_HOST,
    paused=streams.c.paused,
)


def _reconnect_seconds(row: Row[Any]) -> float | None:  # Any: columns of several types
    return effective_settings(row.settings, row.defaults).failover.reconnect_seconds


class StreamOwners(Repository):
    """The owners of a catalog's streams; a method is one transaction."""

    async def claim(
        self,
        stream: int,
        host: int,
        *,
        dead_seconds: float,
        ended_owner: int | None = None,
        silent_owner: int | None = None,
        hand_over: bool = False,
    ) -> StreamOwner:
        """Return the stream's owner: `host` if it owns the stream already, or becomes its owner.

        It becomes the owner if no host owns the stream, if the owner was not seen for
        `dead_seconds`, or if the owner has the generation `ended_owner`: the caller knows that its
        process has ended. An owner of the generation `silent_owner` has sent nothing to the caller
        for seconds: half of `dead_seconds` is enough then. The new generation is a later one. Of
        several hosts that claim at once, one becomes the owner, and the others get that one.

        With `hand_over` a host that has no room for the stream gives it to another one that has
        (`storage.catalog.hosts.capacity`).

        A host is counted as not seen only by a host that was itself seen for as long: after an
        outage of the database, no host loses its streams to the one that is back first.

        Raises:
            HostGone: the claiming host is not registered.
        """
        async with self._database.writing() as connection:
            # First, since the removal of a host locks it before its streams' rows.
            claiming, is_steady = await _lock_host(connection, host, dead_seconds)
            owner, generation = await _lock_owner(connection, stream)
            if owner == host:
                return _record(claiming, generation)
            if generation != ended_owner:
                patience = dead_seconds * (_SILENT_SHARE if generation == silent_owner else 1)
                present = await _find_owner(connection, owner, patience, silent=not is_steady)
                if present is not None:
                    return _record(present, generation)
            if hand_over:
                claiming = await _with_room(connection, claiming, owner, dead_seconds)
            claimed = update(stream_owners).where(stream_owners.c.stream_id == stream)
            following = _next_generation(connection)
            claimed = claimed.values(
                host_id=claiming[0], generation=following, taken_us=now_in(connection)
            )
            row = await connection.execute(claimed.returning(stream_owners.c.generation))
            return _record(claiming, row.scalar_one())

    async def release(self, stream: int, host: int, generation: int, *, ended: bool = True) -> None:
        """Release a stream that the host owns by this generation; otherwise nothing changes.

        Without `ended` it may still have an open run: see `find_orphaned`.
        """
        owners = stream_owners.c
        is_owned = (
            owners.stream_id == stream,
            owners.host_id == host,
            owners.generation == generation,
        )
        async with self._database.writing() as connection:
            owner = null() if ended else _NO_HOST
            await connection.execute(update(stream_owners).where(*is_owned).values(host_id=owner))

    async def owned_by(self, host: int) -> dict[int, int]:
        """Return the generations by which a host owns streams, by the streams' numbers."""
        owners = stream_owners.c
        query = select(owners.stream_id, owners.generation).where(owners.host_id == host)
        # Each heartbeat of a host runs this query.
        async with self._database.beating() as connection:
            return dict((await connection.execute(query)).all())

    async def find_orphaned(
        self, host: int, dead_seconds: float, *, after: int = 0
    ) -> tuple[OrphanedStream, ...]:
        """Return streams whose owners are gone; only the first living host gets any.

        The first one has the smallest number. The streams come in the order of their numbers,
        `ORPHANED_AT_ONCE` at a time, those with a number greater than `after`.
        """
        owners = stream_owners.c
        async with self._database.reading() as connection:
            lives = is_living(connection, dead_seconds)
            living = select(hosts.c.id).where(lives)
            first = select(func.min(hosts.c.id)).where(lives).scalar_subquery()
            orphaned = (owners.host_id.is_not(None), owners.host_id.not_in(living), first == host)
            columns = select(
                *_ORPHANED.columns, streams.c.settings, projects.c.settings.label("defaults")
            )
            joined = columns.join_from(stream_owners, streams, streams.c.id == owners.stream_id)
            joined = joined.join(projects, projects.c.id == streams.c.project_id)
            query = joined.where(*orphaned, streams.c.id > after)
            query = query.order_by(streams.c.id).limit(ORPHANED_AT_ONCE)
            return tuple(
                _ORPHANED.read(row, reconnect_seconds=_reconnect_seconds(row))
                for row in await connection.execute(query)
            )

    async def forget(self, released: Sequence[OrphanedStream]) -> None:
        """Record that released streams have no open run.

        A stream that was claimed meanwhile is not changed.
        """
        owners = stream_owners.c
        free = update(stream_owners).where(
            owners.stream_id == bindparam("stream"),
            owners.generation == bindparam("given"),
            owners.host_id == _NO_HOST,
        )
        rows = [{"stream": each.stream, "given": each.generation} for each in released]
        if rows:
            async with self._database.writing() as connection:
                await connection.execute(free.values(host_id=null()), rows)


def _next_generation(connection: AsyncConnection) -> ColumnElement[int]:
    successor = stream_owners.c.generation + 1
    seconds = (now_in(connection) - _FIRST_SECOND_US) // MICROSECONDS
    return case((successor > seconds, successor), else_=seconds)


_Host = tuple[int, str, str | None]  # number, name, address


def _record(host: _Host, generation: int) -> StreamOwner:
    number, name, address = host
    return StreamOwner(host=number, name=name, address=address, generation=generation)


async def _lock_host(
    connection: AsyncConnection, host: int, dead_seconds: float
) -> tuple[_Host, bool]:
    """Lock a host against removal, not against heartbeats; return whether it is seen steadily."""
    # One that was not seen yet since the database is back has an old `steady_us`.
    is_steady = and_(
        is_living(connection, dead_seconds),
        now_in(connection) - hosts.c.steady_us >= round(dead_seconds * MICROSECONDS),
    )
    query = select(hosts.c.id, hosts.c.name, hosts.c.address, is_steady).where(hosts.c.id == host)
    row = await connection.execute(query.with_for_update(read=True, key_share=True))
    values = row.one_or_none()
    if values is None:
        raise HostGone(host)
    number, name, address, steady = values
    return (number, name, address), steady


async def _lock_owner(connection: AsyncConnection, stream: int) -> tuple[int | None, int]:
    """Lock the row of a stream's owner, added if it is missing: its host and its generation."""
    owners = stream_owners.c
    query = select(owners.host_id, owners.generation).where(owners.stream_id == stream)
    locked = query.with_for_update()
    owner = (await connection.execute(locked)).one_or_none()
    if owner is None:
        row = {"stream_id": stream, "generation": 0, "taken_us": 0}
        await connection.execute(insert_missing(connection, stream_owners, row))
        owner = (await connection.execute(locked)).one()
    return owner


async def _with_room(
    connection: AsyncConnection, claiming: _Host, former: int | None, dead_seconds: float
) -> _Host:
    """Return the host that is to own a stream; not the host `former`, which may only seem to live.

    One that ends meanwhile owns it in name only: the next claim finds no owner.
    """
    query = select(hosts.c.capacity).where(hosts.c.id == claiming[0])
    if (await connection.execute(query)).scalar_one() is None:
        return claiming  # unlimited: the usual case, and the cheapest
    loads = {each.host: each for each in await find_loads(connection, dead_seconds)}
    first = loads.pop(claiming[0], None)
    if first is None:
        return claiming
    if former is not None:
        loads.pop(former, None)
    chosen = choose_host(first, loads.values())
    return chosen.host, chosen.name, chosen.address


async def _find_owner(
    connection: AsyncConnection, host: int | None, dead_seconds: float, *, silent: bool
) -> _Host | None:
    """Return a host that lives, or with `silent` that may live; None where there is none."""
    query = select(hosts.c.id, hosts.c.name, hosts.c.address).where(hosts.c.id == host)
    if not silent:
        query = query.where(is_living(connection, dead_seconds))
    return (await connection.execute(query)).one_or_none()
