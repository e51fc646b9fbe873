"""What a project uses, counted on both databases."""

from media.stream_keys import new_hash
from storage.catalog import Catalog
from storage.catalog.projects.usage import ProjectUsage
from storage.catalog.records.common import Change
from storage.catalog.records.uploads import NewUpload
from storage.catalog.records.videos import NewVideo
from tests.support.storage.new_videos import new_upload, new_video

# The same statements on both: what differs between them has tests of its own.
MINUTE = 60_000_000  # microseconds


def video(size: int, minutes: int = 0, source: str = "sources/x/1") -> NewVideo:
    return new_video(size=size, length_us=minutes * MINUTE, source=source)


def upload(length: int | None, replaces: int | None = None) -> NewUpload:
    name = new_hash()
    return new_upload(name, hash_=name, length=length, expires_us=1 << 60, replaces=replaces)


async def test_an_empty_project_uses_nothing(catalog: Catalog) -> None:
    project = (await catalog.projects.add("One", Change(1))).id
    assert await catalog.usage.find(project, 0) == ProjectUsage(
        streams=0, stored_bytes=0, file_us=0
    )


async def test_streams_files_and_unfinished_uploads_of_a_project_are_counted(
    catalog: Catalog,
) -> None:
    mine = (await catalog.projects.add("One", Change(1))).id
    other = (await catalog.projects.add("Other", Change(1))).id
    for project in (mine, mine, other):
        await catalog.streams.add(project, "Title", Change(1))
    old = await catalog.videos.add(mine, video(1000, minutes=5), Change(10))
    await catalog.videos.add(mine, video(200, minutes=3), Change(20))
    await catalog.videos.add(other, video(7777, minutes=7), Change(20))
    assert await catalog.usage.find(mine, 0) == ProjectUsage(
        streams=2, stored_bytes=1200, file_us=8 * MINUTE
    )
    assert (await catalog.usage.find(mine, 15)).file_us == 3 * MINUTE
    await catalog.uploads.begin(mine, upload(30), 30)
    await catalog.uploads.begin(mine, upload(4, replaces=old.video.id), 30)
    assert (await catalog.usage.find(mine, 0)).stored_bytes == 1234
    endless = upload(None)  # counts with what it may have
    await catalog.uploads.begin(mine, endless, 30)
    assert (await catalog.usage.find(mine, 0)).stored_bytes == 1234 + endless.most_bytes
