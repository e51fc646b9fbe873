"""The workers of a process, as its role creates them."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headend.config.settings import TranscodeSettings
from headend.roles.transcode_role import (
    create_file_workers,
    usable_cores,
)
from storage.catalog.videos.jobs import TRANSCODE
from tests.support.transcode.transcode_fixture import now_us, vod_fixture

pytestmark = pytest.mark.anyio

HOUR_NS = 3600 * 10**9
LEASE_US = 300_000_000


async def test_workers_on_a_host_with_a_clock_ahead_take_no_leased_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    async with vod_fixture(tmp_path / "data") as vod:
        await vod.add(tmp_path / "a.mp4")
        job = await vod.catalog.jobs.lease("another host", now_us(), TRANSCODE, lease_us=LEASE_US)
        assert job is not None
        right = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: right() + HOUR_NS)
        workers = create_file_workers(TranscodeSettings(), vod.catalog, vod.objects)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(workers.run())
            for _ in range(3):  # after each job, they search for more
                other = (await vod.add(tmp_path / "a.mp4")).video.id
                assert (await vod.wait_until_ended(other, within=60)).state == "failed"
            running.cancel()
        await vod.catalog.jobs.extend(job, right() // 1000)


async def test_workers_use_the_cores_that_their_process_may_use() -> None:
    def pinned(settings: TranscodeSettings) -> int:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread alone
        return usable_cores(settings)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(pinned, TranscodeSettings()).result() == 1
        assert threads.submit(pinned, TranscodeSettings(cores=3)).result() == 3
    assert usable_cores(TranscodeSettings()) == len(os.sched_getaffinity(0))
