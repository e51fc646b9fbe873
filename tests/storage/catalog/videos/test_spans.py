"""Spans on the real databases: each is made by one worker at a time, and the last ends the wait."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import or_, select

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import Change
from storage.catalog.records.transcoding import MadeVideo, PlannedSpan
from storage.catalog.records.videos import VideoFile, VideoRecord
from storage.catalog.schema.tables import jobs as jobs_table
from storage.catalog.schema.upload_tables import spans as spans_table
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.leases import (
    LEASE_US,
    Lease,
    LeaseLost,
)
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
PLAN = tuple(PlannedSpan(number=n, cost=100 * n, order=f'"span {n}"') for n in (1, 2, 3))


@pytest.fixture
async def database(location: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    await catalog.installation.first_start(NOW)
    async with open_database(database_url(location), create=False) as opened:
        yield opened


async def planned(catalog: Catalog, project: int = 1) -> Lease:
    """Return a leased job whose spans have just been planned."""
    file = new_video()
    await catalog.videos.add(project, file, Change(NOW))
    job = await catalog.jobs.lease("job", NOW, TRANSCODE)
    assert job is not None
    await catalog.transcoding.begin(job, NOW)
    assert await catalog.spans.plan(job, PLAN, NOW)
    return job


async def leased(catalog: Catalog, owner: str, now_us: int = NOW) -> Lease:
    span = await catalog.jobs.lease(owner, now_us, SPAN)
    assert span is not None
    await catalog.spans.begin(span, now_us)
    return span


async def video_of(catalog: Catalog, job: Lease) -> VideoRecord:
    whole = await catalog.videos.find(job.subject)
    assert whole is not None
    return whole.video


async def test_spans_go_out_in_order_one_to_each_worker(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    spans = [await leased(catalog, f"worker {n}") for n in range(3)]
    made = [await catalog.spans.begin(each, NOW) for each in spans]
    assert [(each.part, each.attempt) for each in spans] == [(1, 1), (2, 1), (3, 1)]
    assert [each.cost for each in made] == [100, 200, 300]
    video = await video_of(catalog, job)
    first = spans[0]
    assert (first.job, first.subject, made[0].hash) == (job.id, job.subject, video.hash)
    assert (made[0].source, made[0].generation, made[0].order) == (
        f"sources/{video.hash}/1",
        1,
        '"span 1"',
    )
    assert await catalog.jobs.lease("a fourth", NOW + LEASE_US, SPAN) is None


async def test_a_plan_is_made_once(catalog: Catalog, database: Database) -> None:
    job = await planned(catalog)
    assert await catalog.spans.plan(job, PLAN[:1], NOW) is False
    assert await catalog.spans.outcomes(job) == (None,) * 4


@ON_BOTH
async def test_many_workers_at_once_take_each_span_once(
    location: str | Path, catalog: Catalog, database: Database
) -> None:
    for _ in range(4):
        await planned(catalog)

    async def work(name: int) -> list[tuple[int, int]]:
        order: list[tuple[int, int]] = []
        async with open_catalog(location, migrate=False) as own:
            while (
                leased_span := await own.jobs.lease(f"{name} {len(order)}", NOW, SPAN)
            ) is not None:
                order.append((leased_span.job, leased_span.part))
        return order

    async with asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(work(name)) for name in range(4)]
    leased_spans = [span for worker in workers for span in worker.result()]
    assert len(leased_spans) == len(set(leased_spans)) == 12


async def test_the_last_span_queues_the_job_that_waits(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    assert await catalog.spans.finish_original(job, '"own"', NOW) is False
    assert await catalog.jobs.lease("nobody", NOW + LEASE_US + 1, TRANSCODE) is None
    with pytest.raises(LeaseLost):
        await catalog.jobs.extend(job, NOW)
    for number in (1, 2, 3):
        assert await catalog.jobs.lease("nobody", NOW, TRANSCODE) is None
        span = await leased(catalog, f"worker {number}")
        await catalog.spans.finish(span, f'"made {number}"', NOW)
    again = await catalog.jobs.lease("join", NOW, TRANSCODE)
    assert again is not None
    assert (again.id, again.attempt, again.failures) == (job.id, 2, 0)
    results = ('"own"', '"made 1"', '"made 2"', '"made 3"')
    assert await catalog.spans.outcomes(again) == results


async def test_a_worker_that_makes_the_original_last_continues_at_once(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    for number in (1, 2, 3):
        await catalog.spans.finish(await leased(catalog, f"worker {number}"), "{}", NOW)
    assert await catalog.spans.finish_original(job, "{}", NOW) is True
    await catalog.jobs.extend(job, NOW)


@ON_BOTH
async def test_ends_that_come_at_once_queue_the_job_once(
    location: str | Path, catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    spans = [await leased(catalog, f"worker {n}") for n in range(3)]

    async def end(span: Lease | None) -> None:
        async with open_catalog(location, migrate=False) as own:
            if span is None:
                await own.spans.finish_original(job, "{}", NOW)
            else:
                await own.spans.finish(span, "{}", NOW)

    async with asyncio.TaskGroup() as tasks:
        for span in (*spans, None):
            tasks.create_task(end(span))
    again = await catalog.jobs.lease("join", NOW, TRANSCODE)
    if again is None:  # the job's own worker was the last, and continues
        await catalog.jobs.extend(job, NOW)
    else:
        assert again.id == job.id
        assert await catalog.jobs.lease("another", NOW, TRANSCODE) is None
    assert None not in await catalog.spans.outcomes(job)


@ON_BOTH
async def test_a_span_that_is_not_beaten_goes_to_another_and_is_lost_to_the_first(
    catalog: Catalog, database: Database
) -> None:
    await planned(catalog)
    first = await leased(catalog, "one")
    await catalog.jobs.extend(first, NOW + 10 * SECOND)
    later = NOW + 10 * SECOND + LEASE_US
    assert (await leased(catalog, "two", later)).part == 2
    again = await leased(catalog, "three", later + 1)
    assert (again.part, again.attempt, again.failures) == (1, 2, 1)
    for lost in (
        catalog.jobs.extend(first, later),
        catalog.spans.progress(first, 50, later),
        catalog.spans.finish(first, '"old"', later),
        catalog.jobs.requeue(first, later, failed=True),
        catalog.spans.fail(first, "late", later),
    ):
        with pytest.raises(LeaseLost):
            await lost
    await catalog.spans.finish(again, '"new"', later)


@ON_BOTH
async def test_a_lease_of_a_clock_that_was_set_back_holds_a_span_for_minutes_at_most(
    catalog: Catalog, database: Database
) -> None:
    await planned(catalog)
    first = await leased(catalog, "one", NOW + 86_400 * SECOND)
    again = await leased(catalog, "two")
    assert (again.id, again.attempt, again.failures) == (first.id, 2, 1)


@ON_BOTH
async def test_projects_take_turns(catalog: Catalog, database: Database) -> None:
    """A film of ten hours does not delay another project's."""
    other = (await catalog.projects.add("other", Change(NOW))).id
    theirs, ours = await planned(catalog), await planned(catalog, other)
    order: list[tuple[int, int]] = []
    after = 0
    for number in range(6):
        span = await catalog.jobs.lease(f"worker {number}", NOW, SPAN, after=after)
        assert span is not None
        after = span.project
        order.append((span.job, span.part))
    assert order == [(job, number) for number in (1, 2, 3) for job in (theirs.id, ours.id)]


async def test_a_span_that_failed_waits_and_one_that_is_given_back_does_not(
    catalog: Catalog, database: Database
) -> None:
    await planned(catalog)
    first = await leased(catalog, "one")
    await catalog.jobs.requeue(first, NOW, failed=True)
    assert (await leased(catalog, "two")).part == 2
    await catalog.jobs.requeue(await leased(catalog, "three"), NOW, failed=False)
    assert (await leased(catalog, "four")).part == 3
    assert await catalog.jobs.lease("five", NOW + SPAN.pause_us(1) - 1, SPAN) is None
    again = await leased(catalog, "six", NOW + SPAN.pause_us(1))
    assert (again.part, again.attempt, again.failures) == (1, 2, 1)


async def test_progress_weighs_by_cost_and_never_falls(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    first = await leased(catalog, "one")
    await catalog.spans.progress(first, 60, NOW + 30 * SECOND)
    video = await video_of(catalog, job)
    assert (video.progress, video.eta) == (10, 266), "the start of an engine, 0.6 s, apart"
    await catalog.spans.finish(first, "{}", NOW + 50 * SECOND)
    second = await leased(catalog, "two", NOW + 50 * SECOND)
    await catalog.spans.finish(second, "{}", NOW + 150 * SECOND)
    video = await video_of(catalog, job)
    assert (video.progress, video.eta) == (50, 149)
    third = await leased(catalog, "three", NOW + 150 * SECOND)
    await catalog.spans.progress(third, 150, NOW + 160 * SECOND)
    assert (await video_of(catalog, job)).progress == 75
    # Its worker dies: its progress is lost, but the progress shown does not fall.
    again = await leased(catalog, "four", NOW + 180 * SECOND)
    assert again.part == 3
    await catalog.spans.progress(again, 3, NOW + 181 * SECOND)
    assert (await video_of(catalog, job)).progress == 75
    await catalog.spans.finish(again, "{}", NOW + 200 * SECOND)
    video = await video_of(catalog, job)
    assert (video.progress, video.eta, video.state) == (99, 0, "transcoding")


async def test_a_span_that_cannot_be_made_ends_its_job(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    first, second = await leased(catalog, "one"), await leased(catalog, "two")
    left = await catalog.spans.fail(first, "It is damaged.", NOW)
    assert (left.media, left.posters, left.attempt) == (None, None, 1)
    status = await catalog.videos.find_status(job.subject)
    assert status is not None
    assert (status.state, status.reason) == ("failed", "It is damaged.")
    for lost in (catalog.jobs.extend(second, NOW), catalog.spans.finish(second, "{}", NOW)):
        with pytest.raises(LeaseLost):
            await lost
    with pytest.raises(LeaseLost):
        await catalog.spans.finish_original(job, "{}", NOW)
    assert await catalog.jobs.lease("nobody", NOW + 9 * LEASE_US, SPAN) is None


async def test_a_video_that_is_queued_again_begins_with_new_spans(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    await catalog.spans.fail(await leased(catalog, "one"), "It is damaged.", NOW)
    await catalog.videos.retry(job.subject, Change(NOW))
    assert await catalog.jobs.lease("nobody", NOW, SPAN) is None
    again = await catalog.jobs.lease("job", NOW, TRANSCODE)
    assert again is not None
    assert (again.id != job.id, again.attempt) == (True, 2)
    assert await catalog.spans.outcomes(again) == ()


async def test_spans_go_with_their_video(catalog: Catalog, database: Database) -> None:
    job = await planned(catalog)
    span = await leased(catalog, "one")
    await catalog.videos.remove(job.subject, Change(NOW))
    for lost in (catalog.jobs.extend(span, NOW), catalog.spans.finish(span, "{}", NOW)):
        with pytest.raises(LeaseLost):
            await lost
    assert await catalog.jobs.lease("two", NOW + 2 * LEASE_US, SPAN) is None


async def rows(database: Database) -> tuple[int, int]:
    """Return the number of jobs about videos, with their parts, and of spans."""
    about_videos = or_(jobs_table.c.video_id.is_not(None), jobs_table.c.job_id.is_not(None))
    queries = select(jobs_table.c.id).where(about_videos), select(spans_table.c.id)
    async with database.reading() as connection:
        jobs, spans = [len((await connection.execute(each)).all()) for each in queries]
    return jobs, spans


async def test_a_job_that_is_over_leaves_no_rows_and_its_attempts_count(
    catalog: Catalog, database: Database
) -> None:
    made_video = MadeVideo(
        media="1-1", size=1, length_us=1, rungs=(), posters=None, poster_labels=(), warnings=()
    )
    completed = await planned(catalog)
    assert await rows(database) == (4, 4), "a job with three parts"
    await catalog.transcoding.complete(completed, made_video, NOW)
    assert await rows(database) == (0, 0)
    failed = await planned(catalog)
    await catalog.transcoding.fail(failed, "The file is damaged.", NOW)
    assert await rows(database) == (0, 0)
    of_a_span = await planned(catalog)
    await catalog.spans.fail(await leased(catalog, "one"), "The file is damaged.", NOW)
    assert await rows(database) == (0, 0)
    for held, state in ((completed, "completed"), (failed, "failed"), (of_a_span, "failed")):
        status = await catalog.videos.find_status(held.subject)
        assert status is not None
        assert (status.state, status.attempt) == (state, 1)
        with pytest.raises(LeaseLost):
            await catalog.jobs.extend(held, NOW)
    await catalog.videos.retry(failed.subject, Change(NOW))
    again = await catalog.jobs.lease("again", NOW, TRANSCODE)
    assert again is not None
    assert (again.subject, again.attempt) == (failed.subject, 2)
    status = await catalog.videos.find_status(failed.subject)
    assert status is not None
    assert status.attempt == 2


async def test_another_file_takes_the_spans_of_the_old_one(
    catalog: Catalog, database: Database
) -> None:
    job = await planned(catalog)
    span = await leased(catalog, "one")
    other = VideoFile(source="other", size=1, length_us=1, width=1, height=1, rungs=())
    await catalog.videos.replace(job.subject, other, Change(NOW))
    assert await rows(database) == (1, 0)
    with pytest.raises(LeaseLost):
        await catalog.jobs.extend(span, NOW)


OLD_SPAN = (
    "INSERT INTO spans (job_id, project_id, number, state, attempt, failures, owner,"
    " leased_until_us, run_after_us, cost, done, facts, created_us, updated_us)"
    " VALUES ({job}, 1, {number}, '{state}', {attempt}, {failures}, {owner}, {until}, {after},"
    " 1, 0, '\"old {number}\"', 1, 1)"
)


def queue_as_before(location: str | Path, job: Lease) -> None:
    """Queue spans as versions before 0.3 did: done, failed once, leased, and not begun yet."""
    old = partial(OLD_SPAN.format, job=job.id)
    idle = {"owner": "NULL", "until": "NULL", "after": NOW}
    run_sql(
        location,
        old(number=0, state="done", attempt=1, failures=0, **idle),
        old(number=1, state="done", attempt=1, failures=0, **idle),
        old(number=2, state="queued", attempt=1, failures=1, **idle | {"after": NOW + SECOND}),
        old(
            number=3, state="running", attempt=2, failures=1, owner="'dead'", until=NOW + SECOND,
            after=NOW,
        ),
        old(number=4, state="queued", attempt=0, failures=0, **idle),
        f"UPDATE jobs SET state = 'waiting', owner = NULL WHERE id = {job.id}",
    )  # fmt: skip


@ON_BOTH
async def test_spans_of_an_older_version_are_adopted_as_they_are_and_in_their_order(
    location: str | Path, catalog: Catalog, database: Database
) -> None:
    await catalog.videos.add(1, new_video(), Change(NOW))
    job = await catalog.jobs.lease("old", NOW, TRANSCODE)
    assert job is not None
    queue_as_before(location, job)
    newer = await planned(catalog)
    assert await catalog.spans.adopt(NOW)
    assert not await catalog.spans.adopt(NOW), "one is leased, by a worker that may go on"
    first = await leased(catalog, "one")
    assert (first.job, first.part, first.attempt, first.failures) == (job.id, 4, 1, 0)
    assert (await catalog.spans.begin(first, NOW)).order == '"old 4"'
    later = NOW + 2 * SECOND
    assert await catalog.spans.adopt(later)
    waited, left = [await leased(catalog, name, later) for name in ("two", "three")]
    assert (waited.job, waited.part, waited.attempt, waited.failures) == (job.id, 2, 2, 1)
    assert (left.job, left.part, left.attempt, left.failures) == (job.id, 3, 3, 2)
    assert (await leased(catalog, "four", later)).job == newer.id
    for span in (first, waited, left):
        await catalog.spans.finish(span, "{}", later)
    again = await catalog.jobs.lease("join", later, TRANSCODE)
    assert again is not None
    assert (again.id, again.attempt) == (job.id, 2)


@ON_BOTH
async def test_an_older_process_ends_what_it_has_leased_beside_a_newer_one(
    location: str | Path, catalog: Catalog, database: Database
) -> None:
    """The last span is done by the newer one, which counts those of the older one."""
    await catalog.videos.add(1, new_video(), Change(NOW))
    job = await catalog.jobs.lease("old", NOW, TRANSCODE)
    assert job is not None
    queue_as_before(location, job)
    assert await catalog.spans.adopt(NOW)
    spans = [await leased(catalog, name, NOW + SECOND) for name in ("one", "two")]
    await catalog.spans.finish(spans[0], "{}", NOW)
    assert await catalog.jobs.lease("join", NOW, TRANSCODE) is None
    run_sql(location, f"UPDATE spans SET state = 'done' WHERE job_id = {job.id} AND number = 3")
    await catalog.spans.finish(spans[1], "{}", NOW)
    assert await catalog.jobs.lease("join", NOW, TRANSCODE) is not None
