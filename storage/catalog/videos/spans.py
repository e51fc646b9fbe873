"""Spans (`catalog.spans`): the parts of videos that workers encode in parallel.

Spans end with their job: then their rows are removed, and their leases are lost.
They are leased by the rules of jobs (`storage.job_leases`). A transaction that changes a video, its
job and a span locks them in this order; leasing a span locks that alone, and skips locked ones.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.database import Database
from storage.catalog.records.transcoding import RemainingMedia
from storage.catalog.schema.tables import jobs as job_table
from storage.catalog.schema.tables import videos
from storage.catalog.schema.upload_tables import spans
from storage.catalog.videos import jobs, rows
from storage.catalog.videos.leasing import LeaseQueue
from storage.catalog.videos.transcoding import mark_failed, record_progress
from storage.eta import SpanPace, seconds_remaining
from storage.job_leases import (
    LEASE_US,
    HeldJob,
    HeldSpan,
    PlannedSpan,
    SpanLost,
    pause_us,
)

_TABLE: Final = spans.c
_QUEUED, _RUNNING, _DONE = "queued", "running", "done"
_QUEUE: Final = LeaseQueue(spans, ("job_id", "number"))  # a project's videos one by one
_OWN: Final = "own"  # the state of number 0 until its job's holder has made it


async def _change(
    connection: AsyncConnection, span: HeldSpan, now_us: int, **values: object
) -> None:
    result = await connection.execute(
        update(spans)
        .where(
            _TABLE.id == span.id,
            _TABLE.owner == span.owner,
            _TABLE.attempt == span.attempt,
            _TABLE.state == _RUNNING,
        )
        .values(updated_us=now_us, **values)
    )
    if result.rowcount != 1:
        raise SpanLost(span)


async def _locked(
    connection: AsyncConnection, span: HeldSpan
) -> Row[Any]:  # Any: the row of a whole table has no static type
    row = await rows.lock(connection, span.video)
    if row is None:
        raise SpanLost(span)
    return row


async def _lock_job(connection: AsyncConnection, job: int) -> int:
    """Lock a job; returns its newest attempt's number."""
    query = select(job_table.c.attempt).where(job_table.c.id == job).with_for_update()
    return (await connection.execute(query)).scalar_one_or_none() or 0


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
    columns = (_TABLE.state, _TABLE.cost, _TABLE.done, _TABLE.run_after_us, _TABLE.updated_us)
    query = select(*columns).where(_TABLE.job_id == job, _TABLE.number > 0).order_by(_TABLE.number)
    paces = [SpanPace(*each) for each in await connection.execute(query)]
    cost = sum(each.cost for each in paces)
    if not cost:
        return
    done = sum(each.done for each in paces)
    eta = seconds_remaining(paces, now_us, idle_workers=free)
    await record_progress(connection, row, 100 * done // cost, eta, now_us)


class Spans:
    """The spans of an open catalog (`catalog.spans`), each call in its own transaction.

    A method that changes a span or a job raises `storage.job_leases.SpanLost` or `JobLost` if that
    is not held any more.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def plan(self, job: HeldJob, planned: Sequence[PlannedSpan], now_us: int) -> bool:
        """Offer a job's spans to all workers; return False if that was done before.

        Raises:
            JobLost: the job is not held any more.
        """
        async with self._database.writing() as connection:
            await jobs.extend(connection, job, now_us)
            existing = await connection.execute(
                select(_TABLE.id).where(_TABLE.job_id == job.id).limit(1)
            )
            if existing.one_or_none() is not None:
                return False
            own_span = PlannedSpan(number=0, cost=0, facts="{}")
            new = [
                {
                    "job_id": job.id,
                    "project_id": job.project,
                    "number": each.number,
                    "state": _QUEUED if each.number else _OWN,
                    "attempt": 0,
                    "failures": 0,
                    "run_after_us": now_us,
                    "cost": each.cost,
                    "done": 0,
                    "facts": each.facts,
                    "created_us": now_us,
                    "updated_us": now_us,
                }
                for each in (own_span, *planned)
            ]
            await connection.execute(insert(spans), new)
            return True

    async def lease(
        self, owner: str, now_us: int, *, lease_us: int = LEASE_US, after: int = 0
    ) -> HeldSpan | None:
        """Lease the first span of the oldest job, of the next project after number `after`.

        `owner` must be a new random name for each lease, which lasts for `lease_us`. A span whose
        last worker let its lease run out counts that as a failure. None: there is none.
        """
        # Most calls find none: they do not take the write lock.
        async with self._database.reading() as connection:
            if not await _QUEUE.is_due(connection, now_us):
                return None
        async with self._database.writing() as connection:
            row = await _QUEUE.lock_next(connection, now_us, after)
            if row is None:
                return None
            query = select(videos.c.id, videos.c.hash, videos.c.source, videos.c.generation)
            query = query.join_from(job_table, videos).where(job_table.c.id == row.job_id)
            video = (await connection.execute(query)).one_or_none()
            if video is None:
                return None  # its job ends just now
            span = HeldSpan(
                id=row.id,
                job=row.job_id,
                video=video.id,
                hash=video.hash,
                source=video.source or "",
                generation=video.generation,
                number=row.number,
                owner=owner,
                attempt=row.attempt + 1,
                failures=row.failures + (row.state == _RUNNING),
                cost=row.cost,
                facts=row.facts,
                lease_us=lease_us,
                project=row.project_id,
            )
            await connection.execute(
                update(spans)
                .where(_TABLE.id == row.id)
                .values(
                    state=_RUNNING,
                    owner=owner,
                    attempt=span.attempt,
                    failures=span.failures,
                    leased_until_us=now_us + lease_us,
                    run_after_us=now_us,  # from now on the time when it was begun
                    done=0,
                    updated_us=now_us,
                )
            )
            return span

    async def extend(self, span: HeldSpan, now_us: int) -> None:
        """Extend a lease.

        Raises:
            SpanLost: there is nothing to extend, or the job has ended.
        """
        async with self._database.writing() as connection:
            await _change(connection, span, now_us, leased_until_us=now_us + span.lease_us)

    async def progress(self, span: HeldSpan, done: int, now_us: int) -> None:
        """Record how much of a span's cost is done, and update the video's progress.

        Raises:
            SpanLost: it is not held any more.
        """
        async with self._database.writing() as connection:
            row = await _locked(connection, span)
            until_us = now_us + span.lease_us
            await _change(
                connection, span, now_us, done=min(done, span.cost), leased_until_us=until_us
            )
            await _update_progress(connection, row, span.job, now_us)

    async def finish(self, span: HeldSpan, outcome: str, now_us: int) -> None:
        """Record what was made of a span; after the last one its job is queued for the rest.

        Raises:
            SpanLost: it is not held any more: the transaction must change nothing else.
        """
        async with self._database.writing() as connection:
            row = await _locked(connection, span)
            await _lock_job(connection, span.job)
            await _change(
                connection,
                span,
                now_us,
                state=_DONE,
                owner=None,
                leased_until_us=None,
                done=span.cost,
                outcome=outcome,
            )
            if await _are_all_done(connection, span.job):
                await jobs.end_wait(connection, span.job, now_us)
            await _update_progress(connection, row, span.job, now_us, free=1)

    async def finish_original(self, job: HeldJob, outcome: str, now_us: int) -> bool:
        """Record what the job's holder made in one piece; return True if all spans are done, too.

        Otherwise the job is released, and waits for them.

        Raises:
            JobLost: the job is not held any more.
        """
        async with self._database.writing() as connection:
            # PostgreSQL checks the job's two changes against the video's row: lock that first.
            await rows.lock_for_job(connection, job)
            await jobs.extend(connection, job, now_us)
            await connection.execute(
                update(spans)
                .where(_TABLE.job_id == job.id, _TABLE.number == 0)
                .values(state=_DONE, outcome=outcome, attempt=job.attempt, updated_us=now_us)
            )
            if await _are_all_done(connection, job.id):
                return True
            await jobs.wait_for_spans(connection, job, now_us)
            return False

    async def outcomes(self, job: HeldJob) -> tuple[str | None, ...]:
        """Return what was made of a job's spans, by their numbers; None for what is not made."""
        query = select(_TABLE.outcome).where(_TABLE.job_id == job.id).order_by(_TABLE.number)
        async with self._database.reading() as connection:
            return tuple((await connection.execute(query)).scalars())

    async def requeue(self, span: HeldSpan, now_us: int, *, failed: bool) -> None:
        """Queue a span again: later if it `failed` through no fault of the file, else at once.

        Raises:
            SpanLost: it is not held any more.
        """
        async with self._database.writing() as connection:
            failures = span.failures + failed
            await _change(
                connection,
                span,
                now_us,
                state=_QUEUED,
                owner=None,
                leased_until_us=None,
                failures=failures,
                run_after_us=now_us + (pause_us(failures) if failed else 0),
            )

    async def fail(self, span: HeldSpan, reason: str, now_us: int) -> RemainingMedia:
        """End the span's job without a video; `reason` is a sentence for its owner.

        Returns what is left of it.

        Raises:
            SpanLost: it is not held any more.
        """
        async with self._database.writing() as connection:
            row = await _locked(connection, span)
            attempt = await _lock_job(connection, span.job)
            await _change(connection, span, now_us)
            await jobs.end(connection, span.job)
            await mark_failed(connection, row, reason, now_us)
            return RemainingMedia(
                media=row.media, posters=row.posters, attempt=attempt, previews=row.previews
            )
