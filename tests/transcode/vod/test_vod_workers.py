"""Workers in processes of their own: killed, stopped, asked to leave; the video is made once."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from storage.catalog.records.videos import WholeVideo
from storage.leases import LEASE_US
from storage.workers.worker_pool import WorkerPool
from tests.support.transcode.transcode_fixture import VodFixture, now_us, vod_fixture
from tests.support.waiting import until
from transcode.vod.job import VideoTranscoder

_LEASE: float = LEASE_US / 1_000_000
PATIENCE = 240.0  # a busy machine makes the long film in half of it


@contextmanager
def worker(data: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run the real command over a data folder; kill it at the end if it still runs."""
    command = [sys.executable, "-c", "from headend.command import main; main()", "transcode"]
    with (
        (data / "worker.log").open("ab") as log,
        subprocess.Popen([*command, "--data", str(data)], stderr=log, stdout=log) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def begun(vod: VodFixture, film: Path) -> AsyncGenerator[WholeVideo]:
    """A film that a worker has begun to make."""
    whole = await vod.add(film)
    await vod.wait_for_media(whole.video.hash, within=PATIENCE)
    yield whole


@pytest.fixture
async def data(tmp_path: Path) -> AsyncGenerator[Path]:
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder


async def once(vod: VodFixture, video: int, attempt: int) -> bool:
    """Whether the video is complete, made by that attempt alone, and whole."""
    whole = await vod.whole_video(video)
    assert (whole.video.state, whole.video.media) == ("completed", f"1-{attempt}")
    folders = {address.split("/")[2] for address in await vod.stored_objects(whole.video.hash)}
    assert folders == {f"1-{attempt}", f"poster-1-{attempt}", f"previews-1-{attempt}"}
    files = await vod.rendition_files(whole)
    assert sorted(files) == ["360p", "480p", "720p", "audio"]
    kinds = [event.kind for event in (await vod.catalog.events.find_page(1)).items]
    assert kinds.count("video completed") == 1
    return True


async def test_workers_of_one_process_do_several_jobs_at_once(
    vod: VodFixture, short_film: Path
) -> None:
    videos = [(await vod.add(short_film)).video.id for _ in range(3)]
    workers = WorkerPool(vod.transcoder, size=2)
    together = 0
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers.run())

        async def are_done() -> bool:
            nonlocal together
            states = [(await vod.status(video)).state for video in videos]
            together = max(together, states.count("transcoding"))
            return states == ["completed"] * 3

        await until(are_done, within=PATIENCE)
        running.cancel()
    assert together == 2


async def test_a_nudge_is_quicker_than_the_next_poll(vod: VodFixture, tmp_path: Path) -> None:
    """The workers sleep half a second between two polls; here ten polls are observed."""
    workers = WorkerPool(vod.transcoder, size=1)
    (tmp_path / "a.mp4").write_text("no film")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers.run())
        for _ in range(10):
            video = (await vod.add(tmp_path / "a.mp4")).video.id
            workers.nudge()
            await vod.wait_until_ended(video, within=PATIENCE)
        running.cancel()


async def test_a_mistake_of_ours_over_one_file_does_not_end_the_worker(
    vod: VodFixture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mistakes = 1

    def lend(address: str) -> AbstractAsyncContextManager[Path]:
        nonlocal mistakes
        if mistakes:
            mistakes -= 1
            raise RuntimeError("a mistake of ours")
        return vod.objects.lend(address)

    transcoder = VideoTranscoder(replace(vod.context, lend=lend))
    workers = WorkerPool(transcoder, size=1)
    (tmp_path / "a.mp4").write_text("no film")
    poison, other = [(await vod.add(tmp_path / "a.mp4")).video.id for _ in range(2)]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers.run())
        assert (await vod.wait_until_ended(other, within=PATIENCE)).attempt == 1
        # Once the lease has expired.
        assert (await vod.wait_until_ended(poison, within=PATIENCE)).attempt == 2
        running.cancel()
    assert [record.message for record in caplog.records].count("job broke off") == 1


async def test_a_worker_that_is_killed_loses_nothing(data: Path, long_film: Path) -> None:
    async with vod_fixture(data) as vod:
        with worker(data) as first:
            async with begun(vod, long_film) as whole:
                first.send_signal(signal.SIGKILL)
                assert first.wait() == -signal.SIGKILL
            killed_us = now_us()
        with worker(data):
            status = await vod.wait_until_ended(whole.video.id, within=_LEASE + PATIENCE)
        assert (status.state, status.attempt) == ("completed", 2)
        began = (await vod.catalog.events.find_page(1)).items
        again = max(event.created_us for event in began if event.kind == "transcoding began")
        assert again - killed_us < (_LEASE + 5) * 1_000_000
        assert await once(vod, whole.video.id, 2)


async def test_a_worker_that_is_told_to_stop_gives_its_job_back_at_once(
    data: Path, long_film: Path
) -> None:
    async with vod_fixture(data) as vod:
        with worker(data) as first:
            async with begun(vod, long_film) as whole:
                first.send_signal(signal.SIGTERM)
                assert first.wait(timeout=20) == 0
        assert (await vod.status(whole.video.id)).state == "queued"
        assert await vod.stored_objects(whole.video.hash) == []
        job = await vod.lease()
        assert (job.attempt, job.failures) == (2, 0)


@pytest.mark.prove
async def test_a_worker_that_slept_through_its_lease_changes_nothing_when_it_wakes(
    data: Path, long_film: Path
) -> None:
    async with vod_fixture(data) as vod:
        with worker(data) as first:
            async with begun(vod, long_film) as whole:
                first.send_signal(signal.SIGSTOP)
            with worker(data):
                status = await vod.wait_until_ended(whole.video.id, within=_LEASE + PATIENCE)
                assert (status.state, status.attempt) == ("completed", 2)
                before = await vod.whole_video(whole.video.id)
                first.send_signal(signal.SIGCONT)
                log = data / "worker.log"

                async def is_aware() -> bool:
                    return "job lost" in log.read_text()

                await until(is_aware, within=PATIENCE)
                first.send_signal(signal.SIGTERM)
                assert first.wait(timeout=20) == 0
        assert await vod.whole_video(whole.video.id) == before
        assert await once(vod, whole.video.id, 2)
