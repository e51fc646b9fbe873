"""The work of all projects, asked of both databases."""

from pathlib import Path

from storage.catalog import Catalog
from storage.catalog.maintenance.workload import JobCount
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.videos.jobs import TRANSCODE
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.storage.leases import queue_errand

# The same statements on both: what differs between them has tests of its own.


async def test_a_new_catalog_has_no_work(catalog: Catalog, project: ProjectRecord) -> None:
    workload = await catalog.workload.find(10)
    assert (workload.counts, workload.jobs, workload.live_streams) == ((), (), 0)


async def test_what_runs_comes_first_and_all_is_counted(
    catalog: Catalog, project: ProjectRecord
) -> None:
    videos = [(await add(catalog, project, title=f"Film {number}")).video for number in range(4)]
    job = await catalog.jobs.lease("me", NOW_US, TRANSCODE, after=0)
    assert job is not None
    workload = await catalog.workload.find(2)
    assert workload.counts == (
        JobCount(kind="transcode", state="queued", number=3),
        JobCount(kind="transcode", state="running", number=1),
    )
    first, second = workload.jobs
    assert (first.state, first.video, first.attempt) == ("running", job.subject, 1)
    waiting = [each.id for each in videos if each.id != job.subject]
    assert (second.state, second.video) == ("queued", waiting[0])
    assert second.title == f"Film {[each.id for each in videos].index(second.video)}"
    assert second.project == project.key


async def test_the_work_of_a_deleted_project_is_not_shown(
    catalog: Catalog, project: ProjectRecord
) -> None:
    other = await catalog.projects.add("Other", Change(NOW_US))
    await add(catalog, other)
    assert len((await catalog.workload.find(10)).jobs) == 1
    assert await catalog.projects.remove(other.id, Change(NOW_US))
    workload = await catalog.workload.find(10)
    assert (workload.counts, workload.jobs) == ((), ())


async def test_work_about_a_project_alone_is_shown_too(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    queue_errand(location, project.id)
    workload = await catalog.workload.find(10)
    assert workload.counts == (JobCount(kind="errand", state="queued", number=1),)
    (job,) = workload.jobs
    assert (job.project, job.video, job.title, job.progress, job.eta) == (project.key, 0, "", 0, 0)
