"""What a restored video does not do: it counts no minute twice, and an import begins anew."""

from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.videos.imports import NewImport
from storage.catalog.videos.jobs import IMPORT, PREVIEWS
from storage.errors import NoSuchProject
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video
from tests.support.storage.trashed_records import KEEP, LATER, NOW, Furnished


async def newest(catalog: Catalog, furnished: Furnished) -> int:
    return (await catalog.trash.find_page(furnished.project.id, 1, NOW)).items[0].id


@ON_BOTH
async def test_an_import_begins_anew(
    catalog: Catalog, location: str | Path, furnished: Furnished
) -> None:
    new = NewImport(url="https://example.org/a.mp4", host="example.org", video=new_video(source=""))
    whole = await catalog.imports.add(furnished.project.id, new, KEEP)
    run_sql(location, "UPDATE imports SET received = 5, validator = 'x'")
    assert await catalog.videos.remove(whole.video.id, KEEP) is not None
    assert run_sql(location, "SELECT * FROM imports") == []
    await catalog.trash.restore(await newest(catalog, furnished), LATER)
    rows = run_sql(location, "SELECT video_id, received, validator, url FROM imports")
    assert rows == [(whole.video.id, 0, None, new.url)]
    job = await catalog.jobs.lease("one", LATER.now_us, IMPORT)
    assert job is not None
    assert job.subject == whole.video.id


async def test_work_of_a_kind_that_is_not_known_is_left_out(
    catalog: Catalog, location: str | Path, furnished: Furnished
) -> None:
    run_sql(
        location,
        "INSERT INTO jobs (kind, video_id, state, attempt, run_after_us, facts, created_us,"
        f" updated_us, project_id) VALUES ('unheard of', {furnished.video}, 'queued', 3, 0, '{{}}',"
        f" 0, 0, {furnished.project.id})",
    )
    await catalog.videos.remove(furnished.video, KEEP)
    assert await catalog.trash.restore(await newest(catalog, furnished), LATER) is not None
    assert run_sql(location, "SELECT kind FROM jobs") == []
    assert not await catalog.jobs.has_due(LATER.now_us, PREVIEWS)
    whole = await catalog.videos.find_status(furnished.video)
    assert whole is not None
    assert whole.attempt == 3


async def test_nothing_is_restored_into_a_deleted_project(
    catalog: Catalog, furnished: Furnished
) -> None:
    await catalog.videos.remove(furnished.video, KEEP)
    number = await newest(catalog, furnished)
    await catalog.projects.remove(furnished.project.id, KEEP)
    with pytest.raises(NoSuchProject):
        await catalog.trash.restore(number, LATER)
