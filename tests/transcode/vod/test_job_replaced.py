"""Another file for a video: what plays stays until the new one is made, and for a while after."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from media.stream_keys import new_hash
from storage.catalog.records.videos import Arrived, Landed, WholeVideo
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.errors import UploadInProgress
from storage.job_leases import LEASE_US, HeldJob, HeldSpan, JobLost, SpanLost
from storage.objects.addresses import replaced_source
from tests.support.transcode.spanned_asset import is_whole, own_packets
from tests.support.transcode.transcode_fixture import Shop, now_us, shop
from tests.transcode.engine.vod.test_asset import film

pytestmark = pytest.mark.anyio

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")


@pytest.fixture(scope="module")
def first_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("films") / "a.mp4", *X264, seconds=2)


@pytest.fixture(scope="module")
def long_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_packets(tmp_path_factory.mktemp("films"))


@pytest.fixture
async def house(tmp_path: Path, both_places: str | Path) -> AsyncGenerator[Shop]:
    async with shop(tmp_path / "data", place=both_places) as opened:
        yield opened


async def replaced(house: Shop, whole: WholeVideo, path: Path) -> str | None:
    """Give a video another file; the old one's address."""
    source = replaced_source(whole.video.hash, secrets.token_hex(6))
    data = await asyncio.to_thread(path.read_bytes)
    await house.objects.put(source, data)
    landed = Landed(source=source, size=len(data), length_us=25_000_000, width=640, height=480)
    found = await house.catalog.videos.replace(whole.video.id, landed, now_us(), by=None)
    assert found is not None
    return found[1]


async def do_all(house: Shop, later_us: int = 0) -> None:
    while (held := await next_of(house, later_us)) is not None:
        await house.transcoder.do(held)


async def next_of(house: Shop, later_us: int = 0) -> HeldJob | HeldSpan | None:
    owner = secrets.token_hex(8)
    held = await house.catalog.jobs.lease(owner, now_us() + later_us)
    return held or await house.catalog.spans.lease(owner, now_us() + later_us)


@pytest.mark.parametrize(
    "both_places",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)],
    indirect=True,
)
async def test_what_plays_stays_until_the_new_file_is_made_and_an_hour_after(
    house: Shop, first_film: Path, long_film: Path
) -> None:
    first = await house.made(first_film)
    before = await house.files(first)
    old = {name for name in await house.made_for(first.video.hash) if "/1-1/" in name}
    assert await replaced(house, first, long_film) == f"sources/{first.video.hash}/1"
    waiting = await house.found(first.video.id)
    assert (waiting.video.hash, waiting.video.media) == (first.video.hash, "1-1")
    assert (waiting.video.state, waiting.video.progress) == ("queued", 0)
    assert (waiting.video.published, waiting.video.completed_us) == (True, None)
    held = await next_of(house)
    assert isinstance(held, HeldJob)
    await house.transcoder.do(held)
    # The new file's own packets would play already; but what plays has more than one rung.
    assert (await house.found(first.video.id)).video.media == "1-1"
    assert await house.files(first) == before
    await do_all(house)
    whole = await house.found(first.video.id)
    assert whole.video.media is not None
    assert whole.video.media.startswith("2-")
    assert await is_whole(house, whole)
    assert old <= set(await house.made_for(first.video.hash))
    upkeep = house.catalog.references
    await remove_orphans(house.objects, upkeep, now_us() + AGE_US - 120_000_000)
    assert old <= set(await house.made_for(first.video.hash))
    await remove_orphans(house.objects, upkeep, now_us() + AGE_US + 1_000_000)
    assert not any("/1-1/" in name for name in await house.made_for(first.video.hash))
    assert len(await house.objects.addresses(f"sources/{first.video.hash}")) == 1
    assert await is_whole(house, whole)
    kinds = [event.kind for event in (await house.catalog.events.find_page(1)).items]
    assert kinds.count("video replaced") == 1


async def test_a_job_and_a_span_of_the_old_file_are_lost_and_leave_nothing(
    house: Shop, first_film: Path, long_film: Path
) -> None:
    whole = await house.add(long_film)
    job = await next_of(house)
    assert isinstance(job, HeldJob)
    await house.transcoder.do(job)
    span = await next_of(house)
    assert isinstance(span, HeldSpan)
    await replaced(house, whole, first_film)
    with pytest.raises(SpanLost):
        await house.transcoder.do(span)
    with pytest.raises(JobLost):
        await house.transcoder.do(job)
    assert not any("-s" in name for name in await house.made_for(whole.video.hash))
    await do_all(house)
    made = await house.found(whole.video.id)
    assert (made.video.state, made.video.media) == ("completed", "2-2")
    assert await next_of(house, 9 * LEASE_US) is None


async def test_a_new_file_that_cannot_be_made_takes_nothing_away(
    house: Shop, first_film: Path, tmp_path: Path
) -> None:
    first = await house.made(first_film)
    before = await house.files(first)
    (tmp_path / "b.mp4").write_text("no film")
    await replaced(house, first, tmp_path / "b.mp4")
    await do_all(house)
    failed = await house.found(first.video.id)
    assert (failed.video.state, failed.video.media) == ("failed", "1-1")
    assert await house.files(first) == before
    await replaced(house, first, first_film)
    await do_all(house)
    assert (await house.found(first.video.id)).video.media == "3-3"


async def test_of_a_video_deleted_while_it_is_replaced_nothing_stays(
    house: Shop, first_film: Path, long_film: Path
) -> None:
    first = await house.made(first_film)
    await replaced(house, first, long_film)
    job = await next_of(house)
    assert isinstance(job, HeldJob)
    await house.transcoder.do(job)
    span = await next_of(house)
    assert isinstance(span, HeldSpan)
    hash_ = await house.catalog.videos.remove(first.video.id, now_us(), by=None)
    await house.objects.delete_tree(f"videos/{hash_}")
    await house.objects.delete_tree(f"sources/{hash_}")
    with pytest.raises(SpanLost):
        await house.transcoder.do(span)
    assert await house.made_for(first.video.hash) == []
    assert await next_of(house, 9 * LEASE_US) is None


async def test_a_video_without_a_file_takes_no_other(house: Shop, first_film: Path) -> None:
    whole = await house.add(first_film)
    record = whole.video
    from_here = Landed(source="sources/x/r-1", size=1)
    assert await house.catalog.videos.replace(record.id + 1, from_here, now_us(), by=None) is None
    file = Arrived(hash=new_hash(), title=None, file_title="x", description="", name="x", size=0)
    coming = await house.catalog.videos.expect(1, file, now_us())
    with pytest.raises(UploadInProgress):
        await house.catalog.videos.replace(coming, from_here, now_us(), by=None)
