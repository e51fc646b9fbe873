"""Leases of jobs and spans: the order of projects, and the effect of a slow disk."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.records.common import Change
from storage.catalog.records.transcoding import PlannedSpan
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.catalog.videos.spans import Spans
from storage.leases import Lease, LeaseLost
from storage.objects.disk import DiskObjects
from tests.support.transcode.spanned_asset import film_with_own_packets, is_whole
from tests.support.transcode.transcode_fixture import VodFixture, now_us, transcode_context
from tests.support.waiting import until
from transcode.vod.job import VideoJob, VideoTranscoder

PATIENCE = 60.0
# A third of it is a beat, which a busy machine must not miss.
LEASE_US = round(2_500_000 * float(os.environ.get("HEADEND_TEST_SCALE", "1")))


class SlowDisk(DiskObjects):
    """A disk that blocks listing and removing until `let` is set."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, reserve_bytes=0)
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def addresses(self, prefix: str) -> list[str]:
        await self._wait()
        return await super().addresses(prefix)

    async def delete_tree(self, prefix: str) -> None:
        await self._wait()
        await super().delete_tree(prefix)

    async def _wait(self) -> None:
        self.asked.set()
        await self.let.wait()


@asynccontextmanager
async def slow(vod: VodFixture, folder: Path) -> AsyncGenerator[tuple[SlowDisk, VideoTranscoder]]:
    """A transcoder with short leases over a slow disk."""
    disk = SlowDisk(folder / "data" / "objects")
    with disk:
        catalog = vod.catalog
        yield (
            disk,
            VideoTranscoder(replace(transcode_context(catalog, disk), lease_us=LEASE_US)),
        )


def leased_until(folder: Path) -> Callable[[], int]:
    """Return a function that reads when the lease of the only job ends."""

    def ask() -> int:
        with sqlite3.connect(folder / "data" / "catalog.sqlite") as database:
            ((leased_until_us,),) = database.execute(
                "SELECT coalesce(leased_until_us, 0) FROM jobs"
            )
        return int(leased_until_us)

    return ask


def later_than(ends: Callable[[], int], before: int) -> Callable[[], Awaitable[bool]]:
    async def is_later() -> bool:
        return ends() > before

    return is_later


async def test_a_lease_is_held_while_leftovers_are_searched(
    vod: VodFixture, tmp_path: Path
) -> None:
    """A killed worker left thousands of segments, and the disk is slow."""
    (tmp_path / "a.mp4").write_text("no film")
    video = (await vod.add(tmp_path / "a.mp4")).video.id
    ends = leased_until(tmp_path)
    async with slow(vod, tmp_path) as (disk, transcoder), asyncio.TaskGroup() as tasks:
        job = await transcoder.lease("one")
        assert job is not None and job.kind == TRANSCODE
        working = tasks.create_task(transcoder.do(job))
        async with asyncio.timeout(PATIENCE):
            await disk.asked.wait()
        await until(later_than(ends, ends()), within=PATIENCE)
        disk.let.set()
        await working
    status = await vod.status(video)
    assert (status.state, status.attempt) == ("failed", 1)


async def test_what_became_of_a_job_is_written_before_a_slow_disk_is_cleared(
    vod: VodFixture, tmp_path: Path
) -> None:
    """Otherwise its lease would expire, and another worker would repeat the job."""
    (tmp_path / "a.mp4").write_text("no film")
    whole = await vod.add(tmp_path / "a.mp4")
    async with slow(vod, tmp_path) as (disk, transcoder), asyncio.TaskGroup() as tasks:
        job = await transcoder.lease("one")
        assert job is not None and job.kind == TRANSCODE
        disk.let.set()
        await vod.catalog.transcoding.begin(job, now_us())
        await vod.objects.put(f"videos/{whole.video.hash}/1-1/audio/0.m4s", b"x")
        working = tasks.create_task(transcoder.do(job))
        # Leftovers are searched first, and not again until the end.
        async with asyncio.timeout(PATIENCE):
            await disk.asked.wait()
        disk.asked.clear()
        disk.let.clear()

        async def is_over() -> bool:
            return (await vod.status(whole.video.id)).state == "failed"

        await until(is_over, within=PATIENCE)
        disk.let.set()
        await working
    assert await vod.stored_objects(whole.video.hash) == []


async def test_a_film_progresses_however_many_files_arrive(vod: VodFixture, tmp_path: Path) -> None:
    """Work that makes another film playable comes first, but the rest of this film follows."""
    (tmp_path / "a.mp4").write_text("no film")
    await vod.add(tmp_path / "a.mp4")
    first = await vod.transcoder.lease("first")
    assert first is not None and first.kind == TRANSCODE
    spans = [PlannedSpan(number=number, cost=1, order="{}") for number in (1, 2)]
    assert await vod.catalog.spans.plan(first, spans, now_us())
    for _ in range(8):
        await vod.add(tmp_path / "a.mp4")
    jobs = [await vod.transcoder.lease(f"worker {number}") for number in range(11)]
    assert [each and each.kind for each in jobs] == [
        *(TRANSCODE, TRANSCODE, SPAN),
        *(TRANSCODE, TRANSCODE, TRANSCODE, SPAN),
        *(TRANSCODE, TRANSCODE, TRANSCODE, None),
    ]


async def test_projects_take_turns_in_jobs_and_in_stretches(
    vod: VodFixture, tmp_path: Path
) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    other = (await vod.catalog.projects.add("other", Change(now_us()))).id
    films = [await vod.add(tmp_path / "a.mp4") for _ in range(4)]
    films += [await vod.add(tmp_path / "a.mp4", project=other) for _ in range(2)]
    jobs = [await vod.transcoder.lease(f"worker {number}") for number in range(6)]
    assert [job.subject for job in jobs if job is not None and job.kind == TRANSCODE] == [
        films[number].video.id for number in (0, 4, 1, 5, 2, 3)
    ]
    spans = [PlannedSpan(number=number, cost=1, order="{}") for number in (1, 2)]
    for job in jobs[:2]:
        assert job is not None and job.kind == TRANSCODE
        assert await vod.catalog.spans.plan(job, spans, now_us())
    leased_jobs = [await vod.transcoder.lease(f"maker {number}") for number in range(4)]
    assert [span.project for span in leased_jobs if span is not None and span.kind == SPAN] == [
        1,
        other,
        1,
        other,
    ]


async def test_a_worker_that_slept_takes_nothing_of_a_video_that_others_completed(
    vod: VodFixture, tmp_path: Path
) -> None:
    """Its media belong to the video by then, and the rows of the job have been removed."""
    whole = await vod.add(film_with_own_packets(tmp_path))
    job = await vod.lease()
    work = await vod.catalog.transcoding.begin(job, now_us())
    asleep = VideoJob(vod.context, work, job)
    assert await asleep.make() is None  # it sleeps from here on, with its spans planned
    while (span := await vod.transcoder.lease("another")) is not None:
        await vod.transcoder.do(span)
    before = await vod.stored_objects(whole.video.hash)
    assert (await vod.status(whole.video.id)).state == "completed"
    with pytest.raises(LeaseLost):
        await asleep.extend_lease()
    await asleep.discard()
    assert await vod.stored_objects(whole.video.hash) == before
    with pytest.raises(LeaseLost):
        await VideoJob(vod.context, work, job).make()
    assert await vod.stored_objects(whole.video.hash) == before
    assert await is_whole(vod, await vod.whole_video(whole.video.id))


class SlowSpans(Spans):
    """Spans whose outcomes are read once `resumed` is set: a worker that sleeps before it reads."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asleep = asyncio.Event()
        self.resumed = asyncio.Event()

    async def outcomes(self, job: Lease) -> tuple[str | None, ...]:
        self.asleep.set()
        await self.resumed.wait()
        return await super().outcomes(job)


async def test_a_worker_that_sleeps_before_it_cleans_up_removes_nothing_of_a_completed_video(
    vod: VodFixture, tmp_path: Path
) -> None:
    """The rows of a job that is over are gone, as if no attempt had made anything yet."""
    whole = await vod.add(film_with_own_packets(tmp_path))
    while (held := await vod.transcoder.lease("first")) is None or held.part or held.attempt == 1:
        assert held is not None
        await vod.transcoder.do(held)
    work = await vod.catalog.transcoding.begin(held, now_us())
    url = database_url(tmp_path / "data" / "catalog.sqlite")
    async with open_database(url, create=False) as database, asyncio.TaskGroup() as tasks:
        spans = SlowSpans(database)
        context = replace(vod.context, spans=spans)
        sleeper = VideoJob(context, work, held)

        async def wake_up_without_the_job() -> None:
            with pytest.raises(LeaseLost):
                await sleeper.make()

        tasks.create_task(wake_up_without_the_job())
        async with asyncio.timeout(PATIENCE):
            await spans.asleep.wait()
        await vod.transcoder.do(await vod.lease(later_us=2 * held.lease_us))
        before = await vod.stored_objects(whole.video.hash)
        assert (await vod.status(whole.video.id)).state == "completed"
        spans.resumed.set()
    assert await vod.stored_objects(whole.video.hash) == before
