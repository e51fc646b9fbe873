"""Clips in the catalog, on both databases: their sources, and the fields that they copy."""

import msgspec
import pytest

from media.countries import find_country
from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord, StreamRecord
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.videos.clips import NewClip
from storage.catalog.videos.jobs import PREVIEWS
from storage.catalog.videos.recordings import MadeRecording, RecordedRung
from storage.errors import NoSuchProject
from tests.support.shared_engines import ON_BOTH

NOW_US = 1_769_860_859_123_456  # 2026-01-31T12:00:59
HOUR_US = 3_600_000_000
MADE = MadeRecording(
    media="1-1",
    size=5000,
    length_us=6_500_000,
    width=640,
    height=360,
    rungs=(RecordedRung(number=1, width=640, height=360, size=1000),),
)
HASHES = ("clip00000001", "clip00000002")


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    await catalog.projects.add("the first", Change(NOW_US))  # which cannot be deleted
    return await catalog.projects.add("films", Change(NOW_US))


@pytest.fixture
async def stream(catalog: Catalog, project: ProjectRecord) -> StreamRecord:
    return await catalog.streams.add(project.id, "The news", Change(NOW_US))


async def recorded(
    catalog: Catalog, stream: StreamRecord, run: str, from_us: int, *, deleted: bool = False
) -> int:
    """Add the recording of a run that lasted an hour; return the number of its video.

    `deleted`: the stream is put into the trash before the run ends.
    """
    row = await catalog.recordings.begin(stream.key.hash, run, 30, from_us)
    assert row is not None
    if deleted:
        assert await catalog.streams.remove(stream.id, Change(from_us, keep_us=DAY_US))
    recording = msgspec.structs.replace(MADE, time=(from_us, from_us + HOUR_US))
    video = await catalog.recordings.finish(row, recording, from_us + HOUR_US, str.lower)
    assert video is not None
    return video


async def add(
    catalog: Catalog, stream: StreamRecord, hash_: str, *, title: str = "", video: int | None = None
) -> WholeVideo:
    clip = NewClip(hash=hash_, made=MADE, from_us=NOW_US, title=title or None, video=video)
    clip_record = await catalog.clips.add(
        stream.id, clip, Change(NOW_US + HOUR_US, by=7), str.lower
    )
    assert clip_record is not None
    return clip_record


async def test_a_recording_that_has_all_of_a_time_is_found(
    catalog: Catalog, stream: StreamRecord
) -> None:
    first = await recorded(catalog, stream, "20260131T120000001", NOW_US)
    second = await recorded(catalog, stream, "20260131T140000001", NOW_US + 2 * HOUR_US)
    other = await catalog.streams.add(1, "Another", Change(NOW_US))
    await recorded(catalog, other, "20260131T120000001", NOW_US)
    under_way = await catalog.recordings.begin(stream.key.hash, "20260131T160000001", 30, NOW_US)
    assert under_way is not None
    for at, video in ((0, first), (2, second)):
        begin_us = NOW_US + at * HOUR_US
        sources = await catalog.clips.find_sources(stream.id, begin_us, begin_us + HOUR_US)
        assert sources.recorded is not None
        assert (sources.recorded.video, sources.others) == (video, ())
        assert sources.recording == {"20260131T160000001": under_way.hash}
    # Times partly outside: the newest recordings are named first.
    for from_us, to_us in (
        (NOW_US - 1, NOW_US + 10),
        (NOW_US + HOUR_US - 10, NOW_US + HOUR_US + 1),
        (NOW_US, NOW_US + 3 * HOUR_US),
    ):
        sources = await catalog.clips.find_sources(stream.id, from_us, to_us)
        assert sources.recorded is None
        assert [each.video for each in sources.others] == [second, first]
    assert (await catalog.clips.find_sources(99, NOW_US, NOW_US + 10)).recorded is None


async def test_a_recording_that_ends_while_its_stream_is_in_the_trash_is_found_after_that(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    video = await recorded(catalog, stream, "20260131T120000001", NOW_US, deleted=True)
    (in_trash,) = (await catalog.trash.find_page(project.id, 1, NOW_US)).items
    await catalog.trash.restore(in_trash.id, Change(NOW_US + HOUR_US))
    sources = await catalog.clips.find_sources(stream.id, NOW_US, NOW_US + HOUR_US)
    assert sources.recorded is not None
    assert (sources.recorded.video, sources.others) == (video, ())


async def test_a_recording_that_is_gone_or_has_another_file_is_not_found(
    catalog: Catalog, stream: StreamRecord
) -> None:
    deleted = await recorded(catalog, stream, "20260131T120000001", NOW_US)
    await catalog.videos.remove(deleted, Change(NOW_US))
    replaced = await recorded(catalog, stream, "20260131T120000002", NOW_US)
    file = VideoFile(source="sources/x/1", size=1, length_us=1, width=2, height=2, rungs=())
    assert await catalog.videos.replace(replaced, file, Change(NOW_US)) is not None
    sources = await catalog.clips.find_sources(stream.id, NOW_US, NOW_US + 10)
    assert (sources.recorded, sources.others) == (None, ())


@ON_BOTH
async def test_a_clip_inherits_the_fields_of_its_stream(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    romania = find_country("RO")
    assert romania is not None
    change = StreamDetails.edit(
        description="All of it", countries=(romania.number,), tags=("night",)
    )
    await catalog.streams.edit(stream.id, change, Change(NOW_US))
    clip = await add(catalog, stream, HASHES[0])
    video = clip.video
    assert (video.hash, video.own_title) == (HASHES[0], None)
    assert (video.title, video.name) == (
        "The news, 2026-01-31 12:00:59", "the news, 2026-01-31 12:00:59",
    )  # fmt: skip
    assert (video.state, video.progress, video.media) == ("completed", 100, "1-1")
    assert (video.published, video.hidden, video.description) == (True, False, "All of it")
    assert [country.code for country in clip.countries] == ["RO"]
    assert [tag.name for tag in clip.tags] == ["night"]
    assert [(rung.number, rung.transcoded) for rung in clip.rungs] == [(1, True)]
    (event, *_) = (await catalog.events.find_page(project.id)).items
    assert (event.kind, event.subject, event.token) == ("clip added", stream.key.hash, 7)
    assert event.facts == {"stream": stream.id, "video": HASHES[0], "seconds": 6.5}
    # Its previews are due, and the clip does not expire.
    job = await catalog.jobs.lease("me", NOW_US + 2 * HOUR_US, PREVIEWS)
    assert job is not None
    assert job.subject == video.id
    assert await catalog.recordings.expire(1 << 60) is None


async def test_a_clip_with_its_own_title(catalog: Catalog, stream: StreamRecord) -> None:
    clip = await add(catalog, stream, HASHES[0], title="Goal")
    assert (clip.video.title, clip.video.own_title, clip.video.name) == ("Goal", "Goal", "goal")


async def test_a_clip_of_a_recording_inherits_the_fields_of_the_recording(
    catalog: Catalog, stream: StreamRecord
) -> None:
    """The owner may have hidden or restricted the recording since, but not the stream."""
    number = await recorded(catalog, stream, "20260131T120000001", NOW_US)
    germany = find_country("DE")
    assert germany is not None
    change = VideoDetails.edit(countries=(germany.number,), tags=("late",), title="Mine")
    await catalog.videos.edit(number, change, Change(NOW_US))
    await catalog.videos.unpublish(number, Change(NOW_US))
    clip = await add(catalog, stream, HASHES[0], video=number)
    assert (clip.video.published, clip.video.hidden) == (False, True)
    assert [country.code for country in clip.countries] == ["DE"]
    assert [tag.name for tag in clip.tags] == ["late"]
    assert clip.video.title == "The news, 2026-01-31 12:00:59"
    # Who might see a deleted recording is unknown, so the clip is hidden.
    await catalog.videos.remove(number, Change(NOW_US))
    clip = await add(catalog, stream, HASHES[1], video=number)
    assert (clip.video.published, clip.video.hidden) == (False, True)


async def test_a_clip_of_a_deleted_stream_is_not_added(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    clip = NewClip(hash=HASHES[0], made=MADE, from_us=NOW_US, title=None, video=None)
    other = await catalog.streams.add(project.id, "Another", Change(NOW_US))
    await catalog.streams.remove(other.id, Change(NOW_US))
    assert await catalog.clips.add(other.id, clip, Change(NOW_US, by=7), str.lower) is None
    await catalog.projects.remove(project.id, Change(NOW_US))
    with pytest.raises(NoSuchProject):
        await catalog.clips.add(stream.id, clip, Change(NOW_US, by=7), str.lower)
