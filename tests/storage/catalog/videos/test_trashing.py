"""What a deleted video takes with it into the trash: its files, and the kinds of its work."""

from pathlib import Path

import msgspec

from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.videos import VideoFile
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

KEEP = Change(NOW_US + 1, by=1, keep_us=60_000_000)


@ON_BOTH
async def test_the_files_that_a_video_had_are_listed_with_it_and_count_once(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    video = (await add(catalog, project)).video
    for number in range(2):
        file = VideoFile(source=f"sources/{video.hash}/r-{number}", size=10)
        await catalog.videos.replace(video.id, file, KEEP)
    assert await catalog.videos.remove(video.id, KEEP) == video.hash
    (listed,) = (await catalog.trash.find_page(project.id, 1, NOW_US)).items
    assert (listed.kind, listed.size) == ("video", video.size + 10 + 10)
    ((text,),) = run_sql(location, "SELECT rows FROM trash")
    rows = msgspec.json.decode(str(text))
    assert [each["kind"] for each in rows["jobs"]] == ["transcode"]
    assert [each["size"] for each in rows["trash"]] == [video.size, 10]


async def test_an_upload_that_ends_without_a_file_is_not_kept(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    video = (await add(catalog, project)).video
    run_sql(location, f"UPDATE videos SET state = 'uploading' WHERE id = {video.id}")  # a number
    assert await catalog.videos.remove(video.id, KEEP) == video.hash
    assert await catalog.trash.count() == 0
