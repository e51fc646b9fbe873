"""A deleted project's contents are hidden at once, and its rows are removed in batches."""

from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.projects.removal import MAX_MEDIA_ROWS, MAX_OTHER_ROWS
from storage.catalog.records.common import Change, PlayerOptions, ProjectRecord
from storage.catalog.records.details import VideoDetails
from storage.catalog.schema.tables import METADATA, events, jobs, videos
from storage.catalog.schema.tables import tags as tag_rows
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import NoSuchProject
from storage.leases import LeaseLost
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.leases import queue_errand
from tests.support.storage.many_rows import copy_rows, padded
from tests.support.storage.new_videos import new_upload, new_video
from tests.support.storage.removed_projects import remove_rows

pytestmark = pytest.mark.anyio

NOW = 1_700_000_000_000_000
OF_PROJECT = [each.name for each in METADATA.sorted_tables if "project_id" in each.c]


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    await catalog.installation.first_start(NOW)
    return await catalog.projects.add("Doomed", Change(NOW))


async def film(catalog: Catalog, project: int, hash_: str) -> int:
    new = new_video(hash_)
    return (await catalog.videos.add(project, new, Change(NOW))).video.id


async def films(catalog: Catalog, location: str | Path, project: int, many: int) -> None:
    """Add so many films: one, and copies of its rows."""
    first = await film(catalog, project, "F" * 12)
    copy_rows(location, videos, first, many - 1, {"hash": padded(location, "V")})
    copies = {"video_id": f"{first} + n.n", "run_after_us": "jobs.run_after_us + n.n"}
    copy_rows(location, jobs, 1, many - 1, copies)
    copy_rows(
        location, events, _newest_event(location), many - 1, {"number": "events.number + n.n"}
    )
    of_all = "SELECT videos.id FROM videos JOIN jobs ON jobs.video_id = videos.id"
    assert len(run_sql(location, of_all)) == many


async def tags(catalog: Catalog, location: str | Path, project: int, many: int) -> None:
    """Add so many tags, in the same way."""
    tag = await catalog.labels.add("tag", project, "Tag", Change(NOW), active=True)
    named = {"name": "'tag ' || n.n", "name_fold": "'tag ' || n.n"}
    copy_rows(location, tag_rows, tag.id, many - 1, named)
    copy_rows(
        location, events, _newest_event(location), many - 1, {"number": "events.number + n.n"}
    )


def _newest_event(location: str | Path) -> int:
    [(number,)] = run_sql(location, "SELECT max(id) FROM events")
    return int(str(number))


async def upload(catalog: Catalog, project: int, name: str) -> None:
    await catalog.uploads.begin(project, new_upload(name, expires_us=NOW * 2), NOW)


async def test_nothing_of_a_deleted_project_is_found(
    catalog: Catalog, project: ProjectRecord
) -> None:
    stream = await catalog.streams.add(project.id, "A stream", Change(NOW))
    video = await film(catalog, project.id, "V" * 12)
    await upload(catalog, project.id, "name")
    tag = await catalog.labels.add("tag", project.id, "Tag", Change(NOW), active=True)
    player = await catalog.players.add(project.id, "Small", PlayerOptions(), Change(NOW))
    _, token = await catalog.tokens.add("theirs", project.id, Change(NOW), write=True)
    _, link = await catalog.links.add(
        project.id, VideoDetails(), Change(NOW), most_bytes=9, expires_us=NOW * 2
    )

    async def found() -> dict[str, object]:
        """Return what each question finds."""
        return {
            "project": await catalog.projects.find(project.key),
            "in the list": project in (await catalog.projects.find_page()).items,
            "stream": await catalog.streams.find(stream.id),
            "of all streams": stream.id in {each.id for each in await catalog.streams.find_all()},
            "by its key": await catalog.live_state.find_ingest(stream.key),
            "watched stream": await catalog.visibility.find(stream.hash),
            "video": await catalog.videos.find(video),
            "its status": await catalog.videos.find_status(video),
            "watched video": await catalog.visibility.find("V" * 12),
            "upload": await catalog.uploads.find("name"),
            "link": await catalog.links.find(link),
            "tag": await catalog.labels.find("tag", tag.id),
            "player": await catalog.players.find(player.id),
            "token": await catalog.tokens.authenticate(token),
            "stream's channel": await catalog.outbox.find_project("stream", stream.hash),
            "video's channel": await catalog.outbox.find_project("video", "V" * 12),
            "rows whose files are missed": await catalog.references.page("", 9),
        }

    assert [name for name, each in (await found()).items() if not each] == []
    assert await catalog.projects.remove(project.id, Change(NOW))
    assert {name: each for name, each in (await found()).items() if each} == {}
    assert await catalog.recordings.begin(stream.hash, "run", 1, NOW) is None
    assert await catalog.projects.edit(project.id, Change(NOW), name="Again") is None
    with pytest.raises(NoSuchProject):
        await catalog.streams.add(project.id, "Another", Change(NOW))
    with pytest.raises(NoSuchProject):
        await film(catalog, project.id, "W" * 12)
    # Its media stay referenced until they are removed: they are no orphans.
    assert await catalog.references.videos(["V" * 12]) == {"V" * 12}
    assert await catalog.references.streams([stream.hash]) == {stream.hash}


@ON_BOTH
async def test_rows_go_a_few_at_a_time_until_nothing_is_left(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    number = 2 * MAX_MEDIA_ROWS + 10
    await films(catalog, location, project.id, number)
    await catalog.streams.add(project.id, "A stream", Change(NOW))
    await upload(catalog, project.id, "name")
    run_sql(
        location,
        "INSERT INTO recordings (project_id, stream_id, stream_hash, run, hash, facts, created_us)"
        f" VALUES ({project.id}, 9, 'gone', 'run', 'recording000', '{{}}', 1)",
    )
    await catalog.labels.add("tag", project.id, "Tag", Change(NOW), active=True)
    counted = run_sql(location, f"SELECT count(*) FROM events WHERE project_id = {project.id}")
    before = await catalog.streams.find(1)
    assert await catalog.projects.remove(project.id, Change(NOW))
    # Everything is hidden, and all rows but those of tokens still exist.
    assert run_sql(location, "SELECT count(*) FROM videos") == [(number + 1,)]
    assert (
        run_sql(location, f"SELECT count(*) FROM events WHERE project_id = {project.id}") == counted
    )
    # The upload's video, the upload, the recording and the stream are four more.
    assert await remove_rows(catalog) == [MAX_MEDIA_ROWS, MAX_MEDIA_ROWS, 14]
    for table in OF_PROJECT:
        query = f"SELECT count(*) FROM {table} WHERE project_id = {project.id}"
        assert run_sql(location, query) == [(0,)], table
    for table in ("jobs", "videos", "uploads", "recordings"):
        assert run_sql(location, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert run_sql(location, f"SELECT id FROM projects WHERE id = {project.id}") == []
    assert await catalog.streams.find(1) == before
    assert await remove_rows(catalog) == []


@ON_BOTH
async def test_its_jobs_go_first_in_batches_and_workers_lose_them(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    await films(catalog, location, project.id, MAX_MEDIA_ROWS + 1)
    job = await catalog.jobs.lease("worker", NOW, TRANSCODE)
    assert job is not None
    await film(catalog, 1, "K" * 12)
    assert await catalog.projects.remove(project.id, Change(NOW))
    removed = catalog.removed_projects
    assert [await removed.remove_jobs(project.id) for _ in range(3)] == [True, True, False]
    with pytest.raises(LeaseLost):
        await catalog.jobs.extend(job, NOW)
    job_left = await catalog.jobs.lease("worker", NOW, TRANSCODE)
    assert job_left is not None
    assert job_left.project == 1
    assert await catalog.jobs.lease("worker", NOW, TRANSCODE) is None


async def test_what_has_no_media_goes_in_batches_too(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    await tags(catalog, location, project.id, MAX_OTHER_ROWS + 1)
    assert await catalog.projects.remove(project.id, Change(NOW))
    removed = catalog.removed_projects
    assert await removed.find_rows(project.id) is None
    turns = 1
    while not await removed.remove_rest(project.id):
        turns += 1
    # Two for tags, two for as many events, and one for the project.
    assert turns == 5
    assert await removed.remove_rest(project.id), "another process removed it"


async def test_work_that_was_queued_meanwhile_ends_with_the_project(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    assert await catalog.projects.remove(project.id, Change(NOW))
    assert not await catalog.removed_projects.remove_jobs(project.id)
    queue_errand(location, project.id)
    while not await catalog.removed_projects.remove_rest(project.id):
        pass
    assert run_sql(location, "SELECT id FROM jobs") == []
