"""Jobs on the real databases: one worker at a time has each, and each is done in the end."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.jobs import jobs as work
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import LEASE_US, MAX_LEASE_US, Lease, LeaseLost
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.leases import ERRAND
from tests.support.storage.new_videos import new_video

NOW = 1_800_000_000_000_000
SECOND = 1_000_000


@pytest.fixture
async def database(location: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    """The same database, for statements in the test's own transaction."""
    await catalog.installation.first_start(NOW)
    async with open_database(database_url(location), create=False) as opened:
        yield opened


async def queued(catalog: Catalog, project: int = 1) -> int:
    """Add a video, which queues a job; return the video's number."""
    file = new_video()
    return (await catalog.videos.add(project, file, Change(NOW))).video.id


async def leased(catalog: Catalog, owner: str, now_us: int = NOW) -> Lease:
    job = await catalog.jobs.lease(owner, now_us, TRANSCODE)
    assert job is not None
    return job


@ON_BOTH
async def test_a_job_goes_to_one_worker_only(catalog: Catalog, database: Database) -> None:
    video = await queued(catalog)
    job = await leased(catalog, "one")
    assert (job.subject, job.attempt, job.failures) == (video, 1, 0)
    assert await catalog.jobs.lease("two", NOW + LEASE_US, TRANSCODE) is None


async def test_jobs_are_taken_in_the_order_in_which_they_came(
    catalog: Catalog, database: Database
) -> None:
    videos = [await queued(catalog) for _ in range(3)]
    assert [(await leased(catalog, f"worker {n}")).subject for n in range(3)] == videos


@ON_BOTH
async def test_jobs_that_are_passed_over_stay_for_others(
    catalog: Catalog, database: Database
) -> None:
    videos = [await queued(catalog) for _ in range(3)]
    first = await leased(catalog, "one")
    async with database.writing() as connection:
        await work.requeue(connection, first, NOW, failed=False)
    job = await catalog.jobs.lease("two", NOW, TRANSCODE, passed_over={first.id})
    assert job is not None
    assert job.subject == videos[1]
    assert (
        await catalog.jobs.lease("three", NOW, TRANSCODE, passed_over={first.id, first.id + 2})
        is None
    )
    assert (await leased(catalog, "four")).subject == videos[0]


@ON_BOTH
async def test_many_workers_at_once_take_each_job_once(
    location: str | Path, catalog: Catalog, database: Database
) -> None:
    videos = [await queued(catalog) for _ in range(12)]

    async def work(name: int) -> list[int]:
        order: list[int] = []
        async with open_catalog(location, migrate=False) as own:
            while (job := await own.jobs.lease(f"{name} {len(order)}", NOW, TRANSCODE)) is not None:
                order.append(job.subject)
        return order

    async with asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(work(name)) for name in range(4)]
    assert sorted(video for worker in workers for video in worker.result()) == videos


async def test_a_beat_keeps_a_job_beyond_its_lease(catalog: Catalog, database: Database) -> None:
    await queued(catalog)
    job = await leased(catalog, "one")
    await catalog.jobs.extend(job, NOW + LEASE_US)
    assert await catalog.jobs.lease("two", NOW + 2 * LEASE_US, TRANSCODE) is None
    assert await catalog.jobs.lease("two", NOW + 2 * LEASE_US + 1, TRANSCODE) is not None


async def test_a_worker_that_lost_a_job_changes_nothing(
    catalog: Catalog, database: Database
) -> None:
    await queued(catalog)
    asleep = await leased(catalog, "one")
    awake = await leased(catalog, "two", NOW + LEASE_US + 1)
    assert (awake.attempt, awake.failures) == (2, 1)
    failed, stopped = partial(work.requeue, failed=True), partial(work.requeue, failed=False)
    for change in (work.extend, failed, stopped):
        with pytest.raises(LeaseLost):
            async with database.writing() as connection:
                await change(connection, asleep, NOW + LEASE_US + 2)
    with pytest.raises(LeaseLost):
        async with database.writing() as connection:
            await work.finish(connection, asleep)
    async with database.writing() as connection:
        await work.finish(connection, awake)


async def test_an_expired_lease_is_no_loss_until_another_worker_takes_the_job(
    catalog: Catalog, database: Database
) -> None:
    await queued(catalog)
    job = await leased(catalog, "one")
    await catalog.jobs.extend(job, NOW + 3 * LEASE_US)
    assert await catalog.jobs.lease("two", NOW + 3 * LEASE_US, TRANSCODE) is None


async def test_workers_that_die_leave_a_job_that_is_spent_at_last(
    catalog: Catalog, database: Database
) -> None:
    await queued(catalog)
    now = NOW
    for failures in range(3):
        job = await leased(catalog, f"worker {failures}", now)
        assert (job.failures, job.spent) == (failures, False)
        now += LEASE_US + 1
    assert (await leased(catalog, "the last", now)).spent


async def test_a_retry_waits_and_counts(catalog: Catalog, database: Database) -> None:
    await queued(catalog)
    job = await leased(catalog, "one")
    async with database.writing() as connection:
        await work.requeue(connection, job, NOW, failed=True)
    assert await catalog.jobs.lease("two", NOW + TRANSCODE.pause_us(1) - 1, TRANSCODE) is None
    again = await leased(catalog, "two", NOW + TRANSCODE.pause_us(1))
    assert (again.attempt, again.failures) == (2, 1)


@ON_BOTH
async def test_a_job_waits_for_no_clock_that_was_set_back(
    catalog: Catalog, database: Database
) -> None:
    await queued(catalog)
    hour = 3600 * SECOND
    job = await leased(catalog, "one", NOW - hour)
    async with database.writing() as connection:
        await work.requeue(connection, job, NOW - hour, failed=False)
    again = await leased(catalog, "two", NOW - hour)
    async with database.writing() as connection:
        await work.requeue(connection, again, NOW - hour, failed=True)
    assert await catalog.jobs.lease("three", NOW - hour, TRANSCODE) is None


async def test_a_lease_of_a_clock_that_was_set_back_holds_a_job_for_minutes_at_most(
    catalog: Catalog, database: Database
) -> None:
    """The worker died; by its clock the lease would have lasted another day."""
    await queued(catalog)
    await leased(catalog, "one", NOW + 86_400 * SECOND)
    again = await leased(catalog, "two")
    assert (again.attempt, again.failures) == (2, 1)
    # The longest lease that can be configured is respected.
    long = await catalog.jobs.lease("three", NOW + LEASE_US + 1, TRANSCODE, lease_us=MAX_LEASE_US)
    assert long is not None
    assert await catalog.jobs.lease("four", NOW + LEASE_US + 1, TRANSCODE) is None


@ON_BOTH
async def test_projects_take_turns(catalog: Catalog, database: Database) -> None:
    """A thousand files of one project do not delay those of another."""
    other = (await catalog.projects.add("other", Change(NOW))).id
    theirs = [await queued(catalog) for _ in range(5)]
    ours = [await queued(catalog, other) for _ in range(2)]
    order: list[int] = []
    after = 0
    for number in range(7):
        job = await catalog.jobs.lease(f"worker {number}", NOW, TRANSCODE, after=after)
        assert job is not None
        after = job.project
        order.append(job.subject)
    assert order == [theirs[0], ours[0], theirs[1], ours[1], *theirs[2:]]


async def test_a_job_that_is_given_back_is_due_at_once_and_no_failure(
    catalog: Catalog, database: Database
) -> None:
    await queued(catalog)
    job = await leased(catalog, "one")
    async with database.writing() as connection:
        await work.requeue(connection, job, NOW, failed=False)
    again = await leased(catalog, "two")
    assert (again.attempt, again.failures) == (2, 0)


@ON_BOTH
async def test_the_job_of_a_video_that_is_deleted_is_lost(
    catalog: Catalog, database: Database
) -> None:
    video = await queued(catalog)
    job = await leased(catalog, "one")
    await catalog.videos.remove(video, Change(NOW))
    with pytest.raises(LeaseLost):
        await catalog.jobs.extend(job, NOW)


@ON_BOTH
async def test_work_about_a_project_alone_waits_as_its_kind_says(
    catalog: Catalog, database: Database
) -> None:
    async with database.writing() as connection:
        await work.add(connection, ERRAND, 1, NOW, [{"payload": "say hello"}])
    assert await catalog.jobs.lease("another", NOW, TRANSCODE) is None
    now = NOW
    for failures in range(ERRAND.most_failures):
        job = await catalog.jobs.lease("one", now, ERRAND)
        assert job is not None
        assert (job.subject, job.project, job.payload) == (1, 1, "say hello")
        assert (job.failures, job.spent) == (failures, False)
        await catalog.jobs.requeue(job, now, failed=True)
        now += ERRAND.pause_us(failures + 1)
        assert not await catalog.jobs.has_due(now - 1, ERRAND)
    last = await catalog.jobs.lease("two", now, ERRAND)
    assert last is not None
    assert last.spent
    await catalog.jobs.finish(last)
    with pytest.raises(LeaseLost):
        await catalog.jobs.finish(last)
    assert not await catalog.jobs.has_due(2 * now, ERRAND)
