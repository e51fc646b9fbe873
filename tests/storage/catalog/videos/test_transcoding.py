"""The transcoding of a video as its row, its channel, its events and the totals show it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.events import broadcast
from storage.catalog.queries import counters
from storage.catalog.records.common import Change
from storage.catalog.records.transcoding import MadeRung, MadeVideo, PlannedRung, VideoWork
from storage.catalog.records.videos import WholeVideo
from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import LEASE_US, Lease, LeaseLost
from tests.support.storage.new_videos import new_video

# The same statements on both: what differs between them has tests of its own.
NOW = 1_800_000_000_000_000
LATER = NOW + 1_000_000
PLAN = (
    PlannedRung(number=3, width=1280, height=720),
    PlannedRung(number=1, width=640, height=360),
)
MADE = MadeVideo(
    media="1-1",
    size=5_000,
    length_us=2_000_000,
    rungs=(MadeRung(number=3, size=3_000, seconds=2), MadeRung(number=1, size=1_000, seconds=1)),
    posters="poster-1-1",
    poster_labels=("720p", "360p"),
    warnings=("Some pictures are damaged and could not be decoded.",),
)


@pytest.fixture
async def database(location: str | Path, catalog: Catalog) -> AsyncGenerator[Database]:
    await catalog.installation.first_start(NOW)
    async with open_database(database_url(location), create=False) as opened:
        yield opened


@pytest.fixture
async def video(catalog: Catalog, database: Database) -> int:
    return await added(catalog)


async def added(catalog: Catalog, posters: str | None = None) -> int:
    file = new_video(posters=posters, poster_labels=("360p",) if posters else ())
    return (await catalog.videos.add(1, file, Change(NOW))).video.id


async def begun(catalog: Catalog, now_us: int = NOW, owner: str = "one") -> tuple[Lease, VideoWork]:
    job = await catalog.jobs.lease(owner, now_us, TRANSCODE)
    assert job is not None
    return job, await catalog.transcoding.begin(job, now_us)


async def planned(catalog: Catalog, job: Lease) -> None:
    await catalog.transcoding.plan(job, PLAN, NOW, length_us=2_100_000, width=1280, height=720)


async def find_video(catalog: Catalog, video: int) -> WholeVideo:
    whole = await catalog.videos.find(video)
    assert whole is not None
    return whole


async def queued_notices(database: Database) -> list[tuple[str, dict[str, object]]]:
    """Return the events and bodies of all notices, in order."""
    rows, _ = await broadcast.BroadcastOutbox(database).read_after(0, 100)
    return [(row.event, json.loads(row.body)) for row in rows]


async def kinds(catalog: Catalog) -> list[str]:
    events = (await catalog.events.find_page(1)).items
    return [each.kind for each in events if "video" in each.kind or "transcoding" in each.kind]


async def count(database: Database, kind: str) -> int:
    async with database.reading() as connection:
        return await counters.find(connection, 1, f"videos.{kind}")


async def test_a_beginning_records_its_time_and_returns_the_work(
    catalog: Catalog, database: Database, video: int
) -> None:
    before = (await find_video(catalog, video)).video
    _, work = await begun(catalog, LATER)
    after = (await find_video(catalog, video)).video
    assert work == VideoWork(
        video=video,
        hash=before.hash,
        source=f"sources/{before.hash}/1",
        generation=1,
        media=None,
        posters=None,
    )
    assert (before.transcoding_us, after.transcoding_us) == (None, LATER)
    assert (after.state, after.progress, after.published) == ("transcoding", 0, False)
    assert (after.version, after.updated_us) == (before.version + 1, LATER)
    assert [event for event, _ in await queued_notices(database)] == ["progress"]


async def test_a_plan_lists_the_rungs_before_any_plays(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await planned(catalog, job)
    await planned(catalog, job)
    whole = await find_video(catalog, video)
    assert (whole.video.length_us, whole.video.width, whole.video.height) == (2_100_000, 1280, 720)
    assert [(rung.number, rung.width, rung.transcoded) for rung in whole.rungs] == [
        (1, 640, False),
        (3, 1280, False),
    ]


async def test_what_plays_is_listed_as_playable_while_another_attempt_begins(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await planned(catalog, job)
    own = MadeVideo(
        media="1-1", size=9, length_us=1, rungs=(MadeRung(number=3, size=9, seconds=0),),
        posters=None, poster_labels=(),
    )  # fmt: skip
    await catalog.transcoding.publish_partial(job, own, NOW)
    again, _ = await begun(catalog, NOW + LEASE_US + 1, owner="two")
    await planned(catalog, again)
    assert {rung.number: rung.transcoded for rung in (await find_video(catalog, video)).rungs} == {
        1: False,
        3: True,
    }
    await catalog.transcoding.plan(again, PLAN[1:], NOW, length_us=1, width=640, height=360)
    assert [
        (rung.number, rung.transcoded) for rung in (await find_video(catalog, video)).rungs
    ] == [(1, False)]


async def test_an_endless_eta_is_stored_as_the_largest_that_a_row_can_hold(
    catalog: Catalog, database: Database, video: int
) -> None:
    """A file claims to last a day, of which an hour of work made next to nothing."""
    job, _ = await begun(catalog)
    await catalog.transcoding.progress(job, 0, 1 << 40, NOW)
    assert (await find_video(catalog, video)).video.eta == (1 << 31) - 1


async def test_progress_never_falls_and_is_not_whole_before_it_plays(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    progress: list[tuple[int, int]] = []
    for percent, eta in ((10, 90), (7, 95), (60, 40), (100, 1)):
        await catalog.transcoding.progress(job, percent, eta, NOW)
        record = (await find_video(catalog, video)).video
        progress.append((record.progress, record.eta))
    assert progress == [(10, 90), (10, 95), (60, 40), (99, 1)]
    bodies = [body for event, body in await queued_notices(database) if event == "progress"]
    assert [body["transcoding_progress"] for body in bodies] == [0, 10, 10, 60, 99]
    versions = [body["version"] for body in bodies]
    assert versions == sorted(set(versions), key=versions.index)


async def test_progress_extends_the_lease_and_is_announced_only_where_it_changed(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await catalog.transcoding.progress(job, 5, 9, NOW + LEASE_US)
    await catalog.transcoding.progress(job, 5, 9, NOW + LEASE_US)
    assert await catalog.jobs.lease("two", NOW + 2 * LEASE_US, TRANSCODE) is None
    assert len(await queued_notices(database)) == 2


async def test_a_video_that_is_complete_is_shown_with_all_that_was_made(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await planned(catalog, job)
    replaced = await catalog.transcoding.complete(job, MADE, LATER)
    whole = await find_video(catalog, video)
    record = whole.video
    assert replaced == ()
    assert (record.state, record.progress, record.eta) == ("completed", 100, 0)
    assert (record.completed_us, record.published, record.published_us) == (LATER, True, LATER)
    assert (record.media, record.posters, record.labels) == ("1-1", "poster-1-1", "720p,360p")
    assert (record.image_us, record.storage_size, record.length_us) == (LATER, 5_000, 2_000_000)
    assert [(rung.number, rung.transcoded, rung.size, rung.transcode_seconds) for rung in
            whole.rungs] == [(1, True, 1_000, 1), (3, True, 3_000, 2)]  # fmt: skip
    status = await catalog.videos.find_status(video)
    assert status is not None
    assert (status.state, status.reason, status.warnings) == ("completed", "", MADE.warnings)
    event, body = (await queued_notices(database))[-1]
    assert (event, body["completed"], body["published"]) == ("completed", True, True)
    assert await kinds(catalog) == ["video completed", "transcoding began", "video added"]
    assert (await count(database, "inprogress"), await count(database, "completed")) == (0, 1)
    assert await catalog.jobs.lease("two", LATER + 9 * LEASE_US, TRANSCODE) is None


async def test_a_video_that_its_owner_hid_stays_hidden(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await catalog.videos.unpublish(video, Change(NOW))
    await catalog.transcoding.complete(job, MADE, LATER)
    record = (await find_video(catalog, video)).video
    assert (record.media, record.published, record.published_us) == ("1-1", False, None)


async def test_posters_of_the_owner_stay(catalog: Catalog, database: Database) -> None:
    video = await added(catalog, posters="own-abc")
    job, _ = await begun(catalog)
    replaced = await catalog.transcoding.complete(job, MADE, LATER)
    record = (await find_video(catalog, video)).video
    assert (record.posters, record.labels) == ("own-abc", "360p")
    assert replaced == ("poster-1-1",)


async def test_a_failure_has_a_reason_and_can_be_queued_again(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await catalog.transcoding.progress(job, 40, 5, NOW)
    await catalog.transcoding.fail(job, "The file is cut off.", LATER)
    status = await catalog.videos.find_status(video)
    assert status is not None
    assert (status.state, status.reason, status.eta) == ("failed", "The file is cut off.", 0)
    event, body = (await queued_notices(database))[-1]
    assert (event, body["failed"], body["completed"]) == ("failed", True, False)
    assert (await kinds(catalog))[0] == "video failed"
    assert (await count(database, "inprogress"), await count(database, "failed")) == (0, 1)
    await catalog.videos.retry(video, Change(LATER))
    again, work = await begun(catalog, LATER, "two")
    assert (again.attempt, work.video) == (2, video)
    assert (await count(database, "inprogress"), await count(database, "failed")) == (1, 0)


@pytest.mark.parametrize(("failed", "pause"), [(True, TRANSCODE.pause_us(1)), (False, 0)])
async def test_a_job_that_is_put_back_waits_as_queued(
    catalog: Catalog, database: Database, video: int, failed: bool, pause: int
) -> None:
    job, _ = await begun(catalog)
    await catalog.transcoding.progress(job, 40, 5, NOW)
    await catalog.transcoding.requeue(job, NOW, failed=failed)
    record = (await find_video(catalog, video)).video
    assert (record.state, record.progress, record.eta) == ("queued", 40, 0)
    again, _ = await begun(catalog, NOW + pause, "two")
    assert again.failures == int(failed)
    first = (await find_video(catalog, video)).video
    assert first.transcoding_us == NOW


async def test_a_worker_that_lost_the_job_changes_nothing(
    catalog: Catalog, database: Database, video: int
) -> None:
    asleep, _ = await begun(catalog)
    await planned(catalog, asleep)
    now = NOW + LEASE_US + 1
    awake, _ = await begun(catalog, now, "two")
    before, notices_before = await find_video(catalog, video), len(await queued_notices(database))
    transcoding = catalog.transcoding
    with pytest.raises(LeaseLost):
        await transcoding.begin(asleep, now)
    with pytest.raises(LeaseLost):
        await transcoding.plan(asleep, (), now, length_us=0, width=0, height=0)
    with pytest.raises(LeaseLost):
        await transcoding.progress(asleep, 90, 1, now)
    with pytest.raises(LeaseLost):
        await transcoding.complete(asleep, MADE, now)
    with pytest.raises(LeaseLost):
        await transcoding.fail(asleep, "no", now)
    with pytest.raises(LeaseLost):
        await transcoding.requeue(asleep, now, failed=True)
    assert await find_video(catalog, video) == before
    assert len(await queued_notices(database)) == notices_before
    await transcoding.complete(awake, MADE, now)
    assert (await count(database, "inprogress"), await count(database, "completed")) == (0, 1)


async def test_a_video_that_was_deleted_is_a_lost_job(
    catalog: Catalog, database: Database, video: int
) -> None:
    job, _ = await begun(catalog)
    await catalog.videos.remove(video, Change(NOW))
    with pytest.raises(LeaseLost):
        await catalog.transcoding.complete(job, MADE, NOW)
