"""The files that a video had before: kept for some days, taken back, counted and forgotten."""

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


def change(now_us: int) -> Change:
    return Change(now_us, by=1, keep_us=WEEK_US)


async def replaced(catalog: Catalog, project: ProjectRecord) -> VideoRecord:
    """Add a video and replace its file; return it as it was."""
    video = (await add(catalog, project)).video
    answer = await catalog.videos.replace(video.id, SECOND, change(NOW_US))
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
        back = await catalog.former_files.take_back(video.id, change(NOW_US + 1 + number))
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
    assert await files.take_back(video.id, change(NOW_US + 1), uploaded_us=NOW_US) is not None
    with pytest.raises(FileChanged):
        await files.take_back(video.id, change(NOW_US + 2), uploaded_us=NOW_US)
    assert await source_of(catalog, video.id) == video.source
    assert await files.take_back(video.id, change(NOW_US + 3), uploaded_us=NOW_US + 1) is not None


@ON_BOTH
async def test_any_file_is_restored_and_the_newest_without_its_number(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video, files = await replaced(catalog, project), catalog.former_files
    answer = await catalog.videos.replace(video.id, THIRD, change(NOW_US + 5))
    assert answer is not None
    assert answer[1] is None, "nothing is to be deleted"
    newest, first = (await catalog.trash.find_page(project.id, 1, NOW_US + 6)).items
    former = await files.find(video.id, NOW_US + WEEK_US)
    assert former is not None
    assert former.file.source == SECOND.source
    assert (newest.kind, newest.record, newest.size) == ("file", video.id, SECOND.size)
    back = await files.take_back(video.id, change(NOW_US + 6), number=first.id)
    assert back is not None
    assert back.video.source == video.source
    kept = (await catalog.trash.find_page(project.id, 1, NOW_US + 6)).items
    assert [each.size for each in kept] == [THIRD.size, SECOND.size]
    with pytest.raises(NoFormerFile):
        await files.take_back(video.id, change(NOW_US + 7), number=first.id)


@ON_BOTH
async def test_a_file_is_deleted_at_once_if_nothing_is_kept(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = (await add(catalog, project)).video
    answer = await catalog.videos.replace(video.id, SECOND, Change(NOW_US))
    assert answer is not None
    assert answer[1] == video.source
    assert await catalog.former_files.find(video.id, NOW_US) is None


@ON_BOTH
async def test_after_seven_days_it_is_forgotten(catalog: Catalog, project: ProjectRecord) -> None:
    video = await replaced(catalog, project)
    assert await catalog.trash.expire(NOW_US + WEEK_US - 1) == 0
    assert await catalog.former_files.find(video.id, NOW_US + WEEK_US) is None
    with pytest.raises(NoFormerFile):
        await catalog.former_files.take_back(video.id, change(NOW_US + WEEK_US))
    assert await source_of(catalog, video.id) == SECOND.source
    assert await catalog.trash.expire(NOW_US + WEEK_US) == 1
    assert await catalog.trash.expire(NOW_US + WEEK_US) == 0


async def test_what_was_never_replaced_has_none(catalog: Catalog, project: ProjectRecord) -> None:
    video = (await add(catalog, project)).video
    assert await catalog.former_files.find(video.id, NOW_US) is None
    with pytest.raises(NoFormerFile):
        await catalog.former_files.take_back(video.id, change(NOW_US))
    assert await catalog.former_files.take_back(99, change(NOW_US)) is None


async def test_it_counts_as_long_as_it_is_kept_and_goes_with_its_video(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = await replaced(catalog, project)
    (row,) = await catalog.references.find_references([video.hash])
    assert (row.source, row.former) == (SECOND.source, {video.source})
    used = (await catalog.usage.find(project.id, 0)).stored_bytes
    assert used == SECOND.size + video.size
    await catalog.trash.expire(NOW_US + WEEK_US)
    assert (await catalog.usage.find(project.id, 0)).stored_bytes == SECOND.size
    await catalog.videos.replace(video.id, THIRD, change(NOW_US + WEEK_US))
    await catalog.videos.remove(video.id, Change(NOW_US + WEEK_US, by=1))
    assert await catalog.trash.expire(NOW_US + 3 * WEEK_US) == 0
    assert (await catalog.usage.find(project.id, 0)).stored_bytes == 0
