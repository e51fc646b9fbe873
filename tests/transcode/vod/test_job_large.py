"""Files that are larger than what an engine reads in the time that it may be silent."""

import asyncio
from pathlib import Path

import pytest

from media.stream_keys import new_hash
from storage.catalog.records.common import Change
from tests.support.storage.new_videos import new_video
from tests.support.transcode.sparse_files import MOST_PADDING, unclosed_flv
from tests.support.transcode.transcode_fixture import VodFixture, now_us
from transcode.inspect.probe import ProbeTimeout, probe

pytestmark = pytest.mark.anyio

GIB = 1 << 30


@pytest.mark.prove
async def test_an_unclosed_recording_of_20_gib_becomes_a_video(vod: VodFixture) -> None:
    """The file is read four times: for its length, the survey, its sound and its pictures."""
    pictures = 20 * GIB // MOST_PADDING + 1
    hash_ = new_hash()
    source = f"sources/{hash_}/1"
    path = vod.objects.path(source)
    await asyncio.to_thread(path.parent.mkdir, parents=True)
    await asyncio.to_thread(unclosed_flv, path, pictures)
    size = path.stat().st_size
    assert size > 20 * GIB
    file = new_video(hash_, size=size, source=source)
    video = (await vod.catalog.videos.add(1, file, Change(now_us()))).video.id
    await vod.transcoder.do(await vod.lease())
    status = await vod.status(video)
    assert (status.state, status.attempt, status.reason) == ("completed", 1, "")
    whole = await vod.whole_video(video)
    assert abs(whole.video.length_us - pictures * 40_000) <= 40_000


@pytest.mark.usefixtures("children_start")
async def test_a_probe_that_waits_for_a_file_is_ended_once_it_is_silent(short_film: Path) -> None:
    """Only its silence is limited; here the start of its process takes longer than the limit."""
    with pytest.raises(ProbeTimeout, match="nothing was read"):
        await probe(short_film, seconds=None, silent_seconds=0.01)
    assert (await probe(short_film, seconds=None)).width == 854
