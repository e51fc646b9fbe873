"""The previews of recordings in the catalog: due with the video, named when their job ends."""

import pytest

from storage.catalog import Catalog
from storage.catalog.records.common import Change
from storage.catalog.records.transcoding import MadePreviews, PreviewWork
from storage.catalog.records.videos import WholeVideo
from storage.catalog.videos.jobs import IMPORT, PREVIEWS, TRANSCODE
from storage.catalog.videos.recordings import BORROWED_POSTERS, MadeRecording, RecordedRung
from storage.leases import Lease, LeaseLost

# The same statements on both: what differs between them has tests of its own.
NOW_US = 1_769_860_859_123_456
RUNG = RecordedRung(number=1, width=640, height=360, size=1000)
MADE = MadePreviews(previews="previews-1-1", size=700)
WITH_POSTER = MadePreviews(posters="poster-1-1", poster_labels=("360p",))


async def recorded(
    catalog: Catalog, *rungs: RecordedRung, posters: str | None = "poster-1-1"
) -> WholeVideo:
    """Return a recording that has just become a video; `posters` is the folder of its posters."""
    project = await catalog.projects.add("films", Change(NOW_US))
    stream = await catalog.streams.add(project.id, "The news", Change(NOW_US))
    row = await catalog.recordings.begin(stream.key.hash, "20260131T120000123", 30, NOW_US)
    assert row is not None
    recording = MadeRecording(
        media="1-1",
        size=5000,
        length_us=6_500_000,
        width=640,
        height=360,
        rungs=rungs,
        posters=posters,
    )
    video = await catalog.recordings.finish(row, recording, NOW_US, str.lower)
    assert video is not None
    return await whole(catalog, video)


async def whole(catalog: Catalog, video: int) -> WholeVideo:
    whole_video = await catalog.videos.find(video)
    assert whole_video is not None
    return whole_video


async def lease(catalog: Catalog, owner: str = "worker", later_us: int = 0) -> Lease | None:
    return await catalog.jobs.lease(owner, NOW_US + later_us, PREVIEWS)


async def lease_job(catalog: Catalog) -> Lease:
    job = await lease(catalog)
    assert job is not None
    return job


async def folder(catalog: Catalog, video: int) -> str | None:
    return (await catalog.transcoding.find_folders(video))[2]


async def test_a_recording_is_due_for_previews_and_nothing_else(catalog: Catalog) -> None:
    video = (await recorded(catalog, RUNG)).video
    assert not await catalog.jobs.has_due(NOW_US, TRANSCODE)
    assert await catalog.jobs.lease("worker", NOW_US, IMPORT) is None
    job = await lease_job(catalog)
    assert job.subject == video.id
    work = await catalog.previews.begin(job, NOW_US)
    assert work == PreviewWork(hash=video.hash, generation=1, media="1-1")
    assert (await whole(catalog, video.id)).video.state == "completed"


async def test_sound_alone_is_due_for_nothing(catalog: Catalog) -> None:
    await recorded(catalog)
    assert await lease(catalog) is None


async def test_previews_are_named_with_the_end_of_their_job(catalog: Catalog) -> None:
    before = await recorded(catalog, RUNG)
    video = before.video.id
    notices, _ = await catalog.outbox.read_after(0, 100)
    job = await lease_job(catalog)
    await catalog.previews.finish(job, MADE, NOW_US + 5)
    after = await whole(catalog, video)
    assert await folder(catalog, video) == "previews-1-1"
    assert after.video.storage_size == before.video.storage_size + 700
    assert after.video.version == before.video.version + 1
    assert after.video.state == "completed"
    (notice,), _ = await catalog.outbox.read_after(notices[-1].id, 100)
    assert notice.event == "completed"
    assert f"video.{after.video.hash}" in notice.channel.split()
    assert await lease(catalog, later_us=500_000_000) is None
    with pytest.raises(LeaseLost):
        await catalog.previews.finish(job, MadePreviews(previews="previews-1-2"), NOW_US)
    assert await folder(catalog, video) == "previews-1-1"


@pytest.mark.parametrize("posters", [None, BORROWED_POSTERS])
async def test_a_recordings_own_poster_replaces_the_streams(
    catalog: Catalog, posters: str | None
) -> None:
    before = await recorded(catalog, RUNG, posters=posters)
    job = await lease_job(catalog)
    assert (await catalog.previews.begin(job, NOW_US)).needs_poster
    assert await catalog.previews.finish(job, WITH_POSTER, NOW_US + 5) == posters
    after = await whole(catalog, before.video.id)
    assert (after.video.posters, after.video.labels) == ("poster-1-1", "360p")
    assert after.video.storage_size == before.video.storage_size
    assert after.video.version == before.video.version + 1


async def test_a_poster_that_the_owner_sent_meanwhile_stays(catalog: Catalog) -> None:
    video = (await recorded(catalog, RUNG, posters=BORROWED_POSTERS)).video.id
    job = await lease_job(catalog)
    await catalog.videos.set_posters(video, "own-abc", ("360p",), Change(NOW_US))
    assert await catalog.previews.finish(job, WITH_POSTER, NOW_US + 5) == "poster-1-1"
    assert (await whole(catalog, video)).video.posters == "own-abc"


@pytest.mark.parametrize("failed", [True, False])
async def test_an_end_without_previews_changes_nothing(catalog: Catalog, failed: bool) -> None:
    before = await recorded(catalog, RUNG)
    job = await lease_job(catalog)
    if failed:
        await catalog.previews.fail(job)
    else:
        await catalog.previews.finish(job, MadePreviews(), NOW_US)
    assert await whole(catalog, before.video.id) == before
    assert await folder(catalog, before.video.id) is None
    assert await lease(catalog, later_us=500_000_000) is None


async def test_a_failed_attempt_waits_and_one_given_back_does_not(catalog: Catalog) -> None:
    before = await recorded(catalog, RUNG)
    await catalog.jobs.requeue(await lease_job(catalog), NOW_US, failed=False)
    job = await lease_job(catalog)
    assert (job.attempt, job.failures) == (2, 0)
    await catalog.jobs.requeue(job, NOW_US, failed=True)
    assert await lease(catalog, later_us=PREVIEWS.pause_us(1) - 1) is None
    again = await lease(catalog, later_us=PREVIEWS.pause_us(1))
    assert again is not None
    assert (again.attempt, again.failures) == (3, 1)
    assert (await whole(catalog, before.video.id)).video.state == "completed"


async def test_of_a_deleted_video_everything_is_refused(catalog: Catalog) -> None:
    before = await recorded(catalog, RUNG)
    job = await lease_job(catalog)
    await catalog.videos.remove(before.video.id, Change(NOW_US))
    for refused in (
        catalog.previews.begin(job, NOW_US),
        catalog.previews.finish(job, MADE, NOW_US),
        catalog.previews.fail(job),
        catalog.jobs.requeue(job, NOW_US, failed=True),
    ):
        with pytest.raises(LeaseLost):
            await refused
