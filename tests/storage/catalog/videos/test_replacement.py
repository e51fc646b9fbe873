"""A video's file replaced: what goes with the old one, and what stays."""

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.videos import VideoFile
from storage.catalog.videos import replacement
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import NoSuchVideo, UploadInProgress
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video

FILE = VideoFile(source="sources/v/r-two", size=9, width=64, height=36, rungs=[(5, 64, 36)])


@ON_BOTH
async def test_a_failed_video_begins_anew_with_another_file(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    created = await add(catalog, project, title="T")
    job = await catalog.jobs.lease("worker", NOW_US, TRANSCODE)
    assert job is not None
    await catalog.transcoding.begin(job, NOW_US)
    await catalog.transcoding.fail(job, "damaged", NOW_US, warnings=["a warning"])
    async with database.writing() as connection:
        replaced = await replacement.replace(
            connection, created.video.id, FILE, Change(NOW_US + 9, by=1, keep_us=1)
        )
    assert replaced is not None
    whole, dropped = replaced
    video = whole.video
    assert dropped is None, "the old file can be taken back"
    assert (video.hash, video.title, video.created_us) == (created.video.hash, "T", NOW_US)
    assert (video.state, video.progress, video.size) == ("queued", 0, FILE.size)
    assert (video.uploaded_us, video.transcoding_us) == (NOW_US + 9, None)
    assert [(each.number, each.transcoded) for each in whole.rungs] == [(5, False)]
    status = await catalog.videos.find_status(video.id)
    assert status is not None
    assert (status.reason, status.warnings) == ("", ())
    assert await catalog.jobs.lease("worker", NOW_US + 9, TRANSCODE) is not None


async def test_what_cannot_be_replaced_is_refused(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    coming = await catalog.videos.expect(project.id, new_video(size=0, source=""), NOW_US)
    other = await catalog.projects.add("other", Change(NOW_US))
    async with database.writing() as connection:
        assert await replacement.replace(connection, 99, FILE, Change(NOW_US, by=1)) is None
        with pytest.raises(UploadInProgress):
            await replacement.replace(connection, coming, FILE, Change(NOW_US, by=1))
        with pytest.raises(UploadInProgress):
            await replacement.require(connection, project.id, coming)
        for of, number in ((other.id, coming), (project.id, 99), (project.id, 1 << 40)):
            with pytest.raises(NoSuchVideo):
                await replacement.lock_in_project(connection, of, number)
        assert (
            await replacement.lock_in_project(connection, project.id, coming)
        ).state == "uploading"
