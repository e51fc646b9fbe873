"""What an attempt published early, when it did not live to complete the video."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from storage.catalog.records.videos import WholeVideo
from storage.catalog.videos.jobs import SPAN
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.leases import LEASE_US
from tests.support.transcode.spanned_asset import film_with_own_packets
from tests.support.transcode.transcode_fixture import VodFixture, now_us
from tests.support.waiting import until
from tests.transcode.vod.test_job_replaced import do_all, next_of

pytestmark = pytest.mark.anyio

PATIENCE = 120.0


@pytest.fixture(scope="module")
def own_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_own_packets(tmp_path_factory.mktemp("films"))


async def published_early(vod: VodFixture, path: Path) -> WholeVideo:
    """Add a video whose first attempt ends as soon as it plays."""
    video = (await vod.add(path)).video.id
    job = await vod.lease()

    async def plays() -> bool:
        return (await vod.whole_video(video)).video.media is not None

    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(vod.transcoder.do(job))
        await until(plays, within=PATIENCE)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    whole = await vod.whole_video(video)
    assert (whole.video.media, whole.video.state) == ("1-1", "queued")
    return whole


async def media_of(vod: VodFixture, hash_: str, folder: str) -> set[str]:
    names = await vod.stored_objects(hash_)
    return {name for name in names if f"/{folder}/" in name and not name.endswith("/replaced")}


async def test_viewers_of_an_early_folder_keep_it_for_an_hour(
    vod: VodFixture, own_film: Path
) -> None:
    whole = await published_early(vod, own_film)
    hash_ = whole.video.hash
    early = await media_of(vod, hash_, "1-1")
    assert any(name.endswith("/index.m3u8") for name in early)
    # The second attempt publishes early, too, and is lost; the third completes the video.
    second = await next_of(vod)
    assert second is not None
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(vod.transcoder.do(second))

        async def plays() -> bool:
            return (await vod.whole_video(whole.video.id)).video.media == "1-2"

        await until(plays, within=PATIENCE)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    await do_all(vod)
    video = (await vod.whole_video(whole.video.id)).video
    assert video.state == "completed"
    assert video.media not in ("1-1", "1-2")
    assert early <= await media_of(vod, hash_, "1-1")
    assert await media_of(vod, hash_, "1-2")
    await remove_orphans(vod.objects, vod.catalog.references, now_us() + AGE_US - 600_000_000)
    assert early <= await media_of(vod, hash_, "1-1")
    await remove_orphans(vod.objects, vod.catalog.references, now_us() + AGE_US + 1_000_000)
    assert await media_of(vod, hash_, "1-1") == set()
    assert await media_of(vod, hash_, "1-2") == set()


async def test_a_video_that_fails_keeps_what_plays_and_nothing_else(
    vod: VodFixture, own_film: Path
) -> None:
    whole = await published_early(vod, own_film)
    hash_ = whole.video.hash
    played = await media_of(vod, hash_, "1-1")
    # What a worker that was killed over the same file leaves beside it.
    for name in (
        "1-1/360p/0.m4s",
        "1-1/360p/init-0.mp4",
        "1-1/words1/0.vtt",
        "poster-1-1/360p.jpg",
    ):
        await vod.objects.put(f"videos/{hash_}/{name}", b"x")
    later_us = 0
    for _ in range(3):
        later_us += LEASE_US + 1_000_000
        assert not (await vod.lease(later_us)).spent
    last = await vod.lease(later_us + LEASE_US + 1_000_000)
    assert last.spent
    await vod.transcoder.do(last)
    status = await vod.status(whole.video.id)
    assert status.state == "failed"
    assert (await vod.whole_video(whole.video.id)).video.media == "1-1"
    assert set(await vod.stored_objects(hash_)) == played
    following = await next_of(vod)
    assert following is None or following.kind != SPAN
