"""Recordings in the catalog, on both databases: begun, finished as videos, expired."""

import asyncio

import msgspec
import pytest

from media.countries import find_country
from storage.catalog import Catalog
from storage.catalog.records.common import Change, PlayerOptions, ProjectRecord, StreamRecord
from storage.catalog.records.details import StreamDetails
from storage.catalog.records.videos import VideoFile, VideoQuery
from storage.catalog.videos.recordings import (
    MadeRecording,
    RecordedRung,
    RecordingRow,
    dated_title,
)
from storage.errors import VideoNotFailed
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.removed_projects import remove_rows

NOW_US = 1_769_860_859_123_456  # 2026-01-31T12:00:59
LATER_US = NOW_US + 3_600_000_000
DAY_US = 86_400_000_000
RUN = "20260131T120000123"
MADE = MadeRecording(
    media="1-1",
    size=5000,
    length_us=6_500_000,
    width=1280,
    height=720,
    rungs=(
        RecordedRung(number=3, width=1280, height=720, size=3000),
        RecordedRung(number=1, width=640, height=360, size=1000),
    ),
)


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    await catalog.projects.add("the first", Change(NOW_US))  # which cannot be deleted
    return await catalog.projects.add("films", Change(NOW_US))


@pytest.fixture
async def stream(catalog: Catalog, project: ProjectRecord) -> StreamRecord:
    return await catalog.streams.add(project.id, "The news", Change(NOW_US))


async def begun(catalog: Catalog, stream: StreamRecord, run: str = RUN) -> RecordingRow:
    row = await catalog.recordings.begin(stream.key.hash, run, 30, NOW_US)
    assert row is not None
    return row


async def kinds(catalog: Catalog, project: ProjectRecord) -> list[tuple[str, object]]:
    events = await catalog.events.find_page(project.id)
    return [(event.kind, event.facts) for event in events.items]


async def test_a_recording_begins_once(catalog: Catalog, stream: StreamRecord) -> None:
    row = await begun(catalog, stream)
    assert dated_title(row.facts.title, row.created_us) == "The news, 2026-01-31 12:00"
    assert await begun(catalog, stream) == row
    other = await begun(catalog, stream, "20260131T130000123")
    assert other.hash != row.hash
    assert await catalog.recordings.find_all() == (row, other)
    assert await catalog.recordings.find(stream.key.hash, RUN) == row
    assert await catalog.recordings.find(stream.key.hash, "x") is None
    assert await catalog.recordings.begin("AAAAAAAAAAAA", RUN, 30, NOW_US) is None


@ON_BOTH
async def test_two_callers_that_begin_a_recording_at_once_get_the_same(
    catalog: Catalog, stream: StreamRecord
) -> None:
    async with asyncio.TaskGroup() as tasks:
        attempts = [tasks.create_task(begun(catalog, stream)) for _ in range(4)]
    assert len({task.result().hash for task in attempts}) == 1


async def test_what_is_being_recorded_is_no_leftover(
    catalog: Catalog, stream: StreamRecord
) -> None:
    row = await begun(catalog, stream)
    assert await catalog.videos.find_known([row.hash, "AAAAAAAAAAAA"]) == {row.hash}
    await catalog.recordings.remove(row.id)
    assert await catalog.videos.find_known([row.hash]) == frozenset()
    assert await catalog.recordings.finish(row, MADE, LATER_US, str.upper) is None


@ON_BOTH
async def test_a_recording_becomes_a_video_like_its_stream(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    row = await begun(catalog, stream)
    romania = find_country("RO")
    assert romania is not None
    category = await catalog.labels.add(
        "category", project.id, "World", Change(NOW_US), active=True
    )
    player = await catalog.players.add(project.id, "Dark", PlayerOptions(), Change(NOW_US))
    # Settings that change during the recording are respected.
    change = StreamDetails.edit(
        title="The late news",
        description="All of it",
        category=category.id,
        countries=(romania.number,),
        tags=("night",),
        player=player.id,
    )
    await catalog.streams.edit(stream.id, change, Change(NOW_US))
    number = await catalog.recordings.finish(row, MADE, LATER_US, str.upper)
    assert number is not None
    whole_video = await catalog.videos.find(number)
    assert whole_video is not None
    video = whole_video.video
    assert (video.hash, video.own_title, video.title) == (
        row.hash, None, "The late news, 2026-01-31 12:00",
    )  # fmt: skip
    assert (video.description, video.name) == ("All of it", "THE LATE NEWS, 2026-01-31 12:00")
    assert (video.state, video.progress, video.media) == ("completed", 100, "1-1")
    assert (video.published, video.hidden, video.published_us) == (True, False, LATER_US)
    assert (video.length_us, video.width, video.height) == (6_500_000, 1280, 720)
    assert (video.size, video.storage_size, video.posters) == (5000, 5000, None)
    assert [(rung.number, rung.size, rung.transcoded) for rung in whole_video.rungs] == [
        (1, 1000, True), (3, 3000, True),
    ]  # fmt: skip
    assert whole_video.category is not None
    assert whole_video.category.name == "World"
    assert whole_video.player is not None
    assert [tag.name for tag in whole_video.tags] == ["night"]
    assert whole_video.countries == (romania,)
    assert await catalog.recordings.find_all() == ()
    recorded = await kinds(catalog, project)
    assert recorded[0] == ("recorded", {"video": row.hash, "seconds": 6.5})
    listed = await catalog.videos.find_page(project, VideoQuery(phase="completed"), 1)
    assert [item.id for item in listed.items] == [number]
    assert listed.total == 1
    visibility = await catalog.visibility.find(row.hash)
    assert visibility is not None
    assert (visibility.kind, visibility.media, visibility.countries) == ("video", "1-1", {"RO"})
    # Another host that finishes the recording again gets the same video, and removes nothing.
    assert await catalog.recordings.finish(row, MADE, LATER_US, str.upper) == number
    assert not await catalog.recordings.remove(row.id)
    assert (await catalog.videos.find_page(project, VideoQuery(phase="completed"), 1)).total == 1


async def test_a_hidden_streams_recording_is_hidden(catalog: Catalog, stream: StreamRecord) -> None:
    row = await begun(catalog, stream)
    await catalog.streams.unpublish(stream.id, Change(NOW_US))
    number = await catalog.recordings.finish(row, MADE, LATER_US, str.upper)
    video = await catalog.videos.find(number or 0)
    assert video is not None
    assert (video.video.published, video.video.hidden) == (False, True)
    assert video.video.published_us is None


@ON_BOTH
async def test_labels_that_are_gone_are_left_out(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    category = await catalog.labels.add(
        "category", project.id, "World", Change(NOW_US), active=True
    )
    player = await catalog.players.add(project.id, "Dark", PlayerOptions(), Change(NOW_US))
    change = StreamDetails.edit(category=category.id, player=player.id, tags=("night",))
    await catalog.streams.edit(stream.id, change, Change(NOW_US))
    row = await begun(catalog, stream)
    assert row.facts.tags
    await catalog.streams.remove(stream.id, Change(NOW_US))
    await catalog.labels.remove("category", category.id, Change(NOW_US))
    await catalog.labels.remove("tag", row.facts.tags[0], Change(NOW_US))
    await catalog.players.remove(player.id, Change(NOW_US))
    number = await catalog.recordings.finish(row, MADE, LATER_US, str.upper)
    video = await catalog.videos.find(number or 0)
    assert video is not None
    assert (video.category, video.player, video.tags) == (None, None, ())
    # What its owner would have set since is unknown, so the owner has to publish it.
    assert (video.video.published, video.video.hidden) == (False, True)


async def test_a_deleted_projects_recordings_become_no_videos(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    row = await begun(catalog, stream)
    await catalog.projects.remove(project.id, Change(NOW_US))
    assert await catalog.recordings.find_all() == ()
    assert await catalog.recordings.finish(row, MADE, LATER_US, str.upper) is None
    await remove_rows(catalog)
    assert await catalog.videos.find_known([row.hash]) == frozenset()
    assert await catalog.recordings.finish(row, MADE, LATER_US, str.upper) is None


@ON_BOTH
async def test_a_recording_goes_when_its_days_are_over(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    for number, run in enumerate((RUN, "20260131T130000123")):
        row = await begun(catalog, stream, run)
        await catalog.recordings.finish(row, MADE, LATER_US + number, str.upper)
    assert await catalog.recordings.expire(LATER_US + 30 * DAY_US - 1) is None
    first = await catalog.recordings.expire(LATER_US + 30 * DAY_US)
    assert first is not None
    assert await catalog.recordings.expire(LATER_US + 30 * DAY_US) is None
    assert await catalog.recordings.expire(LATER_US + 30 * DAY_US + 1) is not None
    recorded = await kinds(catalog, project)
    assert [kind for kind, _ in recorded][:2] == ["recording expired", "recording expired"]
    assert (await catalog.videos.find_page(project, VideoQuery(), 1)).total == 0


async def test_a_recording_that_was_given_another_file_stays(
    catalog: Catalog, stream: StreamRecord
) -> None:
    row = await begun(catalog, stream)
    number = await catalog.recordings.finish(row, MADE, LATER_US, str.upper)
    assert number is not None
    other = VideoFile(source="other", size=1, length_us=1, width=1, height=1, rungs=())
    await catalog.videos.replace(number, other, Change(LATER_US))
    assert await catalog.recordings.expire(LATER_US + 31 * DAY_US) is None
    assert await catalog.videos.find(number) is not None


async def test_a_recording_that_is_kept_stays(
    catalog: Catalog, project: ProjectRecord, stream: StreamRecord
) -> None:
    row = await begun(catalog, stream)
    number = await catalog.recordings.finish(row, MADE, LATER_US, str.upper)
    assert number is not None
    for _ in range(2):
        record = await catalog.videos.keep(number, Change(LATER_US))
        assert record is not None
    assert await catalog.recordings.expire(LATER_US + 31 * DAY_US) is None
    assert await catalog.videos.find(number) is not None
    recorded = [kind for kind, _ in await kinds(catalog, project)]
    assert recorded.count("recording kept") == 1
    assert await catalog.videos.keep(number + 1, Change(LATER_US)) is None


async def test_there_is_no_file_to_make_a_recording_from_again(
    catalog: Catalog, stream: StreamRecord
) -> None:
    number = await catalog.recordings.finish(
        await begun(catalog, stream), MADE, LATER_US, str.upper
    )
    assert number is not None
    with pytest.raises(VideoNotFailed):
        await catalog.videos.retry(number, Change(LATER_US))


async def test_a_long_title_keeps_its_date(catalog: Catalog, project: ProjectRecord) -> None:
    stream = await catalog.streams.add(project.id, "x" * 255, Change(NOW_US))
    row = await begun(catalog, stream)
    title = dated_title(row.facts.title, row.created_us)
    assert len(title) == 255
    assert title.endswith("xx, 2026-01-31 12:00")
    audio_only = msgspec.structs.replace(MADE, rungs=(), width=0, height=0)
    assert await catalog.recordings.finish(row, audio_only, LATER_US, str.upper) is not None
