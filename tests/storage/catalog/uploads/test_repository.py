"""Resumable uploads in the catalog: which writer appends, what is safe, and the video."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.events.kinds import UploadDeletedEvent, UploadExpiredEvent
from storage.catalog.records.common import Change
from storage.catalog.records.uploads import UploadRecord
from storage.catalog.records.videos import VideoFile
from storage.catalog.videos.jobs import TRANSCODE
from storage.errors import UploadHeld
from storage.objects.upload_pieces import UploadPiece
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import count_videos, new_upload

NOW = 1_700_000_000_000_000
HOUR = 3600 * 1_000_000
new = partial(new_upload, expires_us=NOW + HOUR)


@ON_BOTH
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
    assert await catalog.uploads.finish("one", "a", landed, Change(NOW)) is None
    claimed = await catalog.uploads.find_claimed("one", "b")
    assert claimed is not None
    assert (claimed.received, claimed.expires_us) == (10, NOW + 2 * HOUR)


@ON_BOTH
async def test_of_many_writers_that_claim_at_once_one_continues(
    catalog: Catalog, project: int
) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    writers = [f"w{number}" for number in range(8)]
    async with asyncio.TaskGroup() as tasks:
        for writer in writers:
            tasks.create_task(catalog.uploads.claim("one", writer))
    outcomes = [
        await catalog.uploads.record_received(record, each, 1, NOW + HOUR, NOW) for each in writers
    ]
    assert outcomes.count(True) == 1


async def test_a_finished_upload_is_a_video_with_a_job(catalog: Catalog, project: int) -> None:
    await catalog.uploads.begin(project, new(length=None), NOW)
    await catalog.uploads.claim("one", "a")
    assert await catalog.uploads.set_length("one", "a", 100, NOW)
    landed = VideoFile(
        source="sources/x/1", size=100, length_us=5, width=640, height=360, rungs=[(2, 640, 360)]
    )
    whole = await catalog.uploads.finish("one", "a", landed, Change(NOW + 1, by=1))
    assert whole is not None
    assert (whole.video.state, whole.video.uploaded_us, whole.video.size) == (
        "queued",
        NOW + 1,
        100,
    )
    assert [rung.number for rung in whole.rungs] == [2]
    job = await catalog.jobs.lease("w", NOW + HOUR, TRANSCODE)
    assert job is not None
    claimed = await catalog.uploads.claim("one", "b")
    assert claimed is not None
    assert claimed.done
    # An upload finishes once: no writer finishes it again, and removing it leaves the video.
    assert await catalog.uploads.finish("one", "b", landed, Change(NOW, by=1)) is None
    assert await catalog.uploads.remove("one", UploadDeletedEvent, Change(NOW, by=1))
    assert await count_videos(catalog) == (1, 1)
    page = await catalog.events.find_page(project)
    assert [each.kind for each in page.items[:1]] == ["video added"]


async def test_an_upload_that_ends_takes_its_video_along(catalog: Catalog, project: int) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    assert await catalog.uploads.remove("one", UploadExpiredEvent, Change(NOW))
    assert not await catalog.uploads.remove("one", UploadExpiredEvent, Change(NOW))
    assert await catalog.videos.find(record.video) is None
    assert await count_videos(catalog) == (0, 0)


async def test_a_deleted_video_leaves_no_upload(catalog: Catalog, project: int) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    await catalog.uploads.claim("one", "a")
    await catalog.videos.remove(record.video, Change(NOW, by=1))
    assert await catalog.uploads.find("one") is None
    assert not await catalog.uploads.record_received(record, "a", 5, NOW + HOUR, NOW)
    assert await catalog.uploads.find_expired(NOW + 1, 10) == ("one",)


async def test_those_whose_time_is_over_are_named(catalog: Catalog, project: int) -> None:
    for name in ("one", "two"):
        await catalog.uploads.begin(project, new(name), NOW)
    assert await catalog.uploads.find_expired(NOW + HOUR - 1, 10) == ()
    assert await catalog.uploads.find_expired(NOW + HOUR, 10) == ("one", "two")
    assert not await catalog.uploads.remove("one", UploadExpiredEvent, Change(NOW), expired=True)
    assert await catalog.uploads.find_kept(["one", "nine"]) == {"one"}


async def test_progress_is_announced_with_the_bytes(
    catalog: Catalog, project: int, location: str | Path
) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    await catalog.uploads.claim("one", "a")
    assert await catalog.uploads.record_received(record, "a", 40, NOW + HOUR, NOW)
    ((channel, event, body),) = run_sql(
        location, "SELECT channel, event, body FROM notices ORDER BY id DESC LIMIT 1"
    )
    assert str(channel).startswith(f"video.{record.hash} ")
    assert event == "progress"
    assert '"uploading":true' in str(body)
    assert '"received_bytes":40,"size":100' in str(body)
    # Clients pass over versions that they have seen.
    assert '"version":1,' in str(body)
    await catalog.uploads.record_received(record, "a", 50, NOW + HOUR, NOW)
    video = await catalog.videos.find(record.video)
    assert video is not None
    assert video.video.version == 2


@ON_BOTH
async def test_two_catalogs_claim_the_same_upload(location: str | Path) -> None:
    async with (
        open_catalog(location, migrate=True) as one,
        open_catalog(location, migrate=False) as two,
    ):
        project = (await one.installation.first_start(NOW)).project.id
        record = await one.uploads.begin(project, new(), NOW)
        assert await one.uploads.claim("one", "a") == record
        assert await two.uploads.claim("one", "b") == record
        assert not await one.uploads.record_received(record, "a", 5, NOW + HOUR, NOW)
        assert await two.uploads.record_received(record, "b", 6, NOW + HOUR, NOW)


async def received(
    catalog: Catalog, record: UploadRecord, until: int, *pieces: UploadPiece, writer: str = "a"
) -> bool:
    return await catalog.uploads.record_received(record, writer, until, NOW + HOUR, NOW, pieces)


@ON_BOTH
async def test_pieces_are_known_with_the_bytes_that_they_have(
    catalog: Catalog, project: int, location: str | Path
) -> None:
    record = await catalog.uploads.begin(project, new(), NOW)
    other = await catalog.uploads.begin(project, new("two"), NOW)
    await catalog.uploads.claim("one", "a")
    await catalog.uploads.claim("two", "a")
    first, second, third = UploadPiece(0, 40, "x"), UploadPiece(40, 5, "y"), UploadPiece(45, 9, "z")
    assert await received(catalog, record, 45, first, second)
    assert await received(catalog, other, 40, first)
    assert await catalog.uploads.count_stored("one") == 45
    assert await catalog.uploads.find_pieces("one") == (first, second)
    # A writer that has lost the upload records nothing.
    assert not await received(catalog, record, 54, third, writer="b")
    assert await catalog.uploads.find_pieces("one") == (first, second)
    # Pieces beyond the received bytes are removed.
    upload = await catalog.uploads.find("one")
    assert upload is not None
    assert await received(catalog, upload, 40)
    assert await catalog.uploads.find_pieces("one") == (first,)
    assert await catalog.uploads.remove("one", UploadDeletedEvent, Change(NOW))
    assert await catalog.uploads.find_pieces("two") == (first,)
    landed = VideoFile(source="sources/x/1", size=40)
    assert await catalog.uploads.finish("two", "a", landed, Change(NOW)) is not None
    assert await catalog.uploads.count_stored("two") == 0
    assert run_sql(location, "SELECT count(*) FROM upload_pieces") == [(0,)]


async def test_an_upload_that_another_host_assembles_cannot_be_claimed(
    catalog: Catalog, project: int, location: str | Path
) -> None:
    await catalog.uploads.begin(project, new(), NOW)
    await catalog.uploads.claim("one", "a")
    assert not await catalog.uploads.hold("one", "b", 30)
    assert await catalog.uploads.hold("one", "a", 30)
    with pytest.raises(UploadHeld):
        await catalog.uploads.claim("one", "b")
    assert await catalog.uploads.find_claimed("one", "a") is not None
    assert await catalog.uploads.hold("one", "a", 0)
    assert await catalog.uploads.claim("one", "b") is not None
    # Its host died a while ago, or the clock was set back.
    for shift in ("-", "+ 3600000000 +"):
        assert await catalog.uploads.hold("one", "b", 30)
        run_sql(location, f"UPDATE uploads SET held_until_us = held_until_us {shift} 31000000")
        assert await catalog.uploads.claim("one", "b") is not None
    assert await catalog.uploads.hold("one", "b", 30)
    landed = VideoFile(source="sources/x/1", size=100)
    assert await catalog.uploads.finish("one", "b", landed, Change(NOW)) is not None
    claimed = await catalog.uploads.claim("one", "c")
    assert claimed is not None
    assert claimed.done
