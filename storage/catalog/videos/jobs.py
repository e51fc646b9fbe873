"""Jobs (`catalog.jobs`): which worker does what, until when. The rules: `storage.job_leases`.

The functions run within the caller's transaction, which locks the job's video first if it changes
that too. On PostgreSQL workers skip each other's locked rows (SKIP LOCKED); on SQLite a writing
transaction locks the whole database.
"""

from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Table, and_, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.database import Database
from storage.catalog.schema.tables import jobs, videos
from storage.job_leases import (
    LEASE_US,
    MAX_LEASE_US,
    MAX_PAUSE_US,
    HeldJob,
    JobFacts,
    JobLost,
    pause_us,
)

__all__ = [
    "IMPORT",
    "OPEN",
    "TRANSCODE",
    "Jobs",
    "end",
    "end_wait",
    "enqueue",
    "extend",
    "fail",
    "finish",
    "is_leasable",
    "lease",
    "project_order",
    "release",
    "retry",
    "wait_for_spans",
]

# The kinds that there are: a file is made playable, or fetched from an address.
TRANSCODE: Final = "transcode"
IMPORT: Final = "import"
_QUEUED, _RUNNING, _DONE, _FAILED = "queued", "running", "done", "failed"
_WAITING: Final = "waiting"  # for its spans: held by nobody, and not to be taken
OPEN: Final = (_QUEUED, _RUNNING, _WAITING)  # the states of a job that is not over
_NO_FACTS: Final = msgspec.json.encode(JobFacts()).decode()


async def enqueue(
    connection: AsyncConnection, video: int, now_us: int, kind: str = TRANSCODE
) -> int:
    """Have a video transcoded, or its file fetched; returns the job's number.

    An older job of the video that is not over ends with this: nobody holds it any more.
    """
    mine = jobs.c.video_id == video
    await connection.execute(
        update(jobs)
        .where(mine, jobs.c.state.in_(OPEN))
        .values(state=_FAILED, owner=None, leased_until_us=None, updated_us=now_us)
    )
    # Attempts are numbered over all jobs of a video: what they make lies in folders of that name.
    before = (await connection.execute(select(func.max(jobs.c.attempt)).where(mine))).scalar_one()
    values = {
        "kind": kind,
        "video_id": video,
        "state": _QUEUED,
        "attempt": before or 0,
        "run_after_us": now_us,
        "facts": _NO_FACTS,
        "created_us": now_us,
        "updated_us": now_us,
    }
    return (await connection.execute(insert(jobs).values(values).returning(jobs.c.id))).scalar_one()


async def due(connection: AsyncConnection, now_us: int, kind: str = TRANSCODE) -> bool:
    """Say whether there is a job that nobody holds; asks nothing of the write lock."""
    found = await connection.execute(select(jobs.c.id).where(_due(now_us, kind)).limit(1))
    return found.one_or_none() is not None


async def lease(
    connection: AsyncConnection,
    owner: str,
    now_us: int,
    kind: str = TRANSCODE,
    *,
    lease_us: int = LEASE_US,
    after: int = 0,
) -> HeldJob | None:
    """Take a job of a kind; None where there is none.

    It is the one that has waited longest of the next project after the one numbered `after`.
    `owner` must be a new random name for each lease, which lasts for `lease_us`. A job whose last
    worker let its lease run out counts that as a failure.
    """
    table = jobs.c
    chosen = (
        select(
            table.id, table.video_id, table.state, table.attempt, table.facts, videos.c.project_id
        )
        .join_from(jobs, videos)
        .where(_due(now_us, kind))
        .order_by(*project_order(after), table.run_after_us, table.id)
        .limit(1)
        .with_for_update(of=jobs, skip_locked=True)
    )
    row = (await connection.execute(chosen)).one_or_none()
    if row is None:
        return None
    failures = _failures(row.facts) + (row.state == _RUNNING)
    held = HeldJob(
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
        .where(table.id == row.id)
        .values(
            state=_RUNNING,
            owner=owner,
            attempt=held.attempt,
            leased_until_us=now_us + lease_us,
            facts=_facts(failures),
            updated_us=now_us,
        )
    )
    return held


async def extend(connection: AsyncConnection, held: HeldJob, now_us: int) -> None:
    """Extend a lease.

    Raises:
        JobLost: there is nothing to extend.
    """
    await _change(connection, held, now_us, leased_until_us=now_us + held.lease_us)


async def finish(connection: AsyncConnection, held: HeldJob, now_us: int) -> None:
    """End a job whose work is done.

    Raises:
        JobLost: it is not held any more: the transaction must change nothing else.
    """
    await _change(connection, held, now_us, state=_DONE, owner=None, leased_until_us=None)


async def fail(connection: AsyncConnection, held: HeldJob, now_us: int) -> None:
    """End a job that cannot succeed.

    Raises:
        JobLost: it is not held any more: the transaction must change nothing else.
    """
    await _change(connection, held, now_us, state=_FAILED, owner=None, leased_until_us=None)


async def retry(connection: AsyncConnection, held: HeldJob, now_us: int) -> None:
    """Queue a job again after a failure that was not the file's, later each time.

    Raises:
        JobLost: it is not held any more.
    """
    failures = held.failures + 1
    await _change(
        connection,
        held,
        now_us,
        state=_QUEUED,
        owner=None,
        leased_until_us=None,
        run_after_us=now_us + pause_us(failures),
        facts=_facts(failures),
    )


async def release(connection: AsyncConnection, held: HeldJob, now_us: int) -> None:
    """Queue a job again at once: its worker is asked to stop, which is nobody's failure.

    Raises:
        JobLost: it is not held any more.
    """
    await _change(connection, held, now_us, state=_QUEUED, owner=None, leased_until_us=None)


async def wait_for_spans(connection: AsyncConnection, held: HeldJob, now_us: int) -> None:
    """Give a job back that waits for its spans.

    Raises:
        JobLost: it is not held any more.
    """
    await _change(connection, held, now_us, state=_WAITING, owner=None, leased_until_us=None)


async def end_wait(connection: AsyncConnection, job: int, now_us: int) -> None:
    """Queue a job that waits for its spans: they are done. What failed before them is over."""
    await connection.execute(
        update(jobs)
        .where(jobs.c.id == job, jobs.c.state == _WAITING)
        .values(state=_QUEUED, run_after_us=now_us, facts=_NO_FACTS, updated_us=now_us)
    )


async def end(connection: AsyncConnection, job: int, now_us: int) -> bool:
    """End a job that cannot succeed, whoever holds it; False where it is over already."""
    changed = await connection.execute(
        update(jobs)
        .where(jobs.c.id == job, jobs.c.state.in_(OPEN))
        .values(state=_FAILED, owner=None, leased_until_us=None, updated_us=now_us)
    )
    return changed.rowcount == 1


async def _change(
    connection: AsyncConnection, held: HeldJob, now_us: int, **values: object
) -> None:
    table = jobs.c
    changed = await connection.execute(
        update(jobs)
        .where(
            table.id == held.id,
            table.owner == held.owner,
            table.attempt == held.attempt,
            table.state == _RUNNING,
        )
        .values(updated_us=now_us, **values)
    )
    if changed.rowcount != 1:
        raise JobLost(held)


def _due(now_us: int, kind: str) -> ColumnElement[bool]:
    return and_(jobs.c.kind == kind, is_leasable(jobs, now_us))


def is_leasable(of: Table, now_us: int) -> ColumnElement[bool]:
    """Say which rows of `jobs` or `spans` may be leased: nobody holds them, nor need they wait."""
    table = of.c
    late_us, endless_us = now_us + MAX_PAUSE_US, now_us + MAX_LEASE_US
    begins, ends = table.run_after_us, table.leased_until_us
    return or_(
        and_(table.state == _QUEUED, or_(begins <= now_us, begins > late_us)),
        and_(table.state == _RUNNING, or_(ends < now_us, ends > endless_us)),
    )


def project_order(after: int) -> tuple[ColumnElement[bool], ColumnElement[int]]:
    """Return the order of videos in which projects behind the one numbered `after` come first."""
    return videos.c.project_id <= after, videos.c.project_id


def _failures(facts: str) -> int:
    return msgspec.json.decode(facts, type=JobFacts).failures


def _facts(failures: int) -> str:
    return msgspec.json.encode(JobFacts(failures=failures)).decode()


class Jobs:
    """The jobs of an open catalog (`catalog.jobs`), each call in a transaction of its own.

    Every method raises `storage.errors.CatalogError` where the database does not answer.
    """

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
    ) -> HeldJob | None:
        """Take a job (see `lease`); looks before it asks for the write lock."""
        async with self._database.reading() as connection:
            if not await due(connection, now_us, kind):
                return None
        async with self._database.writing() as connection:
            return await lease(connection, owner, now_us, kind, lease_us=lease_us, after=after)

    async def has_due(self, now_us: int) -> bool:
        """Say whether there is a job that nobody holds."""
        async with self._database.reading() as connection:
            return await due(connection, now_us)

    async def extend(self, held: HeldJob, now_us: int) -> None:
        """Extend a lease (see `beat`)."""
        async with self._database.writing() as connection:
            await extend(connection, held, now_us)
