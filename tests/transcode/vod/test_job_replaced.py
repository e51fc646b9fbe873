"""Another file for a video: what plays stays until the new one is made, and for a while after."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.errors import UploadInProgress
from storage.leases import LEASE_US, Lease, LeaseLost
from storage.objects.addresses import replaced_source
from tests.support.engine.upload_files import film
from tests.support.shared_engines import mostly_on
from tests.support.storage.new_videos import new_video
from tests.support.transcode.spanned_asset import film_with_own_packets, is_whole
from tests.support.transcode.transcode_fixture import VodFixture, now_us, vod_fixture

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")


@pytest.fixture(scope="module")
def first_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("films") / "a.mp4", *X264, seconds=2)


@pytest.fixture(scope="module")
def long_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_own_packets(tmp_path_factory.mktemp("films"))


@pytest.fixture
async def vod(tmp_path: Path, either_database: str | Path) -> AsyncGenerator[VodFixture]:
    async with vod_fixture(tmp_path / "data", location=either_database) as opened:
        yield opened


async def replaced(vod: VodFixture, whole: WholeVideo, path: Path) -> str | None:
    """Give a video another file; return the address of one that nothing names any more."""
    source = replaced_source(whole.video.hash, secrets.token_hex(6))
    data = await asyncio.to_thread(path.read_bytes)
    await vod.objects.put(source, data)
    landed = VideoFile(source=source, size=len(data), length_us=25_000_000, width=640, height=480)
    video = await vod.catalog.videos.replace(whole.video.id, landed, Change(now_us(), keep_us=1))
    assert video is not None
    return video[1]


async def do_all(vod: VodFixture, later_us: int = 0) -> None:
    while (job := await next_of(vod, later_us)) is not None:
        await vod.transcoder.do(job)


async def next_of(vod: VodFixture, later_us: int = 0) -> Lease | None:
    owner = secrets.token_hex(8)
    job = await vod.catalog.jobs.lease(owner, now_us() + later_us, TRANSCODE)
    return job or await vod.catalog.jobs.lease(owner, now_us() + later_us, SPAN)


@mostly_on("sqlite")
async def test_what_plays_stays_until_the_new_file_is_made_and_an_hour_after(
    vod: VodFixture, first_film: Path, long_film: Path
) -> None:
    first = await vod.transcode(first_film)
    before = await vod.rendition_files(first)
    old = {name for name in await vod.stored_objects(first.video.hash) if "/1-1/" in name}
    assert await replaced(vod, first, long_film) is None, "its file can be taken back"
    waiting = await vod.whole_video(first.video.id)
    assert (waiting.video.hash, waiting.video.media) == (first.video.hash, "1-1")
    assert (waiting.video.state, waiting.video.progress) == ("queued", 0)
    assert (waiting.video.published, waiting.video.completed_us) == (True, None)
    job = await next_of(vod)
    assert job is not None and job.kind == TRANSCODE
    await vod.transcoder.do(job)
    # The new file's own packets would play already; but what plays has more than one rung.
    assert (await vod.whole_video(first.video.id)).video.media == "1-1"
    assert await vod.rendition_files(first) == before
    await do_all(vod)
    whole = await vod.whole_video(first.video.id)
    assert whole.video.media is not None
    assert whole.video.media.startswith("2-")
    assert await is_whole(vod, whole)
    assert old <= set(await vod.stored_objects(first.video.hash))
    upkeep = vod.catalog.references
    await remove_orphans(vod.objects, upkeep, now_us() + AGE_US - 120_000_000)
    assert old <= set(await vod.stored_objects(first.video.hash))
    await remove_orphans(vod.objects, upkeep, now_us() + AGE_US + 1_000_000)
    assert not any("/1-1/" in name for name in await vod.stored_objects(first.video.hash))
    assert len(await vod.objects.addresses(f"sources/{first.video.hash}")) == 2
    assert await is_whole(vod, whole)
    kinds = [event.kind for event in (await vod.catalog.events.find_page(1)).items]
    assert kinds.count("video replaced") == 1


@mostly_on("postgresql")
async def test_a_job_and_a_span_of_the_old_file_are_lost_and_leave_nothing(
    vod: VodFixture, first_film: Path, long_film: Path
) -> None:
    whole = await vod.add(long_film)
    job = await next_of(vod)
    assert job is not None and job.kind == TRANSCODE
    await vod.transcoder.do(job)
    span = await next_of(vod)
    assert span is not None and span.kind == SPAN
    await replaced(vod, whole, first_film)
    with pytest.raises(LeaseLost):
        await vod.transcoder.do(span)
    with pytest.raises(LeaseLost):
        await vod.transcoder.do(job)
    assert not any("-s" in name for name in await vod.stored_objects(whole.video.hash))
    await do_all(vod)
    stored = await vod.whole_video(whole.video.id)
    assert (stored.video.state, stored.video.media) == ("completed", "2-2")
    assert await next_of(vod, 9 * LEASE_US) is None


@mostly_on("sqlite")
async def test_a_new_file_that_cannot_be_made_takes_nothing_away(
    vod: VodFixture, first_film: Path, tmp_path: Path
) -> None:
    first = await vod.transcode(first_film)
    before = await vod.rendition_files(first)
    (tmp_path / "b.mp4").write_text("no film")
    await replaced(vod, first, tmp_path / "b.mp4")
    await do_all(vod)
    failed = await vod.whole_video(first.video.id)
    assert (failed.video.state, failed.video.media) == ("failed", "1-1")
    assert await vod.rendition_files(first) == before
    await replaced(vod, first, first_film)
    await do_all(vod)
    assert (await vod.whole_video(first.video.id)).video.media == "3-3"


@mostly_on("postgresql")
async def test_of_a_video_deleted_while_it_is_replaced_nothing_stays(
    vod: VodFixture, first_film: Path, long_film: Path
) -> None:
    first = await vod.transcode(first_film)
    await replaced(vod, first, long_film)
    job = await next_of(vod)
    assert job is not None and job.kind == TRANSCODE
    await vod.transcoder.do(job)
    span = await next_of(vod)
    assert span is not None and span.kind == SPAN
    hash_ = await vod.catalog.videos.remove(first.video.id, Change(now_us()))
    await vod.objects.delete_tree(f"videos/{hash_}")
    await vod.objects.delete_tree(f"sources/{hash_}")
    with pytest.raises(LeaseLost):
        await vod.transcoder.do(span)
    assert await vod.stored_objects(first.video.hash) == []
    assert await next_of(vod, 9 * LEASE_US) is None


@mostly_on("sqlite")
async def test_a_video_without_a_file_takes_no_other(vod: VodFixture, first_film: Path) -> None:
    whole = await vod.add(first_film)
    record = whole.video
    from_here = VideoFile(source="sources/x/r-1", size=1)
    assert await vod.catalog.videos.replace(record.id + 1, from_here, Change(now_us())) is None
    file = new_video(size=0, source="")
    coming = await vod.catalog.videos.expect(1, file, now_us())
    with pytest.raises(UploadInProgress):
        await vod.catalog.videos.replace(coming, from_here, Change(now_us()))
