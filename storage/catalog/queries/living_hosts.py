"""Which hosts live, and which streams they own, by the database's clock.

A host lives while it was seen within the last `dead_seconds`; each renews its row once a second.
The conditions run within the caller's transaction, and lock nothing.
"""

from sqlalchemy import ColumnElement, Select, func, select

from media.ticks import MICROSECONDS
from storage.catalog.engine.clock import now_in
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.schema.tables import hosts, stream_owners


def is_living(connection: AsyncConnection, dead_seconds: float) -> ColumnElement[bool]:
    """Return the condition that a row of `hosts` is that of a living host."""
    # A host that was seen in the future was so before the clock was set back.
    return func.abs(now_in(connection) - hosts.c.seen_us) < round(dead_seconds * MICROSECONDS)


def select_owned(connection: AsyncConnection, dead_seconds: float) -> Select[int]:
    """Return the query for the numbers of the streams that living hosts own."""
    owned = select(stream_owners.c.stream_id)
    return owned.join(hosts, hosts.c.id == stream_owners.c.host_id).where(
        is_living(connection, dead_seconds)
    )
