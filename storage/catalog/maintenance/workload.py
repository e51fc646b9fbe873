"""The work of all projects, counted and listed for an operator (`catalog.workload`)."""

from typing import Final

import msgspec
from sqlalchemy import case, func, select

from storage.catalog.engine.database import Repository
from storage.catalog.queries import project_lookup
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.schema.tables import jobs, projects, streams, videos

_RUNNING: Final = "running"


class JobCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a kind are in a state: queued, running, or waiting for their spans."""

    kind: str
    state: str
    number: int


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the project with the key `project`, with its video; 0 and no title if it has none.

    `progress` is in percent, `eta` in seconds (0: unknown), `attempt` 0 where none began.
    """

    id: int
    kind: str
    state: str
    attempt: int
    video: int
    title: str
    project: str
    progress: int
    eta: int
    created_us: int


class WorkloadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs counted, and the first of them; how many streams are live."""

    counts: tuple[JobCount, ...]
    jobs: tuple[ListedJob, ...]
    live_streams: int


_JOBS: Final = RowReader(
    ListedJob,
    jobs,
    video=func.coalesce(jobs.c.video_id, 0),
    title=func.coalesce(videos.c.title, videos.c.file_title, ""),
    project=projects.c.key,
    progress=func.coalesce(videos.c.progress, 0),
    eta=func.coalesce(videos.c.eta, 0),
)


class Workload(Repository):
    """Reads the work of a catalog; it changes nothing."""

    async def find(self, most: int) -> WorkloadRecord:
        """Return the work of projects that are not being deleted.

        At most `most` jobs are listed: running ones come first, then the oldest.
        """
        counted = project_lookup.is_of_present(jobs.c.project_id), jobs.c.job_id.is_(None)
        number = func.count()
        count_query = (
            select(jobs.c.kind, jobs.c.state, number)
            .where(*counted)
            .group_by(jobs.c.kind, jobs.c.state)
            .order_by(jobs.c.kind, jobs.c.state)
        )
        list_query = (
            select(*_JOBS.columns)
            .outerjoin_from(jobs, videos, videos.c.id == jobs.c.video_id)
            .join(projects, projects.c.id == jobs.c.project_id)
            .where(*counted)
            .order_by(case((jobs.c.state == _RUNNING, 0), else_=1), jobs.c.id)
            .limit(most)
        )
        live_streams = select(number).where(streams.c.live)
        async with self._database.reading() as connection:
            counts = (await connection.execute(count_query)).all()
            listed = await _JOBS.find_all(connection, list_query)
            live = (await connection.execute(live_streams)).scalar_one()
        return WorkloadRecord(
            counts=tuple(JobCount(kind=kind, state=state, number=n) for kind, state, n in counts),
            jobs=listed,
            live_streams=live,
        )
