"""Spans (`catalog.spans`): the parts of videos that workers encode in parallel.

Each is leased as a part of its video's job (`storage.catalog.jobs`), and ends with that; its row
here is what is to be made, and what was. A transaction that changes a video, its job, the lease of
a span and the span locks them in this order.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    String,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.jobs import jobs as work
from storage.catalog.records.transcoding import PlannedSpan, RemainingMedia, SpanWork
from storage.catalog.schema.tables import jobs as job_table
from storage.catalog.schema.upload_tables import spans
from storage.catalog.videos import jobs, rows
from storage.catalog.videos.transcoding import mark_failed, record_progress
from storage.eta import SpanPace, seconds_remaining
from storage.leases import Lease

_TABLE: Final = spans.c
_OWN: Final = "own"  # the state of number 0 until its job's holder has made it
_OFFERED: Final = "offered"  # there is work that makes it
_DONE: Final = "done"
# Versions before 0.3 leased spans from this table. What they have queued, or leased and left, is
# found by an index each: the states are written out (`storage.catalog.jobs.queue`).
_NOW: Final = bindparam("now_us", type_=BigInteger())
_QUEUED: Final = _TABLE.state == literal_column("'queued'", String())
_LEFT: Final = and_(
    _TABLE.state == literal_column("'running'", String()), _TABLE.leased_until_us < _NOW
)
_OLD_JOB: Final = select(
    func.coalesce(
        select(_TABLE.job_id)
        .where(_QUEUED)
        .order_by(_TABLE.project_id, _TABLE.job_id, _TABLE.number)
        .limit(1)
        .scalar_subquery(),
        select(_TABLE.job_id)
        .where(_LEFT)
        .order_by(_TABLE.leased_until_us)
        .limit(1)
        .scalar_subquery(),
    )
)


async def _lock_job(connection: AsyncConnection, job: int) -> int:
    """Lock a job; returns its newest attempt's number."""
    query = select(job_table.c.attempt).where(job_table.c.id == job).with_for_update()
    return (await connection.execute(query)).scalar_one_or_none() or 0


def _is_of(span: Lease) -> ColumnElement[bool]:
    return and_(_TABLE.job_id == span.job, _TABLE.number == span.part)


async def _are_all_done(connection: AsyncConnection, job: int) -> bool:
    query = select(_TABLE.id).where(_TABLE.job_id == job, _TABLE.state != _DONE).limit(1)
    return (await connection.execute(query)).one_or_none() is None


async def _update_progress(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    job: int,
    now_us: int,
    *,
    free: int = 0,
) -> None:
    """Record and broadcast the progress of a video's spans, which never falls.

    `free` is how many workers have just finished a span and will lease the next.
    """
    leases = and_(job_table.c.job_id == _TABLE.job_id, job_table.c.number == _TABLE.number)
    query = (
        select(
            func.coalesce(job_table.c.state, _TABLE.state),
            _TABLE.cost,
            _TABLE.done,
            _TABLE.run_after_us,
            _TABLE.updated_us,
        )
        .outerjoin_from(spans, job_table, leases)
        .where(_TABLE.job_id == job, _TABLE.number > 0)
        .order_by(_TABLE.number)
    )
    paces = [SpanPace(*each) for each in await connection.execute(query)]
    cost = sum(each.cost for each in paces)
    if not cost:
        return
    done = sum(each.done for each in paces)
    eta = seconds_remaining(paces, now_us, idle_workers=free)
    await record_progress(connection, row, 100 * done // cost, eta, now_us)


class Spans(Repository):
    """The spans of an open catalog (`catalog.spans`), each call in its own transaction.

    A method that changes a span or a job raises `storage.leases.LeaseLost` if that is not held any
    more.
    """

    async def plan(self, job: Lease, planned: Sequence[PlannedSpan], now_us: int) -> bool:
        """Offer a job's spans to all workers; return False if that was done before."""
        async with self._database.writing() as connection:
            await work.extend(connection, job, now_us)
            existing = await connection.execute(
                select(_TABLE.id).where(_TABLE.job_id == job.id).limit(1)
            )
            if existing.one_or_none() is not None:
                return False
            own_span = PlannedSpan(number=0, cost=0, order="{}")
            new = [
                {
                    "job_id": job.id,
                    "project_id": job.project,
                    "number": each.number,
                    "state": _OFFERED if each.number else _OWN,
                    "attempt": 0,
                    "failures": 0,
                    "run_after_us": now_us,
                    "cost": each.cost,
                    "done": 0,
                    "facts": each.order,
                    "created_us": now_us,
                    "updated_us": now_us,
                }
                for each in (own_span, *planned)
            ]
            await connection.execute(insert(spans), new)
            parts = [{"job_id": job.id, "number": each.number} for each in planned]
            if parts:
                await work.add(connection, jobs.SPAN, job.project, now_us, parts)
            return True

    async def adopt(self, now_us: int) -> bool:
        """Offer the spans of one job that a version before 0.3 has queued, or leased and left.

        Attempts, failures and the ends of leases stay. Return whether there were any. A process of
        such a version may go on beside this one: it works at what it has leased.
        """
        facts = {"now_us": now_us}
        async with self._database.reading() as connection:
            job = (await connection.execute(_OLD_JOB, facts)).scalar_one()
        if job is None:
            return False
        async with self._database.writing() as connection:
            await _lock_job(connection, job)
            adopted = (
                update(spans)
                .where(_TABLE.job_id == job, or_(_QUEUED, _LEFT))
                .values(state=_OFFERED)
                .returning(spans)
            )
            for row in (await connection.execute(adopted, facts)).all():
                part = {
                    "job_id": job,
                    "number": row.number,
                    "state": work.QUEUED if row.owner is None else work.RUNNING,
                    "attempt": row.attempt,
                    "owner": row.owner,
                    "leased_until_us": row.leased_until_us,
                    "run_after_us": row.run_after_us,
                    "facts": work.facts_of(row.failures),
                }
                await work.add(connection, jobs.SPAN, row.project_id, now_us, [part])
        return True

    async def begin(self, span: Lease, now_us: int) -> SpanWork:
        """Record that a worker has begun a span; return what is to be made."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, span)
            await _lock_job(connection, span.job)
            await work.extend(connection, span, now_us)
            begun = (
                update(spans)
                .where(_is_of(span))
                .values(attempt=span.attempt, done=0, run_after_us=now_us, updated_us=now_us)
                .returning(_TABLE.cost, _TABLE.facts)
            )
            cost, order = (await connection.execute(begun)).one()
            return SpanWork(
                hash=row.hash,
                source=row.source or "",
                generation=row.generation,
                cost=cost,
                order=order,
            )

    async def progress(self, span: Lease, done: int, now_us: int) -> None:
        """Record how much of a span's cost is done, and update the video's progress."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, span)
            await _lock_job(connection, span.job)
            await work.extend(connection, span, now_us)
            most = case((_TABLE.cost < done, _TABLE.cost), else_=done)
            changed = update(spans).where(_is_of(span)).values(done=most, updated_us=now_us)
            await connection.execute(changed)
            await _update_progress(connection, row, span.job, now_us)

    async def finish(self, span: Lease, outcome: str, now_us: int) -> None:
        """Record what was made of a span; after the last one its job is queued for the rest."""
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, span)
            await _lock_job(connection, span.job)
            await work.finish(connection, span)
            await connection.execute(
                update(spans)
                .where(_is_of(span))
                .values(state=_DONE, done=_TABLE.cost, outcome=outcome, updated_us=now_us)
            )
            if await _are_all_done(connection, span.job):
                await work.end_wait(connection, span.job, now_us)
            await _update_progress(connection, row, span.job, now_us, free=1)

    async def finish_original(self, job: Lease, outcome: str, now_us: int) -> bool:
        """Record what the job's holder made in one piece; return True if all spans are done, too.

        Otherwise the job is released, and waits for them.
        """
        async with self._database.writing() as connection:
            # PostgreSQL checks the job's two changes against the video's row: lock that first.
            await rows.lock_for_job(connection, job)
            await work.extend(connection, job, now_us)
            await connection.execute(
                update(spans)
                .where(_TABLE.job_id == job.id, _TABLE.number == 0)
                .values(state=_DONE, outcome=outcome, attempt=job.attempt, updated_us=now_us)
            )
            if await _are_all_done(connection, job.id):
                return True
            await work.wait_for_parts(connection, job, now_us)
            return False

    async def outcomes(self, job: Lease) -> tuple[str | None, ...]:
        """Return what was made of a job's spans, by their numbers; None for what is not made."""
        query = select(_TABLE.outcome).where(_TABLE.job_id == job.id).order_by(_TABLE.number)
        async with self._database.reading() as connection:
            return tuple((await connection.execute(query)).scalars())

    async def fail(self, span: Lease, reason: str, now_us: int) -> RemainingMedia:
        """End the span's job without a video; `reason` is a sentence for its owner.

        Returns what is left of it.
        """
        async with self._database.writing() as connection:
            row = await rows.lock_for_job(connection, span)
            attempt = await _lock_job(connection, span.job)
            await work.change(connection, span, now_us)
            await jobs.end(connection, span.job)
            await mark_failed(connection, row, reason, now_us)
            return RemainingMedia(
                media=row.media, posters=row.posters, attempt=attempt, previews=row.previews
            )
