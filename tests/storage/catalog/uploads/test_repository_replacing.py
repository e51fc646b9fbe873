"""Uploads and links that replace a video's file in the catalog; the video exists throughout."""

import asyncio
from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.events.kinds import UploadDeletedEvent, UploadExpiredEvent
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.uploads import NewUpload, UploadRecord
from storage.catalog.records.videos import VideoFile, VideoQuery, WholeVideo
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import NoSuchVideo, UploadInProgress, UploadLinkSpent, UploadLost
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_upload, new_video

NOW = 1_700_000_000_000_000
HOUR = 3600 * 1_000_000
FILE = VideoFile(source="sources/v/r-one", size=100, length_us=5, width=640, height=360)


def new(replaces: int, name: str = "one", link: int | None = None) -> NewUpload:
    return new_upload(name, link=link, replaces=replaces, expires_us=NOW + HOUR)


async def link_for(catalog: Catalog, video: int | None) -> int:
    number, _ = await catalog.links.add(
        1, VideoDetails(), Change(NOW, by=1), most_bytes=9, expires_us=NOW + HOUR, video=video
    )
    return number


@pytest.fixture
async def video(catalog: Catalog) -> WholeVideo:
    """A video whose file has arrived and waits for its job."""
    await catalog.installation.first_start(NOW)
    file = new_video(
        "hash00000001",
        title="T",
        file_title="t",
        name="t",
        size=7,
        length_us=1,
        width=64,
        height=64,
        source="sources/v/1",
    )
    return await catalog.videos.add(1, file, Change(NOW, by=1))


async def find_video(catalog: Catalog, video: WholeVideo) -> WholeVideo:
    stored = await catalog.videos.find(video.video.id)
    assert stored is not None
    return stored


async def begun(catalog: Catalog, video: WholeVideo, name: str = "one") -> UploadRecord:
    record = await catalog.uploads.begin(1, new(video.video.id, name), NOW)
    assert await catalog.uploads.claim(name, "a") == record
    return record


async def named(catalog: Catalog, video: WholeVideo) -> str | None:
    """Return the address of the file that the video's row names."""
    (row,) = await catalog.references.find_references([video.video.hash])
    return row.source


async def kinds(catalog: Catalog) -> list[str]:
    return [event.kind for event in (await catalog.events.find_page(1)).items]


async def test_a_video_is_as_it_was_until_the_last_byte(
    catalog: Catalog, video: WholeVideo, location: str | Path
) -> None:
    before = run_sql(location, "SELECT count(*) FROM notices")
    record = await begun(catalog, video)
    assert (record.video, record.hash, record.replaces) == (video.video.id, video.video.hash, True)
    assert await catalog.uploads.find("one") == record
    assert await catalog.uploads.set_length("one", "a", 100, NOW)
    assert await catalog.uploads.record_received(record, "a", 60, NOW + HOUR, NOW)
    assert await find_video(catalog, video) == video
    assert run_sql(location, "SELECT count(*) FROM notices") == before
    old = await catalog.jobs.lease("w", NOW + HOUR, TRANSCODE)
    replaced = await catalog.uploads.replace(record, "a", FILE, Change(NOW + 1, by=1, keep_us=HOUR))
    assert replaced is not None
    whole, dropped = replaced
    assert dropped is None, "the old file can be taken back"
    assert (whole.video.hash, whole.video.title) == (video.video.hash, "T")
    assert (whole.video.size, whole.video.state) == (100, "queued")
    assert await named(catalog, video) == "sources/v/r-one"
    job = await catalog.jobs.lease("w", NOW + HOUR, TRANSCODE)
    assert old is not None
    assert job is not None
    assert job.id != old.id
    finished = await catalog.uploads.find("one")
    assert finished is not None
    assert finished.done
    assert (await kinds(catalog))[:2] == ["video replaced", "video added"]
    # Removing the upload later leaves the video.
    assert await catalog.uploads.remove("one", UploadExpiredEvent, Change(NOW))
    assert (await find_video(catalog, video)).video.id == video.video.id


async def test_what_cannot_be_replaced_begins_nothing(catalog: Catalog, video: WholeVideo) -> None:
    other = await catalog.projects.add("Other", Change(NOW))
    for project, number in ((1, 99), (1, 1 << 40), (other.id, video.video.id)):
        with pytest.raises(NoSuchVideo):
            await catalog.uploads.begin(project, new(number), NOW)
    coming = new_video("hash00000002", file_title="", name="", size=0, source="")
    number = await catalog.videos.expect(1, coming, NOW)
    link = await link_for(catalog, number)
    with pytest.raises(UploadInProgress):
        await catalog.uploads.begin(1, new(number, link=link), NOW)
    with pytest.raises(UploadInProgress):
        await catalog.uploads.replace_through(link, number, FILE, NOW)
    assert await catalog.uploads.find("one") is None
    listed = await catalog.links.find_page(1, 1)
    assert [each.used_us for each in listed.items] == [None]
    for project, number in ((1, 99), (1, 1 << 40), (other.id, video.video.id)):
        with pytest.raises(NoSuchVideo):
            await catalog.links.add(
                project, VideoDetails(), Change(NOW, by=1), most_bytes=9, expires_us=NOW + HOUR,
                video=number,
            )  # fmt: skip


async def test_a_writer_that_lost_its_upload_replaces_nothing(
    catalog: Catalog, video: WholeVideo
) -> None:
    record = await begun(catalog, video)
    await catalog.uploads.claim("one", "b")
    with pytest.raises(UploadLost):
        await catalog.uploads.replace(record, "a", FILE, Change(NOW, by=1))
    await catalog.uploads.remove("one", UploadDeletedEvent, Change(NOW, by=1))
    with pytest.raises(UploadLost):
        await catalog.uploads.replace(record, "b", FILE, Change(NOW, by=1))
    assert await find_video(catalog, video) == video


@pytest.mark.parametrize("expired", [True, False])
async def test_an_upload_that_ends_leaves_the_video(
    catalog: Catalog, video: WholeVideo, expired: bool
) -> None:
    await begun(catalog, video)
    end = UploadExpiredEvent if expired else UploadDeletedEvent
    assert await catalog.uploads.remove("one", end, Change(NOW + HOUR), expired=expired)
    assert await find_video(catalog, video) == video
    page = await catalog.events.find_page(1)
    event = page.items[0]
    assert (event.kind, event.subject, event.facts) == (
        end().kind, video.video.hash, {"replacing": True},
    )  # fmt: skip


async def test_a_deleted_video_ends_its_uploads_and_its_links(
    catalog: Catalog, video: WholeVideo
) -> None:
    number, secret = await catalog.links.add(
        1,
        VideoDetails(),
        Change(NOW, by=1),
        most_bytes=9,
        expires_us=NOW + HOUR,
        video=video.video.id,
    )
    other = await link_for(catalog, None)
    link_found = await catalog.links.find(secret)
    assert link_found is not None
    assert link_found.video == video.video.id
    record = await begun(catalog, video)
    await catalog.uploads.begin(1, new(video.video.id, "two", number), NOW)
    await catalog.videos.remove(video.video.id, Change(NOW, by=1))
    assert await catalog.uploads.replace(record, "a", FILE, Change(NOW, by=1)) is None
    assert await catalog.uploads.replace_through(number, video.video.id, FILE, NOW) is None
    assert await catalog.links.find(secret) is None
    assert [each.id for each in (await catalog.links.find_page(1, 1)).items] == [other]
    assert await catalog.uploads.find("one") is None
    assert await catalog.uploads.find_expired(NOW + 1, 10) == ("one",)
    assert await catalog.uploads.find_kept(["two"]) == frozenset()
    assert await catalog.jobs.lease("w", NOW + HOUR, TRANSCODE) is None


async def test_a_link_for_a_video_is_used_once(catalog: Catalog, video: WholeVideo) -> None:
    number = await link_for(catalog, video.video.id)
    assert await catalog.uploads.replace_through(number, video.video.id, FILE, NOW) is not None
    with pytest.raises(UploadLinkSpent):
        await catalog.uploads.replace_through(number, video.video.id, FILE, NOW)
    with pytest.raises(UploadLinkSpent):
        await catalog.uploads.begin(1, new(video.video.id, link=number), NOW)
    assert await named(catalog, video) == FILE.source
    (listed,) = (await catalog.links.find_page(1, 1)).items
    assert (listed.video, listed.used_us) == (video.video.id, NOW)


async def test_a_deleted_link_ends_what_came_through_it_and_the_video_stays(
    catalog: Catalog, video: WholeVideo
) -> None:
    number = await link_for(catalog, video.video.id)
    await catalog.uploads.begin(1, new(video.video.id, link=number), NOW)
    assert await catalog.uploads.remove_link(1, number, Change(NOW, by=1)) == ("one",)
    assert await find_video(catalog, video) == video
    assert (await kinds(catalog))[:2] == ["upload link deleted", "upload deleted"]


@ON_BOTH
async def test_files_that_come_at_once_leave_one_and_one_job(
    catalog: Catalog, video: WholeVideo
) -> None:
    """Each call returns the file that it replaced: all files but one are replaced, each once."""
    number = video.video.id
    records = [await begun(catalog, video, name) for name in ("one", "two", "three")]
    link = await link_for(catalog, number)
    before: list[str | None] = []

    def file(name: str) -> VideoFile:
        return VideoFile(source=f"sources/v/r-{name}", size=1)

    async def by_upload(record: UploadRecord) -> None:
        replaced = await catalog.uploads.replace(record, "a", file(record.name), Change(NOW, by=1))
        assert replaced is not None
        before.append(replaced[1])

    async def by_form(name: str) -> None:
        replaced = await catalog.videos.replace(number, file(name), Change(NOW, by=1))
        assert replaced is not None
        before.append(replaced[1])

    async def by_link() -> None:
        replaced = await catalog.uploads.replace_through(link, number, file("link"), NOW)
        assert replaced is not None
        before.append(replaced[1])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(by_form("form"))
        for record in records:
            tasks.create_task(by_upload(record))
        tasks.create_task(by_link())
        tasks.create_task(by_form("last"))
    names = {"one", "two", "three", "form", "link", "last"}
    files = {"sources/v/1", *(f"sources/v/r-{name}" for name in names)}
    stands = await named(catalog, video)
    assert stands is not None
    # Nothing is kept: each dropped the file that it replaced.
    assert sorted(map(str, before)) == sorted(files - {stands})
    assert (await kinds(catalog)).count("video replaced") == 6
    assert await catalog.jobs.lease("w", NOW + HOUR, TRANSCODE) is not None
    assert await catalog.jobs.lease("v", NOW + HOUR, TRANSCODE) is None
    project = await catalog.projects.find("1")
    assert project is not None
    making = await catalog.videos.find_page(project, VideoQuery(phase="inprogress"), 1)
    assert making.total == 1


@ON_BOTH
async def test_a_deletion_meanwhile_causes_no_deadlock(catalog: Catalog, video: WholeVideo) -> None:
    """Deleting a video, ending its link and uploading through it lock the rows in one order."""
    number = video.video.id
    link = await link_for(catalog, number)
    record = await begun(catalog, video)
    await catalog.uploads.begin(1, new(number, "two", link), NOW)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(catalog.uploads.record_received(record, "a", 5, NOW + HOUR, NOW))
        tasks.create_task(catalog.uploads.remove_link(1, link, Change(NOW, by=1)))
        tasks.create_task(catalog.videos.remove(number, Change(NOW, by=1)))
        tasks.create_task(catalog.uploads.remove("two", UploadDeletedEvent, Change(NOW, by=1)))
    assert await catalog.videos.find(number) is None
    assert (await catalog.links.find_page(1, 1)).items == ()
