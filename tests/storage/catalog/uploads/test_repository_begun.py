"""Resumable uploads as they begin: with their video, whole or not at all."""

from functools import partial

import pytest

from storage.catalog import Catalog
from storage.catalog.records.details import VideoDetails
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import HashTaken, NoSuchLabel, NoSuchProject, UploadLinkSpent
from tests.support.storage.new_videos import count_videos, new_upload

# The same statements on both: what differs between them has tests of its own.
NOW = 1_700_000_000_000_000
HOUR = 3600 * 1_000_000
new = partial(new_upload, expires_us=NOW + HOUR)


async def test_an_upload_and_its_video_begin_together(catalog: Catalog, project: int) -> None:
    details = VideoDetails(title="T", description="D", countries=(276,), tags=("new",))
    record = await catalog.uploads.begin(project, new(wanted=details), NOW)
    assert await catalog.uploads.find("one") == record
    assert (record.received, record.done, record.whole) == (0, False, False)
    whole_video = await catalog.videos.find(record.video)
    assert whole_video is not None
    video = whole_video.video
    assert (video.state, video.title, video.size, video.hash) == (
        "uploading",
        "T",
        100,
        record.hash,
    )
    assert [tag.name for tag in whole_video.tags] == ["new"]
    assert [each.number for each in whole_video.countries] == [276]
    assert await count_videos(catalog) == (1, 1)
    assert await catalog.jobs.lease("w", NOW + HOUR, TRANSCODE) is None


async def test_what_cannot_begin_leaves_nothing(catalog: Catalog, project: int) -> None:
    first = await catalog.uploads.begin(project, new(), NOW)
    with pytest.raises(NoSuchProject):
        await catalog.uploads.begin(99, new("two"), NOW)
    with pytest.raises(HashTaken):
        await catalog.uploads.begin(project, new("two", hash_=first.hash), NOW)
    with pytest.raises(NoSuchLabel):
        await catalog.uploads.begin(project, new("two", wanted=VideoDetails(category=9)), NOW)
    with pytest.raises(UploadLinkSpent):
        await catalog.uploads.begin(project, new("two", link=9), NOW)
    assert await catalog.uploads.find("two") is None
    assert await count_videos(catalog) == (1, 1)
