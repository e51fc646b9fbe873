"""Which row of the table of work is leased next, however long the queue is.

A row may be leased when it is queued and need not wait, or when it runs and its lease is over.
Projects take turns: the next project behind the one that was served before comes first, and within
a project its rows in an order of their own.

Each query reads the rows that it returns and few others: queued rows in the order of an index by
project, and running rows, of which there are no more than workers. Rows that wait after a failure
are passed over. Both indexes are partial, and SQLite uses those only for states that are written
out in the statement: a state is no parameter here.

The work of a project in the trash rests until that is restored, or removed for good. However much
there is, one row of it is read: the next query begins behind that project.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Row,
    Select,
    String,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
)

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries import project_lookup
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.schema.tables import jobs
from storage.leases import MAX_LEASE_US, WorkKind

_QUEUED: Final = literal_column("'queued'", String())
_RUNNING: Final = literal_column("'running'", String())
_NOW: Final = bindparam("now_us", type_=BigInteger())
_AFTER: Final = bindparam("after", type_=Integer())
_FROM: Final = bindparam("from_after", type_=Integer())  # a project, which is not read any more
_TO: Final = bindparam("to", type_=Integer())
_KIND: Final = bindparam("kind", type_=String())
_PASSED_OVER: Final = bindparam("passed_over", type_=Integer(), expanding=True)
_RESTING: Final = bindparam("resting", type_=Integer(), expanding=True)
# A longer pause, or lease, was set before the clock was set back.
_LATE: Final = bindparam("late_us", type_=BigInteger())
_ENDLESS: Final = bindparam("endless_us", type_=BigInteger())

Facts = Mapping[str, Any]  # Any: parameters of every type


class LeaseQueue:
    """The rows for which `conditions` are true; `order` names the columns that order a project's.

    Each call runs within the caller's transaction, for the rows that `facts_of_rows` describes.
    """

    def __init__(self, order: Sequence[str], *conditions: ColumnElement[bool]) -> None:
        # The statements are made once: they run twice a second for each idle pool of workers.
        self._order = order
        columns = [jobs.c[name] for name in order]
        begins, ends, project = jobs.c.run_after_us, jobs.c.leased_until_us, jobs.c.project_id
        rows = and_(*conditions, jobs.c.kind == _KIND, jobs.c.id.not_in(_PASSED_OVER))
        queued = and_(
            rows,
            jobs.c.state == _QUEUED,
            or_(begins <= _NOW, begins > _LATE),
            project > _FROM,
        )
        expired = and_(
            rows,
            jobs.c.state == _RUNNING,
            or_(ends < _NOW, ends > _ENDLESS),
            project.not_in(_RESTING),
        )
        # In order, or PostgreSQL may read the whole table for its first row.
        waits = select(project).where(queued).order_by(project, *columns).limit(1)
        overdue = select(project).where(expired).limit(1)
        self._due = select(func.coalesce(waits.scalar_subquery(), overdue.scalar_subquery()))
        locked = select(jobs).limit(1).with_for_update(skip_locked=True)
        self._queued = locked.where(queued, project <= _TO).order_by(project, *columns)
        turn = (project <= _AFTER, project, *columns)
        self._expired = locked.where(expired).order_by(*turn)

    async def is_due(self, connection: AsyncConnection, facts: Facts) -> bool:
        """Return whether a row may be leased; needs no write lock."""
        resting = await _resting(connection)
        facts = {**facts, "resting": resting, "from_after": 0}
        project = (await connection.execute(self._due, facts)).scalar_one()
        while project in resting:
            facts["from_after"] = project
            project = (await connection.execute(self._due, facts)).scalar_one()
        return project is not None

    async def lock_next(
        self, connection: AsyncConnection, facts: Facts, after: int
    ) -> Row[Any] | None:  # Any: the row of a whole table has no static type
        """Lock the row to be leased next, and return it; None if there is none.

        `after` is the number of the project that was served before. Rows that others have locked
        are passed over.
        """
        facts = {**facts, "after": after, "resting": await _resting(connection)}
        queued = await self._lock_queued(connection, facts, after, MAX_ID)
        if queued is None:
            queued = await self._lock_queued(connection, facts, 0, after)
        expired = await _first(connection, self._expired, facts)

        def turn(row: Row[Any]) -> tuple[bool, int, list[int]]:  # Any: as above
            columns = [getattr(row, name) for name in self._order]
            return row.project_id <= after, row.project_id, columns

        return min((row for row in (queued, expired) if row is not None), key=turn, default=None)

    async def _lock_queued(
        self, connection: AsyncConnection, facts: Facts, after: int, to: int
    ) -> Row[Any] | None:  # Any: as above
        """Lock the first queued row of the projects behind number `after`, up to number `to`."""
        row = await _first(connection, self._queued, {**facts, "from_after": after, "to": to})
        while row is not None and row.project_id in facts["resting"]:
            after = row.project_id
            row = await _first(connection, self._queued, {**facts, "from_after": after, "to": to})
        return row


def facts_of_rows(now_us: int, kind: WorkKind, passed_over: Collection[int]) -> Facts:
    """Describe the rows of a kind that are not among those numbered `passed_over`."""
    return {
        "kind": kind.name,
        "passed_over": tuple(passed_over),
        "now_us": now_us,
        "late_us": now_us + kind.endless_pause_us,
        "endless_us": now_us + MAX_LEASE_US,
    }


async def _resting(connection: AsyncConnection) -> frozenset[int]:
    """Return the numbers of the projects in the trash."""
    return frozenset((await connection.execute(project_lookup.IN_TRASH)).scalars())


async def _first(
    connection: AsyncConnection,
    query: Select[Any],  # Any: as above
    facts: Facts,
) -> Row[Any] | None:
    return (await connection.execute(query, facts)).one_or_none()
