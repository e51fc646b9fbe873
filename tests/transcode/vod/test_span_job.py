"""Films encoded in spans by several workers: each plays whole, and every part is made once."""

import asyncio
import contextlib
import secrets
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.leases import LEASE_US, Lease, LeaseLost
from storage.workers.worker_pool import WorkerPool
from tests.support.shared_engines import mostly_on
from tests.support.transcode.spanned_asset import (
    film_with_own_packets,
    film_with_sparse_keyframes,
    is_whole,
)
from tests.support.transcode.transcode_fixture import VodFixture, now_us, vod_fixture
from tests.support.waiting import until

PATIENCE = 120.0


@pytest.fixture(scope="module")
def own_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_own_packets(tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="module")
def sparse_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_sparse_keyframes(tmp_path_factory.mktemp("films"))


@pytest.fixture
async def both(tmp_path: Path, either_database: str | Path) -> AsyncGenerator[VodFixture]:
    async with vod_fixture(tmp_path / "data", location=either_database) as opened:
        yield opened


async def lease(vod: VodFixture, later_us: int = 0) -> Lease | None:
    job = await vod.catalog.jobs.lease(secrets.token_hex(8), now_us() + later_us, TRANSCODE)
    if job is not None:
        return job
    return await vod.catalog.jobs.lease(secrets.token_hex(8), now_us() + later_us, SPAN)


async def do_all(vod: VodFixture) -> list[Lease]:
    """Do all jobs and spans that are due, one after the other."""
    work: list[Lease] = []
    while (job := await lease(vod)) is not None:
        await vod.transcoder.do(job)
        work.append(job)
    return work


def folders(names: list[str]) -> set[str]:
    return {name.split("/")[2] for name in names}


async def test_stretches_that_begin_between_keyframes_have_every_picture_once(
    vod: VodFixture, sparse_film: Path
) -> None:
    video = (await vod.add(sparse_film)).video.id
    work = await do_all(vod)
    assert len([each for each in work if each is not None and each.kind == SPAN]) == 2
    whole = await vod.whole_video(video)
    assert sorted(await vod.rendition_files(whole)) == ["360p", "480p", "audio"]
    assert await is_whole(vod, whole)


async def test_progress_rises_with_the_spans_and_never_falls(
    vod: VodFixture, own_film: Path
) -> None:
    video = (await vod.add(own_film)).video.id
    percents: list[int] = []
    while (job := await lease(vod)) is not None:
        await vod.transcoder.do(job)
        percents.append((await vod.status(video)).progress)
    assert percents == sorted(percents)
    assert percents[0] == 0
    assert 40 <= percents[1] <= 60
    assert percents[2:] == [99, 100]


async def test_a_span_that_failed_is_made_again_and_no_other(
    vod: VodFixture, own_film: Path
) -> None:
    video = (await vod.add(own_film)).video.id
    first = await lease(vod)
    assert first is not None
    await vod.transcoder.do(first)
    span = await lease(vod)
    assert span is not None and span.kind == SPAN
    await vod.catalog.jobs.requeue(span, now_us(), failed=True)
    other = await lease(vod)
    assert other is not None and other.kind == SPAN
    assert (other.part, other.attempt) == (2, 1)
    # Before the other one is made, which may take longer than the pause on a busy machine.
    assert await lease(vod) is None
    await vod.transcoder.do(other)
    again = await lease(vod, SPAN.pause_us(1) + 1_000_000)
    assert again is not None and again.kind == SPAN
    assert (again.part, again.attempt, again.failures) == (1, 2, 1)
    await vod.transcoder.do(again)
    (last,) = await do_all(vod)
    assert last is not None and last.kind == TRANSCODE
    assert await is_whole(vod, await vod.whole_video(video))


async def test_a_span_whose_end_is_refused_once_is_not_made_again(
    vod: VodFixture, own_film: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await vod.add(own_film)
    first = await lease(vod)
    assert first is not None
    await vod.transcoder.do(first)
    span = await lease(vod)
    assert span is not None and span.kind == SPAN
    catalog = tmp_path / "data" / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(catalog, isolation_level=None)) as database:
        database.execute(
            "CREATE TRIGGER refuses BEFORE UPDATE ON spans WHEN NEW.state = 'done'"
            " BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(vod.transcoder.do(span))
            await until(lambda: "catalog not written yet" in caplog.text, within=PATIENCE)
            database.execute("DROP TRIGGER refuses")
        (row,) = database.execute(
            "SELECT state, attempt FROM spans WHERE job_id = ? AND number = ?",
            (span.job, span.part),
        )
    assert row == ("done", 1)


async def test_a_span_that_fails_three_times_fails_the_video_and_leaves_what_plays(
    vod: VodFixture, own_film: Path
) -> None:
    video = (await vod.add(own_film)).video.id
    first = await lease(vod)
    assert first is not None
    await vod.transcoder.do(first)
    later_us = 0
    for _ in range(3):
        later_us += LEASE_US + 1_000_000
        job = await lease(vod, later_us)
        while job is not None and job.part > 1:
            job = await lease(vod, later_us)
    spent = await lease(vod, later_us + LEASE_US + 1_000_000)
    assert spent is not None and spent.kind == SPAN
    assert spent.spent
    await vod.transcoder.do(spent)
    whole = await vod.whole_video(video)
    assert (whole.video.state, whole.video.media) == ("failed", "1-1")
    assert "3 times" in (await vod.status(video)).reason
    assert await lease(vod, later_us + 3 * LEASE_US) is None
    assert folders(await vod.stored_objects(whole.video.hash)) == {"1-1"}  # which plays
    await vod.catalog.videos.retry(video, Change(now_us()))
    await do_all(vod)
    assert await is_whole(vod, await vod.whole_video(video))


async def test_a_worker_that_lost_its_span_changes_nothing(vod: VodFixture, own_film: Path) -> None:
    video = (await vod.add(own_film)).video.id
    first = await lease(vod)
    assert first is not None
    await vod.transcoder.do(first)
    late = await lease(vod)
    assert late is not None and late.kind == SPAN
    again = await lease(vod, LEASE_US + 1_000_000)
    assert again is not None and again.kind == SPAN
    if again.part != late.part:
        again = await lease(vod, LEASE_US + 1_000_000)
    assert again is not None and again.kind == SPAN
    assert (again.part, again.attempt) == (late.part, 2)
    with pytest.raises(LeaseLost):
        await vod.transcoder.do(late)
    await vod.transcoder.do(again)
    await asyncio.sleep(0)
    while (job := await lease(vod, 3 * LEASE_US)) is not None:
        await vod.transcoder.do(job)
    assert await is_whole(vod, await vod.whole_video(video))


async def test_a_video_that_is_deleted_ends_its_spans(vod: VodFixture, own_film: Path) -> None:
    whole = await vod.add(own_film)
    first = await lease(vod)
    assert first is not None
    await vod.transcoder.do(first)
    span = await lease(vod)
    assert span is not None and span.kind == SPAN
    await vod.catalog.videos.remove(whole.video.id, Change(now_us()))
    await vod.objects.delete_tree(f"videos/{whole.video.hash}")
    with pytest.raises(LeaseLost):
        await vod.transcoder.do(span)
    assert await lease(vod, LEASE_US) is None
    assert await vod.stored_objects(whole.video.hash) == []


async def test_a_span_that_is_cancelled_is_given_back_at_once(
    vod: VodFixture, own_film: Path
) -> None:
    whole = await vod.add(own_film)
    first = await lease(vod)
    assert first is not None
    await vod.transcoder.do(first)
    span = await lease(vod)
    assert span is not None and span.kind == SPAN
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(vod.transcoder.do(span))

        async def has_begun() -> bool:
            return any("-s" in name for name in await vod.stored_objects(whole.video.hash))

        await until(has_begun, within=PATIENCE)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert not any("-s" in name for name in await vod.stored_objects(whole.video.hash))
    again = await lease(vod)
    assert again is not None and again.kind == SPAN
    assert (again.part, again.attempt, again.failures) == (1, 2, 0)


@mostly_on("postgresql")
async def test_two_workers_share_the_spans_of_one_film(both: VodFixture, own_film: Path) -> None:
    video = (await both.add(own_film)).video.id
    workers = WorkerPool(both.transcoder, size=2)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers.run())
        status = await both.wait_until_ended(video, within=PATIENCE)
        running.cancel()
    assert status.state == "completed"
    assert await is_whole(both, await both.whole_video(video))
