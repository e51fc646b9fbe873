"""The minutes of a file count after it was deleted or replaced, too, on both databases."""

from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.videos import VideoFile
from storage.catalog.schema.upload_tables import past_files
from storage.catalog.videos.past_files import PAST_DAYS
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video
from tests.support.storage.removed_projects import remove_rows

MINUTE = 60_000_000  # microseconds
NOW_US = 1_790_000_000_000_000


async def add(catalog: Catalog, project: ProjectRecord, minutes: int, now_us: int) -> int:
    video = new_video(length_us=minutes * MINUTE)
    return (await catalog.videos.add(project.id, video, Change(now_us))).video.id


async def minutes_since(catalog: Catalog, project: ProjectRecord, since_us: int) -> float:
    return (await catalog.usage.find(project.id, since_us)).file_us / MINUTE


async def kept_rows(database: Database) -> int:
    async with database.reading() as connection:
        return len((await connection.execute(past_files.select())).all())


@ON_BOTH
async def test_minutes_do_not_come_back(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    other = await catalog.projects.add("other", Change(NOW_US))
    video = await add(catalog, project, 5, NOW_US)
    later_us = NOW_US + 20 * DAY_US
    for generation, minutes in enumerate((7, 11), 2):
        file = VideoFile(source=f"s/x/{generation}", size=1, length_us=minutes * MINUTE)
        await catalog.videos.replace(video, file, Change(later_us, keep_us=DAY_US))
    assert await minutes_since(catalog, project, NOW_US) == 23
    # What was sent for it anew counts from then on.
    assert await minutes_since(catalog, project, later_us) == 18
    assert await catalog.former_files.take_back(video, Change(later_us)) is not None
    assert await minutes_since(catalog, project, NOW_US) == 30, "it is transcoded again"
    await catalog.videos.remove(video, Change(later_us))
    assert await minutes_since(catalog, project, NOW_US) == 30
    assert await minutes_since(catalog, project, later_us) == 25
    assert await minutes_since(catalog, other, NOW_US) == 0
    assert await kept_rows(database) == 4


@ON_BOTH
async def test_they_are_forgotten_when_they_do_not_count_any_more(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    for number in range(3):
        video = await add(catalog, project, 1, NOW_US + number)
        await catalog.videos.remove(video, Change(NOW_US + number))
    await catalog.videos.remove(await add(catalog, project, 1, NOW_US + 9), Change(NOW_US + 9))
    assert await kept_rows(database) == 4
    end_us = NOW_US + PAST_DAYS * DAY_US + 3
    await catalog.videos.remove(await add(catalog, project, 1, end_us), Change(end_us))
    assert await kept_rows(database) == 2


async def test_what_was_never_transcoded_does_not_count(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    coming = await catalog.videos.expect(project.id, new_video(size=0, source=""), NOW_US)
    for video in (coming, await add(catalog, project, 0, NOW_US)):
        await catalog.videos.remove(video, Change(NOW_US))
    assert await kept_rows(database) == 0


async def test_they_go_with_their_project(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    other = await catalog.projects.add("other", Change(NOW_US))
    for each in (project, other):
        await catalog.videos.remove(await add(catalog, each, 5, NOW_US), Change(NOW_US))
    await catalog.projects.remove(other.id, Change(NOW_US))
    await remove_rows(catalog)
    assert await kept_rows(database) == 1
