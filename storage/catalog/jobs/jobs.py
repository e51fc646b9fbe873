"""The table of work (`catalog.jobs`): which worker does what, until when.

A row exists while there is something to do. It is of a project, and ends when that is deleted. If
it is about a video, or is a part of a job, that is a column with a foreign key: it ends with that,
too. How it ended is written where its kind says. The functions run within the caller's transaction,
which locks what the work is about first if it changes that too, and then a job before its parts. On
PostgreSQL workers skip each other's locked rows (SKIP LOCKED); on SQLite a writing transaction
locks the whole database.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, and_, delete, insert, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Database
from storage.catalog.jobs.queue import LeaseQueue, facts_of_rows
from storage.catalog.schema.tables import jobs
from storage.leases import LEASE_US, JobFacts, Lease, LeaseLost, WorkKind

QUEUED: Final = "queued"
RUNNING: Final = "running"
WAITING: Final = "waiting"  # for its parts: not held, and not to be leased
_TABLE: Final = jobs.c
# A project's work is leased by its age, and the parts of its jobs job by job.
_QUEUE: Final = LeaseQueue(("run_after_us", "id"))
_PART_QUEUE: Final = LeaseQueue(("job_id", "number"), _TABLE.job_id.is_not(None))


def facts_of(failures: int) -> str:
    """Return what a row keeps from one attempt to the next, as it is stored."""
    return msgspec.json.encode(JobFacts(failures=failures)).decode()


async def add(
    connection: AsyncConnection,
    kind: WorkKind,
    project: int,
    now_us: int,
    rows: Sequence[Mapping[str, object]],
) -> None:
    """Queue work of a kind for a project.

    Each row has what it is about, if not the project alone, and may have other values, too, such as
    `payload`, a text for its worker.
    """
    values = {
        "kind": kind.name,
        "project_id": project,
        "state": QUEUED,
        "attempt": 0,
        "run_after_us": now_us,
        "facts": facts_of(0),
        "created_us": now_us,
        "updated_us": now_us,
    }
    await connection.execute(insert(jobs), [{**values, **row} for row in rows])


async def extend(connection: AsyncConnection, lease: Lease, now_us: int) -> None:
    """Extend a lease.

    Raises:
        LeaseLost: there is nothing to extend.
    """
    await change(connection, lease, now_us, leased_until_us=now_us + lease.lease_us)


async def finish(connection: AsyncConnection, lease: Lease) -> None:
    """Remove work that is over, done or failed, with its parts.

    Raises:
        LeaseLost: it is not held any more: the transaction must change nothing else.
    """
    if (await connection.execute(delete(jobs).where(_is_held(lease)))).rowcount != 1:
        raise LeaseLost(lease)


async def requeue(connection: AsyncConnection, lease: Lease, now_us: int, *, failed: bool) -> None:
    """Queue work again: at once if its worker is stopping, which is no failure.

    If it `failed` through no fault of what it is about, it waits first, each time longer.

    Raises:
        LeaseLost: it is not held any more.
    """
    values: dict[str, object] = {"state": QUEUED, "owner": None, "leased_until_us": None}
    if failed:
        failures = lease.failures + 1
        run_after_us = now_us + lease.kind.pause_us(failures)
        values |= {"run_after_us": run_after_us, "facts": facts_of(failures)}
    await change(connection, lease, now_us, **values)


async def wait_for_parts(connection: AsyncConnection, lease: Lease, now_us: int) -> None:
    """Release a job that waits for its parts.

    Raises:
        LeaseLost: it is not held any more.
    """
    await change(connection, lease, now_us, state=WAITING, owner=None, leased_until_us=None)


async def end_wait(connection: AsyncConnection, job: int, now_us: int) -> None:
    """Queue a job that waits for its parts: they are done. Earlier failures no longer count."""
    await connection.execute(
        update(jobs)
        .where(_TABLE.id == job, _TABLE.state == WAITING)
        .values(state=QUEUED, run_after_us=now_us, facts=facts_of(0), updated_us=now_us)
    )


async def change(connection: AsyncConnection, lease: Lease, now_us: int, **values: object) -> None:
    """Change the row of a lease.

    Raises:
        LeaseLost: it is not held any more.
    """
    statement = update(jobs).where(_is_held(lease)).values(updated_us=now_us, **values)
    if (await connection.execute(statement)).rowcount != 1:
        raise LeaseLost(lease)


def _is_held(lease: Lease) -> ColumnElement[bool]:
    return and_(
        _TABLE.id == lease.id,
        _TABLE.owner == lease.owner,
        _TABLE.attempt == lease.attempt,
        _TABLE.state == RUNNING,
    )


class Jobs:
    """The work of an open catalog (`catalog.jobs`), each call in its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease(
        self,
        owner: str,
        now_us: int,
        kind: WorkKind,
        *,
        lease_us: int = LEASE_US,
        after: int = 0,
        busy: frozenset[int] = frozenset(),
        passed_over: Collection[int] = (),
    ) -> Lease | None:
        """Lease work of a kind; None if there is none, or only work of the projects `busy`.

        The rows numbered `passed_over` are not leased.

        It is what has waited longest of the next project after the one numbered `after`, or the
        first part of its oldest job. `owner` must be a new random name for each lease, which lasts
        for `lease_us`. Where the last worker let its lease run out, that counts as a failure.
        """
        # Most calls find none: they do not take the write lock.
        if not await self.has_due(now_us, kind, passed_over=passed_over):
            return None
        queue, facts = _queue_of(kind), facts_of_rows(now_us, kind, passed_over)
        async with self._database.writing() as connection:
            row = await queue.lock_next(connection, facts, after)
            passed = 0
            while row is not None and row.project_id in busy and passed < len(busy):
                row = await queue.lock_next(connection, facts, row.project_id)
                passed += 1
            if row is None or row.project_id in busy:
                return None
            subject: int | None = row.video_id or row.project_id
            if row.job_id is not None:
                query = select(_TABLE.video_id).where(_TABLE.id == row.job_id)
                subject = (await connection.execute(query)).scalar_one_or_none()
            if subject is None:
                return None  # its job ends just now
            failures = msgspec.json.decode(row.facts, type=JobFacts).failures
            lease = Lease(
                id=row.id,
                kind=kind,
                subject=subject,
                owner=owner,
                attempt=row.attempt + 1,
                failures=failures + (row.state == RUNNING),
                job=row.job_id or row.id,
                part=row.number,
                lease_us=lease_us,
                project=row.project_id,
                payload=row.payload or "",
            )
            await connection.execute(
                update(jobs)
                .where(_TABLE.id == row.id)
                .values(
                    state=RUNNING,
                    owner=owner,
                    attempt=lease.attempt,
                    leased_until_us=now_us + lease_us,
                    facts=facts_of(lease.failures),
                    updated_us=now_us,
                )
            )
            return lease

    async def has_due(
        self, now_us: int, kind: WorkKind, *, passed_over: Collection[int] = ()
    ) -> bool:
        """Return whether there is work of a kind that may be leased, apart from `passed_over`."""
        facts = facts_of_rows(now_us, kind, passed_over)
        async with self._database.reading() as connection:
            return await _queue_of(kind).is_due(connection, facts)

    async def extend(self, lease: Lease, now_us: int) -> None:
        """Extend a lease (see `extend`)."""
        async with self._database.writing() as connection:
            await extend(connection, lease, now_us)

    async def finish(self, lease: Lease) -> None:
        """Remove work that is over (see `finish`), where nothing else is to be recorded."""
        async with self._database.writing() as connection:
            await finish(connection, lease)

    async def requeue(self, lease: Lease, now_us: int, *, failed: bool) -> None:
        """Queue work again (see `requeue`), where nothing else is to be changed."""
        async with self._database.writing() as connection:
            await requeue(connection, lease, now_us, failed=failed)


def _queue_of(kind: WorkKind) -> LeaseQueue:
    return _PART_QUEUE if kind.is_part else _QUEUE
