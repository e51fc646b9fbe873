"""The file that a video had before: kept for seven days, taken back, counted and forgotten."""

import pytest

from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.videos import VideoFile, VideoRecord
from storage.errors import FileChanged, NoFormerFile
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.shared_engines import ON_BOTH

SECOND = VideoFile(source="sources/v/r-two", size=9, width=64, height=36, rungs=[(5, 64, 36)])
THIRD = VideoFile(source="sources/v/r-three", size=8)
WEEK_US = 7 * DAY_US


async def replaced(catalog: Catalog, project: ProjectRecord) -> VideoRecord:
    """Add a video and replace its file; return it as it was."""
    video = (await add(catalog, project)).video
    answer = await catalog.videos.replace(video.id, SECOND, Change(NOW_US, by=1))
    assert answer is not None
    assert answer[1] is None, "the first file is kept"
    return video


async def source_of(catalog: Catalog, video: int) -> str | None:
    found = await catalog.videos.find(video)
    assert found is not None
    return found.video.source


@ON_BOTH
async def test_a_former_file_is_taken_back_as_often_as_one_likes(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = await replaced(catalog, project)
    former = await catalog.former_files.find(video.id, NOW_US + WEEK_US - 1)
    assert former is not None
    assert (former.file.source, former.file.size) == (f"sources/{video.hash}/1", video.size)
    assert former.until_us == NOW_US + WEEK_US
    for number in range(2):
        back = await catalog.former_files.take_back(video.id, Change(NOW_US + 1 + number, by=1))
        assert back is not None
        wanted = SECOND.source if number else video.source
        assert (back.video.source, back.video.state) == (wanted, "queued")
        assert (back.video.size, back.video.width) == (
            (9, 64) if number else (video.size, video.width)
        )
    events = await catalog.events.find_page(project.id, subject=video.hash)
    assert [each.kind for each in events.items][:3] == [
        "video file taken back", "video file taken back", "video replaced",
    ]  # fmt: skip
    # Each is the number of a file of its own: what is cached of another is never wrong.
    assert [each.facts["generation"] for each in events.items[:3]] == [4, 3, 2]


@ON_BOTH
async def test_who_saw_another_file_does_not_undo_what_somebody_else_did(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = await replaced(catalog, project)
    files = catalog.former_files
    assert await files.take_back(video.id, Change(NOW_US + 1, by=1), uploaded_us=NOW_US) is not None
    with pytest.raises(FileChanged):
        await files.take_back(video.id, Change(NOW_US + 2, by=1), uploaded_us=NOW_US)
    assert await source_of(catalog, video.id) == video.source
    assert (
        await files.take_back(video.id, Change(NOW_US + 3, by=1), uploaded_us=NOW_US + 1)
        is not None
    )


@ON_BOTH
async def test_the_next_replacement_drops_the_file_before(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = await replaced(catalog, project)
    answer = await catalog.videos.replace(video.id, THIRD, Change(NOW_US + 5, by=1))
    assert answer is not None
    assert answer[1] == video.source
    former = await catalog.former_files.find(video.id, NOW_US + WEEK_US)
    assert former is not None
    assert former.file.source == SECOND.source


@ON_BOTH
async def test_after_seven_days_it_is_forgotten(catalog: Catalog, project: ProjectRecord) -> None:
    video = await replaced(catalog, project)
    assert await catalog.former_files.expire(NOW_US + WEEK_US - 1) is None
    assert await catalog.former_files.find(video.id, NOW_US + WEEK_US) is None
    with pytest.raises(NoFormerFile):
        await catalog.former_files.take_back(video.id, Change(NOW_US + WEEK_US, by=1))
    assert await source_of(catalog, video.id) == SECOND.source
    assert await catalog.former_files.expire(NOW_US + WEEK_US) == video.source
    assert await catalog.former_files.expire(NOW_US + WEEK_US) is None


async def test_what_was_never_replaced_has_none(catalog: Catalog, project: ProjectRecord) -> None:
    video = (await add(catalog, project)).video
    assert await catalog.former_files.find(video.id, NOW_US) is None
    with pytest.raises(NoFormerFile):
        await catalog.former_files.take_back(video.id, Change(NOW_US, by=1))
    assert await catalog.former_files.take_back(99, Change(NOW_US, by=1)) is None


async def test_it_counts_as_long_as_it_is_kept_and_goes_with_its_video(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = await replaced(catalog, project)
    (row,) = await catalog.references.find_references([video.hash])
    assert (row.source, row.former) == (SECOND.source, video.source)
    used = (await catalog.usage.find(project.id, 0)).stored_bytes
    assert used == SECOND.size + video.size
    await catalog.former_files.expire(NOW_US + WEEK_US)
    assert (await catalog.usage.find(project.id, 0)).stored_bytes == SECOND.size
    await catalog.videos.replace(video.id, THIRD, Change(NOW_US + WEEK_US, by=1))
    await catalog.videos.remove(video.id, Change(NOW_US + WEEK_US, by=1))
    assert await catalog.former_files.expire(NOW_US + 3 * WEEK_US) is None
    assert (await catalog.usage.find(project.id, 0)).stored_bytes == 0
