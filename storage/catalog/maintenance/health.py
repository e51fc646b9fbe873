"""Checks of a catalog (`catalog.health`): damage, stuck jobs, times ahead of the clock.

Nothing is changed.
"""

from typing import Final

import msgspec
from sqlalchemy import BigInteger, func, or_, select, text

from media.ticks import MICROSECONDS
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.migrations import find_revision, finishing
from storage.catalog.queries import named_rows, project_lookup
from storage.catalog.schema.tables import METADATA, events, jobs, projects, streams, videos
from storage.catalog.schema.upload_tables import spans
from storage.catalog.streams.settings import project_slate, stream_slate

# A worker that has nothing else to do leases a job within seconds once its lease is over.
_ABANDONED_US: Final = 600 * MICROSECONDS
_QUEUED, _RUNNING, _WAITING = "queued", "running", "waiting"
_MOST_WIDE: Final = (1 << 63) - 1
# A sequence may be wider than the column that it gives numbers to.
_SEQUENCES: Final = text("""
    SELECT relname, coalesce(pg_sequence_last_value(seqrelid), 0),
        CASE atttypid WHEN 'bigint'::regtype THEN seqmax ELSE least(seqmax, 2147483647) END
    FROM pg_sequence
    JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = seqrelid AND deptype = 'a'
    JOIN pg_class ON pg_class.oid = refobjid
    JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    WHERE relnamespace = current_schema()::regnamespace""")
# The first few show what is to be done.
_MOST: Final = 20


class StuckJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that does not continue by itself; `path` is its video's, or else its project's."""

    job: int
    kind: str
    path: str
    state: str


class HealthChecks(Repository):
    """Reads what shows whether a catalog is healthy; each method is one transaction."""

    async def versions(self) -> tuple[str, str]:
        """Return the database's name with its version, and the revision of the tables."""
        async with self._database.reading_all() as connection:
            if connection.dialect.name == "sqlite":
                query = text("SELECT 'SQLite ' || sqlite_version()")
            else:
                query = text("SELECT 'PostgreSQL ' || current_setting('server_version')")
            name = str((await connection.execute(query)).scalar_one())
            return name, await connection.run_sync(find_revision) or ""

    async def find_damage(self) -> tuple[str, ...]:
        """Return what is broken in a file of SQLite; PostgreSQL checks its own pages."""
        damage: list[str] = []
        async with self._database.reading_all() as connection:
            if connection.dialect.name != "sqlite":
                return ()
            check = await connection.execute(text(f"PRAGMA quick_check({_MOST})"))
            damage += [str(line) for line in check.scalars() if line != "ok"]
            dangling = await connection.execute(text("PRAGMA foreign_key_check"))
            damage += [
                f"a row of {row[0]} refers to none of {row[2]}" for row in dangling.fetchmany(_MOST)
            ]
        return tuple(damage)

    async def find_stuck_jobs(self, now_us: int) -> tuple[StuckJob, ...]:
        """Return due jobs that no worker works on, and jobs that wait without an open span.

        While some worker is at work, due jobs do not count: they are in its queue.
        """
        table = jobs.c
        old_us = now_us - _ABANDONED_US
        open_spans = select(spans.c.id).where(
            spans.c.job_id == table.id, spans.c.state.in_((_QUEUED, _RUNNING, "offered"))
        )
        vain = (table.state == _WAITING) & (table.updated_us < old_us) & ~open_spans.exists()
        idle = or_(
            (table.state == _QUEUED) & (table.run_after_us < old_us),
            (table.state == _RUNNING) & (table.leased_until_us < old_us),
            (table.state == _WAITING) & (table.updated_us < old_us),
        )
        path = func.coalesce("videos/" + videos.c.hash, "projects/" + projects.c.key)
        query = (
            select(table.id, table.kind, path, table.state)
            .outerjoin_from(jobs, projects, projects.c.id == table.project_id)
            .outerjoin(videos, videos.c.id == table.video_id)
            .where(table.job_id.is_(None))
        )
        async with self._database.reading_all() as connection:
            at_work = await _is_at_work(connection, old_us)
            rows = await connection.execute(
                query.where(vain if at_work else idle).order_by(table.id).limit(_MOST)
            )
            return tuple(
                StuckJob(job=job, kind=kind, path=path, state=state)
                for job, kind, path, state in rows
            )

    async def is_at_work(self, now_us: int) -> bool:
        """Return whether some worker has leased a job or a span of one."""
        async with self._database.reading_all() as connection:
            return await _is_at_work(connection, now_us)

    async def find_newest_us(self) -> int:
        """Return the latest time that was recorded as past; 0 for none.

        It is ahead of the clock if this clock is late, or if another process's is ahead.
        """
        queries = (
            select(events.c.created_us).order_by(events.c.id.desc()).limit(1),
            select(videos.c.created_us).order_by(videos.c.id.desc()).limit(1),
            select(func.max(jobs.c.updated_us)).where(jobs.c.state == _RUNNING),
        )
        async with self._database.reading_all() as connection:
            times = [(await connection.execute(each)).scalar_one_or_none() for each in queries]
        return max((each for each in times if each is not None), default=0)

    async def find_far_numbers(self) -> tuple[str, ...]:
        """Return the tables of whose numbers at least half were given."""
        async with self._database.reading_all() as connection:
            if connection.dialect.name == "sqlite":
                # Numbers of other columns are looked up with 31 bits on every database.
                given = await connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
                rows = [(name, last, _most_numbers(name)) for name, last in given]
            else:
                rows = [(*row,) for row in await connection.execute(_SEQUENCES)]
        return tuple(sorted(name for name, last, most in rows if last > most // 2))

    async def find_unfinished(self) -> tuple[str, ...]:
        """Return which indexes and columns a migration has still to bring to their form."""
        async with self._database.reading_all() as connection:
            return await connection.run_sync(finishing.find_unfinished)

    async def is_any_restricted(self) -> bool:
        """Return whether a stream or a video plays in some countries only."""
        async with self._database.reading_all() as connection:
            for table in (streams, videos):
                query = select(table.c.id).where(
                    table.c.countries != "", project_lookup.is_of_present(table.c.project_id)
                )
                if (await connection.execute(query.limit(1))).first() is not None:
                    return True
        return False

    async def find_slates(self) -> tuple[str, ...]:
        """Return the addresses of all slate pictures, of streams and of projects."""
        async with self._database.reading_all() as connection:
            is_present = project_lookup.is_of_present(streams.c.project_id)
            of_streams = select(streams.c.hash, streams.c.slate).where(
                streams.c.slate.is_not(None), is_present
            )
            addresses = [stream_slate(*row) for row in await connection.execute(of_streams)]
            of_projects = select(projects.c.key, projects.c.slate).where(
                projects.c.slate.is_not(None), project_lookup.IS_PRESENT
            )
            addresses += [project_slate(*row) for row in await connection.execute(of_projects)]
        return tuple(address for address in addresses if address is not None)


def _most_numbers(name: str) -> int:
    """Return the largest number that the rows of a table may have on SQLite."""
    table = METADATA.tables.get(name)
    is_wide = table is None or isinstance(table.c.id.type, BigInteger)
    return _MOST_WIDE if is_wide else named_rows.MAX_ID


async def _is_at_work(connection: AsyncConnection, since_us: int) -> bool:
    """Return whether some worker has leased anything until `since_us` or later."""
    leased = select(func.count()).where(
        jobs.c.state == _RUNNING, jobs.c.leased_until_us >= since_us
    )
    return bool((await connection.execute(leased)).scalar_one())
