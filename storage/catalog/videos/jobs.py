"""Jobs (`catalog.jobs`): which worker does what, until when. The rules: `storage.job_leases`.

A job's row exists while there is something to do; how it ended is written in its video's row.
The functions run within the caller's transaction, which locks the job's video first if it changes
that too. On PostgreSQL workers skip each other's locked rows (SKIP LOCKED); on SQLite a writing
transaction locks the whole database.
"""

from collections.abc import Collection
from typing import Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Integer,
    String,
    and_,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.database import Database
from storage.catalog.schema.tables import jobs, videos
from storage.catalog.videos.leasing import LeaseQueue
from storage.job_leases import (
    LEASE_US,
    HeldJob,
    JobFacts,
    JobLost,
    pause_us,
)

# The kinds that there are: a file is made playable, or fetched from an address; a recording, which
# plays already, gets its previews.
TRANSCODE: Final = "transcode"
IMPORT: Final = "import"
PREVIEWS: Final = "previews"
_QUEUED, _RUNNING = "queued", "running"
_WAITING: Final = "waiting"  # for its spans: not held, and not to be leased
# A project's jobs are leased by their age.
_QUEUE: Final = LeaseQueue(
    jobs,
    ("run_after_us", "id"),
    jobs.c.kind == bindparam("kind", type_=String()),
    jobs.c.id.not_in(bindparam("passed_over", type_=Integer(), expanding=True)),
)
_NO_FACTS: Final = msgspec.json.encode(JobFacts()).decode()


async def enqueue(
    connection: AsyncConnection, video: int, now_us: int, kind: str = TRANSCODE
) -> int:
    """Add a job of a kind to a video; returns its number.

    An older job of the video ends with this: its lease is lost.
    """
    await _remove(connection, jobs.c.video_id == video)
    query = select(videos.c.project_id, videos.c.attempt).where(videos.c.id == video)
    project, attempt = (await connection.execute(query)).one()
    values = {
        "kind": kind,
        "video_id": video,
        "project_id": project,
        "state": _QUEUED,
        "attempt": attempt,
        "run_after_us": now_us,
        "facts": _NO_FACTS,
        "created_us": now_us,
        "updated_us": now_us,
    }
    return (await connection.execute(insert(jobs).values(values).returning(jobs.c.id))).scalar_one()


async def extend(connection: AsyncConnection, job: HeldJob, now_us: int) -> None:
    """Extend a lease.

    Raises:
        JobLost: there is nothing to extend.
    """
    await _change(connection, job, now_us, leased_until_us=now_us + job.lease_us)


async def finish(connection: AsyncConnection, job: HeldJob) -> None:
    """Remove a job that is over, done or failed, with its spans.

    Raises:
        JobLost: it is not held any more: the transaction must change nothing else.
    """
    if not await _remove(connection, _is_held(job)):
        raise JobLost(job)


async def requeue(connection: AsyncConnection, job: HeldJob, now_us: int, *, failed: bool) -> None:
    """Queue a job again: at once if its worker is stopping, which is no failure.

    If it `failed` through no fault of the file, it waits first, each time longer.

    Raises:
        JobLost: it is not held any more.
    """
    values: dict[str, object] = {"state": _QUEUED, "owner": None, "leased_until_us": None}
    if failed:
        failures = job.failures + 1
        values |= {"run_after_us": now_us + pause_us(failures), "facts": _facts(failures)}
    await _change(connection, job, now_us, **values)


async def wait_for_spans(connection: AsyncConnection, job: HeldJob, now_us: int) -> None:
    """Release a job that waits for its spans.

    Raises:
        JobLost: it is not held any more.
    """
    await _change(connection, job, now_us, state=_WAITING, owner=None, leased_until_us=None)


async def end_wait(connection: AsyncConnection, job: int, now_us: int) -> None:
    """Queue a job that waits for its spans: they are done. Earlier failures no longer count."""
    await connection.execute(
        update(jobs)
        .where(jobs.c.id == job, jobs.c.state == _WAITING)
        .values(state=_QUEUED, run_after_us=now_us, facts=_NO_FACTS, updated_us=now_us)
    )


async def end(connection: AsyncConnection, job: int) -> None:
    """Remove a job that cannot succeed, held or not, with its spans."""
    await _remove(connection, jobs.c.id == job)


async def _remove(connection: AsyncConnection, which: ColumnElement[bool]) -> bool:
    """Remove a video's job; returns whether there was one. The video keeps its attempt's number.

    Attempts are numbered over all jobs of a video: they make folders that are named by number.
    """
    statement = delete(jobs).where(which).returning(jobs.c.video_id, jobs.c.attempt)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return False
    numbered = update(videos).where(videos.c.id == row.video_id).values(attempt=row.attempt)
    await connection.execute(numbered)
    return True


async def _change(connection: AsyncConnection, job: HeldJob, now_us: int, **values: object) -> None:
    result = await connection.execute(
        update(jobs).where(_is_held(job)).values(updated_us=now_us, **values)
    )
    if result.rowcount != 1:
        raise JobLost(job)


def _is_held(job: HeldJob) -> ColumnElement[bool]:
    table = jobs.c
    return and_(
        table.id == job.id,
        table.owner == job.owner,
        table.attempt == job.attempt,
        table.state == _RUNNING,
    )


def _failures(facts: str) -> int:
    return msgspec.json.decode(facts, type=JobFacts).failures


def _facts(failures: int) -> str:
    return msgspec.json.encode(JobFacts(failures=failures)).decode()


class Jobs:
    """The jobs of an open catalog (`catalog.jobs`), each call in its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease(
        self,
        owner: str,
        now_us: int,
        kind: str = TRANSCODE,
        *,
        lease_us: int = LEASE_US,
        after: int = 0,
        busy: frozenset[int] = frozenset(),
        passed_over: Collection[int] = (),
    ) -> HeldJob | None:
        """Lease a job of a kind; None if there is none, or only jobs of the projects `busy`.

        The jobs numbered `passed_over` are not leased.

        It is the one that has waited longest of the next project after the one numbered `after`.
        `owner` must be a new random name for each lease, which lasts for `lease_us`. A job whose
        last worker let its lease run out counts that as a failure.
        """
        # Most calls find none: they do not take the write lock.
        if not await self.has_due(now_us, kind, passed_over=passed_over):
            return None
        facts = {"kind": kind, "passed_over": tuple(passed_over)}
        async with self._database.writing() as connection:
            row = await _QUEUE.lock_next(connection, now_us, after, **facts)
            passed = 0
            while row is not None and row.project_id in busy and passed < len(busy):
                row = await _QUEUE.lock_next(connection, now_us, row.project_id, **facts)
                passed += 1
            if row is None or row.project_id in busy:
                return None
            failures = _failures(row.facts) + (row.state == _RUNNING)
            job = HeldJob(
                id=row.id,
                video=row.video_id,
                owner=owner,
                attempt=row.attempt + 1,
                failures=failures,
                lease_us=lease_us,
                project=row.project_id,
            )
            await connection.execute(
                update(jobs)
                .where(jobs.c.id == row.id)
                .values(
                    state=_RUNNING,
                    owner=owner,
                    attempt=job.attempt,
                    leased_until_us=now_us + lease_us,
                    facts=_facts(failures),
                    updated_us=now_us,
                )
            )
            return job

    async def has_due(
        self, now_us: int, kind: str = TRANSCODE, *, passed_over: Collection[int] = ()
    ) -> bool:
        """Return whether there is a job of a kind that may be leased, apart from `passed_over`."""
        facts = {"kind": kind, "passed_over": tuple(passed_over)}
        async with self._database.reading() as connection:
            return await _QUEUE.is_due(connection, now_us, **facts)

    async def extend(self, job: HeldJob, now_us: int) -> None:
        """Extend a lease (see `extend`)."""
        async with self._database.writing() as connection:
            await extend(connection, job, now_us)
