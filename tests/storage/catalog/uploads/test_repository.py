"""Resumable uploads in the catalog: who appends, what is safe, what comes of it."""

import asyncio
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.uploads import NewUpload, UploadDetails
from storage.catalog.records.videos import VideoFile, VideoQuery
from storage.errors import HashTaken, NoSuchLabel, NoSuchProject, UploadLinkSpent
from tests.support.sql import run_sql

NOW = 1_700_000_000_000_000
HOUR = 3600 * 1_000_000


def new(name: str = "one", **changed: object) -> NewUpload:
    values: dict[str, object] = {
        "name": name,
        "length": 100,
        "most_bytes": 1000,
        "metadata": "filename YQ==",
        "hash": f"hash{name:0>8}",
        "file_title": "a",
        "slug": "a",
        "wanted": UploadDetails(),
        "expires_us": NOW + HOUR,
    }
    return NewUpload(**{**values, **changed})  # pyright: ignore[reportArgumentType]  # by name


@pytest.fixture
async def project(catalog: Catalog) -> int:
    return (await catalog.installation.first_start(NOW)).project.id


async def count(catalog: Catalog) -> tuple[int, int]:
    """Return how many videos there are, and how many of them in the making."""
    project = await catalog.projects.find("1")
    assert project is not None
    every = await catalog.videos.find_page(project, VideoQuery(), 1)
    making = await catalog.videos.find_page(project, VideoQuery(phase="inprogress"), 1)
    return every.total, making.total


async def test_an_upload_and_its_video_begin_together(catalog: Catalog, project: int) -> None:
    wanted = UploadDetails(title="T", description="D", countries=(276,), tags=("new",))
    made = await catalog.uploads.begin(project, new(wanted=wanted), NOW)
    assert await catalog.uploads.find("one") == made
    assert (made.received, made.done, made.whole) == (0, False, False)
    found = await catalog.videos.find(made.video)
    assert found is not None
    video = found.video
    assert (video.state, video.title, video.size, video.hash) == ("uploading", "T", 100, made.hash)
    assert [tag.name for tag in found.tags] == ["new"]
    assert [each.number for each in found.countries] == [276]
    assert await count(catalog) == (1, 1)
    assert await catalog.jobs.lease("w", NOW + HOUR) is None


async def test_what_cannot_begin_leaves_nothing(catalog: Catalog, project: int) -> None:
    await catalog.uploads.begin(project, new(), NOW)
    with pytest.raises(NoSuchProject):
        await catalog.uploads.begin(99, new("two"), NOW)
    with pytest.raises(HashTaken):
        await catalog.uploads.begin(project, new("two", hash=new().hash), NOW)
    with pytest.raises(NoSuchLabel):
        await catalog.uploads.begin(project, new("two", wanted=UploadDetails(category=9)), NOW)
    with pytest.raises(UploadLinkSpent):
        await catalog.uploads.begin(project, new("two", link=9), NOW)
    assert await catalog.uploads.find("two") is None
    assert await count(catalog) == (1, 1)


async def test_the_newest_writer_alone_changes_anything(catalog: Catalog, project: int) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    assert await catalog.uploads.claim("none", "a") is None
    assert await catalog.uploads.claim("one", "a") == record
    assert await catalog.uploads.record_received(record, "a", 10, NOW + 2 * HOUR, NOW)
    assert await catalog.uploads.claim("one", "b") is not None
    assert await catalog.uploads.find_claimed("one", "a") is None
    assert not await catalog.uploads.record_received(record, "a", 20, NOW + 2 * HOUR, NOW)
    assert not await catalog.uploads.set_length("one", "a", 20, NOW)
    landed = VideoFile(source="sources/x/1", size=100)
    assert await catalog.uploads.finish("one", "a", landed, NOW, by=None) is None
    held = await catalog.uploads.find_claimed("one", "b")
    assert held is not None
    assert (held.received, held.expires_us) == (10, NOW + 2 * HOUR)


async def test_of_many_who_claim_at_once_one_goes_on(catalog: Catalog, project: int) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    writers = [f"w{number}" for number in range(8)]
    async with asyncio.TaskGroup() as tasks:
        for writer in writers:
            tasks.create_task(catalog.uploads.claim("one", writer))
    done = [
        await catalog.uploads.record_received(record, each, 1, NOW + HOUR, NOW) for each in writers
    ]
    assert done.count(True) == 1


async def test_a_finished_upload_is_a_video_with_a_job(catalog: Catalog, project: int) -> None:
    await catalog.uploads.begin(project, new(length=None), NOW)
    await catalog.uploads.claim("one", "a")
    assert await catalog.uploads.set_length("one", "a", 100, NOW)
    landed = VideoFile(
        source="sources/x/1", size=100, length_us=5, width=640, height=360, rungs=[(2, 640, 360)]
    )
    whole = await catalog.uploads.finish("one", "a", landed, NOW + 1, by=1)
    assert whole is not None
    assert (whole.video.state, whole.video.uploaded_us, whole.video.size) == (
        "queued",
        NOW + 1,
        100,
    )
    assert [rung.number for rung in whole.rungs] == [2]
    job = await catalog.jobs.lease("w", NOW + HOUR)
    assert job is not None
    done = await catalog.uploads.claim("one", "b")
    assert done is not None
    assert done.done
    # It is done once: nobody finishes it again, and to forget it leaves the video.
    assert await catalog.uploads.finish("one", "b", landed, NOW, by=1) is None
    assert await catalog.uploads.remove("one", "upload deleted", NOW, by=1)
    assert await count(catalog) == (1, 1)
    page = await catalog.events.find_page(project)
    assert [each.kind for each in page.items[:1]] == ["video added"]


async def test_an_upload_that_ends_takes_its_video_along(catalog: Catalog, project: int) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    assert await catalog.uploads.remove("one", "upload expired", NOW, by=None)
    assert not await catalog.uploads.remove("one", "upload expired", NOW, by=None)
    assert await catalog.videos.find(record.video) is None
    assert await count(catalog) == (0, 0)


async def test_a_deleted_video_leaves_no_upload(catalog: Catalog, project: int) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    await catalog.uploads.claim("one", "a")
    await catalog.videos.remove(record.video, NOW, by=1)
    assert await catalog.uploads.find("one") is None
    assert not await catalog.uploads.record_received(record, "a", 5, NOW + HOUR, NOW)
    assert await catalog.uploads.find_expired(NOW + 1, 10) == ("one",)


async def test_those_whose_time_is_over_are_named(catalog: Catalog, project: int) -> None:
    for name in ("one", "two"):
        await catalog.uploads.begin(project, new(name), NOW)
    assert await catalog.uploads.find_expired(NOW + HOUR - 1, 10) == ()
    assert await catalog.uploads.find_expired(NOW + HOUR, 10) == ("one", "two")
    assert not await catalog.uploads.remove("one", "x", NOW, by=None, expired=True)
    assert await catalog.uploads.find_open(["one", "nine"]) == {"one"}


async def test_progress_is_told_with_the_bytes(
    catalog: Catalog, project: int, place: str | Path
) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    await catalog.uploads.claim("one", "a")
    assert await catalog.uploads.record_received(record, "a", 40, NOW + HOUR, NOW)
    ((channel, event, body),) = run_sql(
        place, "SELECT channel, event, body FROM notices ORDER BY id DESC LIMIT 1"
    )
    assert str(channel).startswith(f"video.{record.hash} ")
    assert event == "progress"
    assert '"uploading":true' in str(body)
    assert '"received_bytes":40,"size":100' in str(body)
    # Clients pass over versions that they have seen.
    assert '"version":1,' in str(body)
    await catalog.uploads.record_received(record, "a", 50, NOW + HOUR, NOW)
    found = await catalog.videos.find(record.video)
    assert found is not None
    assert found.video.version == 2


async def test_a_link_is_used_once(catalog: Catalog, project: int) -> None:
    number, secret = await catalog.links.add(
        project, UploadDetails(title="T"), most_bytes=9, expires_us=NOW + HOUR, now_us=NOW, by=1
    )
    link = await catalog.links.find(secret)
    assert link is not None
    assert (link.id, link.wanted.title, link.most_bytes, link.used) == (number, "T", 9, False)
    assert await catalog.links.find(secret + "x") is None
    assert await catalog.links.find("x" * 10_000) is None
    results: list[bool] = []
    for name in ("one", "two"):
        try:
            await catalog.uploads.begin(project, new(name, link=number), NOW)
            results.append(True)
        except UploadLinkSpent:
            results.append(False)
    assert results == [True, False]
    assert await count(catalog) == (1, 1)
    assert await catalog.links.remove_expired(NOW + 30 * 24 * HOUR) == 0
    await catalog.uploads.remove("one", "upload expired", NOW, by=None)
    assert await catalog.links.remove_expired(NOW + 30 * 24 * HOUR) == 1
    assert await catalog.links.find(secret) is None


async def test_the_secret_of_a_link_is_nowhere(
    catalog: Catalog, project: int, place: str | Path
) -> None:
    _, secret = await catalog.links.add(
        project, UploadDetails(), most_bytes=9, expires_us=NOW + HOUR, now_us=NOW, by=1
    )
    rows = run_sql(place, "SELECT * FROM upload_links")
    rows += run_sql(place, "SELECT * FROM events")
    assert secret not in repr(rows)


async def test_two_catalogs_claim_the_same_upload(place: str | Path) -> None:
    async with open_catalog(place, migrate=True) as one, open_catalog(place, migrate=False) as two:
        project = (await one.installation.first_start(NOW)).project.id
        record = await one.uploads.begin(project, new(), NOW)
        assert await one.uploads.claim("one", "a") == record
        assert await two.uploads.claim("one", "b") == record
        assert not await one.uploads.record_received(record, "a", 5, NOW + HOUR, NOW)
        assert await two.uploads.record_received(record, "b", 6, NOW + HOUR, NOW)
