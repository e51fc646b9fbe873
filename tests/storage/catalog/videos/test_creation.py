"""Videos whose files come: expected, whole at once, or never."""

import pytest

from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import HashTaken, NoSuchProject
from tests.storage.catalog.videos.test_queries import add, arrived, listed
from tests.support.shared_engines import ON_BOTH

NOW_US = 1_700_000_000_123_456


async def test_a_new_video_waits_for_its_job(catalog: Catalog, project: ProjectRecord) -> None:
    created = await add(catalog, project)
    video = created.video
    assert (video.state, video.progress, video.published) == ("queued", 0, False)
    assert (video.title, video.name, video.project_key) == ("My film", "my-film", project.key)
    assert (video.uploaded_us, video.transcoding_us, video.completed_us) == (NOW_US, None, None)
    assert [(rung.number, rung.transcoded) for rung in created.rungs] == [(1, False)]
    assert await catalog.videos.find(video.id) == created
    job = await catalog.jobs.lease("worker", NOW_US, TRANSCODE)
    assert job is not None
    assert job.subject == video.id
    status = await catalog.videos.find_status(video.id)
    assert status is not None
    assert (status.state, status.attempt, status.reason) == ("queued", 1, "")


async def test_a_video_of_no_project_is_not_made(catalog: Catalog) -> None:
    with pytest.raises(NoSuchProject):
        await catalog.videos.add(99, arrived(), Change(NOW_US))
    assert await catalog.jobs.lease("worker", NOW_US, TRANSCODE) is None


@ON_BOTH
async def test_a_hash_names_one_thing_alone(catalog: Catalog, project: ProjectRecord) -> None:
    created = await add(catalog, project)
    stream = await catalog.streams.add(project.id, "Live", Change(NOW_US))
    for taken in (created.video.hash, stream.hash):
        with pytest.raises(HashTaken):
            await add(catalog, project, hash_=taken)
    assert (await listed(catalog, project)).total == 1
