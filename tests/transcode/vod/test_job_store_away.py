"""A store that is away, a disk that is nearly full, a catalog that refuses: nothing is lost."""

import asyncio
import contextlib
import shutil
import sqlite3
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import LEASE_US
from storage.objects.disk import DiskObjects
from storage.workers.store_health import StoreHealth
from storage.workers.worker_pool import WorkerPool
from tests.support.storage.full_disk import MIB, small_disk
from tests.support.transcode.transcode_fixture import VodFixture, now_us, vod_fixture
from tests.support.waiting import SCALE, until
from transcode.vod.job import VideoTranscoder

pytestmark = pytest.mark.anyio

PATIENCE = 120.0
VIDEOS = 6


class TranscoderFixture:
    """A transcoder that judges its store, by a clock that the test sets forward."""

    def __init__(
        self,
        vod: VodFixture,
        objects: DiskObjects,
        *,
        min_free_bytes: int = 0,
        lease_us: int = LEASE_US,
    ) -> None:
        self.ahead_us = 0
        self.checks = 0
        self._min_free_bytes = min_free_bytes
        self._objects = objects
        self.health = StoreHealth(
            self._check,
            clock=lambda: time.monotonic() + self.ahead_us / 1_000_000,
            poll_seconds=0.01,
            steady_seconds=0.05,
        )
        self.transcoder = VideoTranscoder(
            replace(
                vod.context,
                now_us=lambda: now_us() + self.ahead_us,
                health=self.health,
                lease_us=lease_us,
            )
        )

    async def _check(self, *, thorough: bool) -> None:
        self.checks += 1
        await self._objects.check(min_free_bytes=self._min_free_bytes, thorough=thorough)

    @contextlib.asynccontextmanager
    async def working(self, workers: int = 2) -> AsyncGenerator[None]:
        """Have workers lease and do what there is, for the length of the block."""
        crew = WorkerPool(self.transcoder, size=workers)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(crew.run())
            yield
            running.cancel()

    async def be_checked(self) -> None:
        """Wait until the store was checked a few times more."""
        since = self.checks
        await until(lambda: self.checks >= since + 5, within=PATIENCE)


def logged(caplog: pytest.LogCaptureFixture, *messages: str) -> list[str]:
    return [record.message for record in caplog.records if record.message in messages]


async def test_a_store_that_is_away_fails_no_video_and_is_logged_once(
    vod: VodFixture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock advances by minutes, so that every job put back for later is due again."""
    caplog.set_level("INFO")
    (tmp_path / "a.mp4").write_text("no film")
    videos = [(await vod.add(tmp_path / "a.mp4")).video.id for _ in range(VIDEOS)]
    transcoder = TranscoderFixture(vod, vod.objects)
    root = vod.objects.root
    shutil.move(root, tmp_path / "away")
    async with transcoder.working():
        await until(lambda: bool(logged(caplog, "jobs not leased")), within=PATIENCE)
        for _ in range(5):
            transcoder.ahead_us += 120_000_000
            await transcoder.be_checked()
        states = {(await vod.status(video)).state for video in videos}
        assert states == {"queued"}
        shutil.move(tmp_path / "away", root)
        for video in videos:
            await vod.wait_until_ended(video, within=PATIENCE)
    # Each file was judged on its own merits, once the store was back.
    for video in videos:
        status = await vod.status(video)
        assert status.reason.startswith("The file cannot be read: it is damaged")
    lines = logged(caplog, "jobs not leased", "jobs leased again")
    assert lines == ["jobs not leased", "jobs leased again"]
    assert logged(caplog, "video given up") == []


async def test_two_videos_that_cannot_be_stored_pause_the_queue_and_are_made_later(
    vod: VodFixture, tmp_path: Path, short_film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their folders are on another disk, and all that a check writes to is well."""
    caplog.set_level("INFO")
    added = [await vod.add(short_film) for _ in range(2)]
    videos = [each.video.id for each in added]
    (vod.objects.root / "videos").mkdir(exist_ok=True)
    folders = [vod.objects.root / "videos" / each.video.hash for each in added]
    transcoder = TranscoderFixture(vod, vod.objects)
    with small_disk(tmp_path / "other", MIB) as disk:
        for folder in folders:
            folder.symlink_to(disk.folder)
        async with transcoder.working(1):
            for pauses in range(1, 7):
                await until(
                    lambda wanted=pauses: len(logged(caplog, "jobs not leased")) == wanted,
                    within=PATIENCE,
                )
                transcoder.ahead_us += 600_000_000
            assert transcoder.health.pause is not None
            for folder in folders:
                folder.unlink()
            transcoder.ahead_us += 600_000_000
            for video in videos:
                assert (await vod.wait_until_ended(video, within=PATIENCE)).state == "completed"
    assert transcoder.health.pause is None
    assert logged(caplog, "video given up", "video failed") == []


async def test_work_under_way_waits_for_room_and_counts_no_attempt(
    tmp_path: Path, short_film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk", 64 * MIB) as disk:
        async with vod_fixture(tmp_path / "data", disk.folder / "objects") as vod:
            whole = await vod.add(short_film)
            transcoder = TranscoderFixture(vod, vod.objects, min_free_bytes=32 * MIB)
            job = await vod.lease()
            disk.fill(31 * MIB)
            async with asyncio.TaskGroup() as tasks:
                working = tasks.create_task(transcoder.transcoder.do(job))
                await until(lambda: bool(logged(caplog, "jobs not leased")), within=PATIENCE)
                await transcoder.be_checked()
                assert disk.free >= 30 * MIB
                assert not working.done()
                disk.empty()
            status = await vod.status(whole.video.id)
            assert (status.state, status.attempt) == ("completed", 1)
    assert logged(caplog, "jobs not leased") == ["jobs not leased"]


async def test_nothing_is_begun_while_the_disk_has_too_little_room(
    vod: VodFixture, tmp_path: Path
) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    video = (await vod.add(tmp_path / "a.mp4")).video.id
    transcoder = TranscoderFixture(vod, vod.objects, min_free_bytes=1 << 62)
    async with transcoder.working():
        await transcoder.be_checked()
        await transcoder.be_checked()
    status = await vod.status(video)
    assert (status.state, status.attempt) == ("queued", 0)


async def test_a_video_whose_end_is_refused_once_is_not_made_again(
    vod: VodFixture, short_film: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    video = (await vod.add(short_film)).video.id
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "catalog.sqlite")) as database:
        database.execute(
            "CREATE TRIGGER refuses BEFORE UPDATE ON videos WHEN NEW.state = 'completed'"
            " BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        database.commit()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(vod.transcoder.do(await vod.lease()))
            await until(lambda: bool(logged(caplog, "catalog not written yet")), within=PATIENCE)
            database.execute("DROP TRIGGER refuses")
            database.commit()
    status = await vod.status(video)
    assert (status.state, status.attempt) == ("completed", 1)


async def test_a_catalog_that_is_away_for_longer_than_a_lease_costs_no_attempt(
    vod: VodFixture, short_film: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No other worker could lease the job meanwhile: the work and its lease continue."""
    lease = 2.0 * SCALE
    video = (await vod.add(short_film)).video.id
    transcoder = TranscoderFixture(vod, vod.objects, lease_us=round(lease * 1_000_000))
    job = await transcoder.transcoder.lease("one")
    assert job is not None and job.kind == TRANSCODE
    catalog = tmp_path / "data" / "catalog.sqlite"
    connection = sqlite3.connect(catalog, isolation_level=None, check_same_thread=False)
    with contextlib.closing(connection) as database:
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(transcoder.transcoder.do(job))
            await vod.wait_for_media((await vod.whole_video(video)).video.hash)
            # In a thread: a transaction that is under way needs this event loop for its end.
            await asyncio.to_thread(database.execute, "BEGIN EXCLUSIVE")
            until_then = time.monotonic() + 2 * lease
            await until(lambda: time.monotonic() > until_then, within=PATIENCE)
            assert not working.done()
            database.execute("ROLLBACK")
    status = await vod.status(video)
    assert (status.state, status.attempt) == ("completed", 1)
    assert "lease not extended" in [record.message for record in caplog.records]
