"""One attempt at a long asset: its own packets play before the spans are encoded."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog.videos.jobs import TRANSCODE
from tests.support.transcode.spanned_asset import (
    SIZE,
    film_with_own_packets,
    is_whole,
)
from tests.support.transcode.transcode_fixture import VodFixture, now_us, vod_fixture
from tests.transcode.vod.test_span_job import do_all, folders, lease


@pytest.fixture(scope="module")
def own_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_own_packets(tmp_path_factory.mktemp("films"))


@pytest.fixture
async def both(tmp_path: Path, either_database: str | Path) -> AsyncGenerator[VodFixture]:
    async with vod_fixture(tmp_path / "data", location=either_database) as opened:
        yield opened


@pytest.mark.parametrize(
    "either_database",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)],
    indirect=True,
)
async def test_a_film_plays_before_its_other_rungs_are_made(
    both: VodFixture, own_film: Path
) -> None:
    video = (await both.add(own_film)).video.id
    leased_job = await lease(both)
    assert leased_job is not None and leased_job.kind == TRANSCODE
    await both.transcoder.do(leased_job)
    early = await both.whole_video(video)
    assert (early.video.state, early.video.published) == ("transcoding", True)
    assert early.video.completed_us is None
    assert {rung.number: rung.transcoded for rung in early.rungs} == {1: False, 2: True}
    assert [each.height for each in (await both.variants(early)).variants] == [SIZE[1]]
    assert sorted(await both.rendition_files(early)) == ["480p", "audio"]
    assert await both.catalog.jobs.lease("nobody", now_us(), TRANSCODE) is None
    rest = await do_all(both)
    assert [each.part or "join" for each in rest] == [1, 2, "join"]
    whole = await both.whole_video(video)
    assert await is_whole(both, whole)
    assert all(rung.transcoded for rung in whole.rungs)
    assert {rung.number: rung.transcode_seconds > 0 for rung in whole.rungs} == {1: True, 2: False}
    job = leased_job.id
    folders_made = {"1-1", "1-2", f"1-s{job}-1-1", f"1-s{job}-2-1", "poster-1-1", "previews-1-1"}
    assert folders(await both.stored_objects(whole.video.hash)) == folders_made
    stored = 0
    for address in await both.stored_objects(whole.video.hash):
        stat = await both.objects.stat(address)
        stored += stat.size if stat is not None else 0
    assert stored == whole.video.storage_size
