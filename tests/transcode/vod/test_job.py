"""One job from a file to a video that plays, and every other way in which it can end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from media.hls.m3u8 import render
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import LEASE_US, Lease, LeaseLost
from tests.support.engine.decoded_output import warnings_of
from tests.support.engine.sources import TONE, ffmpeg
from tests.support.engine.upload_files import film
from tests.support.storage.full_disk import MIB, small_disk
from tests.support.transcode.transcode_fixture import VodFixture, now_us, vod_fixture
from transcode.vod.asset_plan import attempt_folders

SECOND = 90_000


async def test_a_film_becomes_a_playlist_of_rungs_in_step(
    vod: VodFixture, short_film: Path
) -> None:
    whole = await vod.transcode(short_film)
    video = whole.video
    assert (video.state, video.progress, video.published) == ("completed", 100, True)
    assert (video.width, video.height, round(video.length_us / 1e6)) == (854, 480, 5)
    assert [(rung.number, rung.width, rung.height, rung.transcoded) for rung in whole.rungs] == [
        (1, 640, 360, True),
        (2, 854, 480, True),
    ]
    variants = await vod.variants(whole)
    assert [(each.width, each.height) for each in variants.variants] == [(854, 480), (640, 360)]
    assert all(each.codecs[1] == "mp4a.40.2" and each.audio for each in variants.variants)
    assert all(each.frame_rate == 25_000 for each in variants.variants)
    boundaries: set[tuple[int, ...]] = set()
    for variant in variants.variants:
        assert variant.uri.startswith(f"{video.media}/")
        playlist = await vod.playlist(whole, variant.uri)
        assert (playlist.ended, playlist.whole, playlist.sequence) == (True, True, 0)
        assert all(playlist.fits(segment.duration) for segment in playlist.segments)
        assert "#EXT-X-PLAYLIST-TYPE:VOD" in render(playlist)
        assert not any(segment.gap or segment.discontinuity for segment in playlist.segments)
        boundaries.add(tuple(segment.duration for segment in playlist.segments))
    assert boundaries == {(2 * SECOND, 2 * SECOND, SECOND)}
    files = await vod.rendition_files(whole)
    assert sorted(files) == ["360p", "480p", "audio"]
    assert warnings_of([(name, file) for name in files for file in files[name]]) == {}


async def test_sound_alone_becomes_a_video_with_a_card_for_a_poster(
    vod: VodFixture, tmp_path: Path
) -> None:
    ffmpeg("-f", "lavfi", "-i", TONE, "-t", "4", "-y", tmp_path / "a.mp3")
    whole = await vod.transcode(tmp_path / "a.mp3")
    assert (whole.video.state, whole.rungs) == ("completed", ())
    stored = await vod.stored_objects(whole.video.hash)
    assert sum(f"/{whole.video.posters}/" in name for name in stored) == 2
    (variant,) = (await vod.variants(whole)).variants
    assert variant.codecs == ("mp4a.40.2",)
    files = await vod.rendition_files(whole)
    assert warnings_of([("audio", file) for file in files["audio"]]) == {}


async def test_a_text_fails_with_a_reason_and_leaves_nothing(
    vod: VodFixture, tmp_path: Path
) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    whole = await vod.transcode(tmp_path / "a.mp4")
    status = await vod.status(whole.video.id)
    assert (status.state, status.attempt) == ("failed", 1)
    assert status.reason.startswith("The file cannot be read")
    assert await vod.stored_objects(whole.video.hash) == []
    assert await vod.catalog.jobs.lease("another", 1 << 60, TRANSCODE) is None


async def test_a_film_that_is_cut_off_plays_and_has_a_warning(
    vod: VodFixture, tmp_path: Path
) -> None:
    path = film(tmp_path / "a.mkv", "-c:v", "libx264", "-c:a", "aac", seconds=9)
    (tmp_path / "cut.mkv").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    whole = await vod.transcode(tmp_path / "cut.mkv")
    status = await vod.status(whole.video.id)
    assert status.state == "completed"
    (warning,) = [each for each in status.warnings if "cut off" in each]
    assert "claims 9.0 s" in warning
    assert 1_000_000 < whole.video.length_us < 8_000_000


# -- what comes between ---------------------------------------------------------------------------


@asynccontextmanager
async def at_work(
    vod: VodFixture, path: Path
) -> AsyncGenerator[tuple[asyncio.Task[None], Lease, str]]:
    """A job that has made its first segments when the block begins."""
    hash_ = (await vod.add(path)).video.hash
    job = await vod.lease()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(vod.transcoder.do(job))
        await vod.wait_for_media(hash_)
        yield task, job, hash_
        task.cancel()


def engines() -> list[int]:
    """Return the process IDs of the engines that this process has started."""
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            for number in (task / "children").read_text().split():
                if b"transcode.engine" in Path(f"/proc/{number}/cmdline").read_bytes():
                    pids.append(int(number))
    return pids


async def test_a_job_that_is_cancelled_is_given_back_and_leaves_nothing(
    vod: VodFixture, long_film: Path
) -> None:
    async with at_work(vod, long_film) as (task, job, hash_):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert await vod.stored_objects(hash_) == []
        assert (await vod.status(job.subject)).state == "queued"
        again = await vod.lease()
        assert (again.id, again.attempt, again.failures) == (job.id, 2, 0)
    assert engines() == []


@pytest.mark.usefixtures("children_start")
async def test_an_engine_that_is_killed_costs_an_attempt_and_no_video(
    vod: VodFixture, long_film: Path
) -> None:
    async with at_work(vod, long_film) as (task, job, hash_):
        (engine,) = engines()
        os.kill(engine, signal.SIGKILL)
        await task
        assert await vod.stored_objects(hash_) == []
        assert (await vod.status(job.subject)).state == "queued"
        again = await vod.lease(later_us=TRANSCODE.pause_us(1))
        assert (again.attempt, again.failures) == (2, 1)


@pytest.mark.usefixtures("children_start")
async def test_a_file_that_takes_too_much_processor_time_fails_and_is_not_tried_again(
    vod: VodFixture, long_film: Path
) -> None:
    async with at_work(vod, long_film) as (task, job, _):
        (engine,) = engines()
        os.kill(engine, signal.SIGXCPU)
        await task
        status = await vod.status(job.subject)
        assert status.state == "failed"
        assert "processor time" in status.reason
        assert not await vod.catalog.jobs.has_due(now_us() + TRANSCODE.pause_us(1), TRANSCODE)


async def test_a_job_that_another_took_is_broken_off_and_changes_nothing(
    vod: VodFixture, long_film: Path
) -> None:
    """Another worker takes the job at once, by a clock that is ahead."""
    hash_ = (await vod.add(long_film)).video.hash
    job = await vod.lease()
    outcome: list[BaseException] = []

    async def lose() -> None:
        try:
            await vod.transcoder.do(job)
        except LeaseLost as error:
            outcome.append(error)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(lose())
        await vod.wait_for_media(hash_)
        other = await vod.lease(later_us=LEASE_US + 1_000_000)
        work = await vod.catalog.transcoding.begin(other, 0)
        before = (await vod.whole_video(job.subject)).video
        await task
    assert [type(error) for error in outcome] == [LeaseLost]
    assert (work.hash, other.attempt) == (hash_, 2)
    assert (await vod.whole_video(job.subject)).video == before
    assert await vod.stored_objects(hash_) == []


async def test_a_video_that_is_deleted_meanwhile_leaves_nothing(
    vod: VodFixture, long_film: Path
) -> None:
    hash_ = (await vod.add(long_film)).video.hash
    job = await vod.lease()
    async with asyncio.TaskGroup() as tasks:

        async def lose() -> None:
            with pytest.raises(LeaseLost):
                await vod.transcoder.do(job)

        tasks.create_task(lose())
        await vod.wait_for_media(hash_)
        await vod.catalog.videos.remove(job.subject, Change(0))
    assert await vod.stored_objects(hash_) == []


async def test_a_job_that_killed_three_workers_fails_with_a_reason(
    vod: VodFixture, short_film: Path
) -> None:
    video = (await vod.add(short_film)).video
    for death in range(3):
        job = await vod.lease(later_us=death * (LEASE_US + 1_000_000))
        await vod.catalog.transcoding.begin(job, job.attempt)
        # As `begin` beats with another clock, the lease is over for the next.
        await vod.objects.put(f"videos/{video.hash}/1-{job.attempt}/360p/0.m4s", b"x")
    last = await vod.lease(later_us=9 * LEASE_US)
    assert last.spent
    await vod.transcoder.do(last)
    status = await vod.status(video.id)
    assert status.state == "failed"
    assert "3 times" in status.reason
    assert await vod.stored_objects(video.hash) == []


async def test_what_a_dead_worker_left_goes_when_the_video_is_complete(
    vod: VodFixture, short_film: Path
) -> None:
    video = (await vod.add(short_film)).video
    dead = await vod.lease()
    for folder in attempt_folders(await vod.catalog.transcoding.begin(dead, 0), dead):
        await vod.objects.put(f"videos/{video.hash}/{folder}/left.m4s", b"x")
    await vod.objects.put(f"videos/{video.hash}/own-abc/360p.jpg", b"x")
    await vod.transcoder.do(await vod.lease())
    folders = {address.split("/")[2] for address in await vod.stored_objects(video.hash)}
    assert folders == {"1-2", "poster-1-2", "own-abc"}


async def test_a_full_disk_puts_the_job_back_and_at_last_fails_it(
    tmp_path: Path, short_film: Path
) -> None:
    with small_disk(tmp_path / "disk", 4 * MIB) as disk:
        async with vod_fixture(tmp_path / "data", disk.folder / "objects") as vod:
            video = (await vod.add(short_film)).video
            later_us = 0
            for failures in range(3):
                disk.fill(64 << 10)
                job = await vod.lease(later_us=later_us)
                assert job.failures == failures
                await vod.transcoder.do(job)
                disk.empty()
                assert await vod.stored_objects(video.hash) == []
                later_us += TRANSCODE.pause_us(failures + 1) + 1_000_000
            status = await vod.status(video.id)
            assert (status.state, status.attempt) == ("failed", 3)
            assert "stored" in status.reason
            await vod.catalog.videos.retry(video.id, Change(0))
            await vod.transcoder.do(await vod.lease())
            assert (await vod.status(video.id)).state == "completed"
