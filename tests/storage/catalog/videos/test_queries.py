"""Videos in the catalog, on both databases: added, listed, changed, taken away."""

import asyncio
from pathlib import Path

import pytest

from media.countries import find_country
from storage.catalog import Catalog, open_catalog
from storage.catalog.library.labels import TagById, TagByName
from storage.catalog.records.common import ProjectRecord
from storage.catalog.records.videos import NewVideo, VideoQuery, WholeVideo
from storage.catalog.videos.repository import VideoChange
from storage.errors import HashTaken, NoSuchLabel, NoSuchProject, VideoNotFailed
from tests.support.storage.new_videos import new_video

NOW_US = 1_700_000_000_123_456
DAY_US = 86_400_000_000


def arrived(**changed: object) -> NewVideo:
    facts: dict[str, object] = {
        "file_title": "My film",
        "name": "my-film",
        "size": 1000,
        "length_us": 2_000_000,
        "width": 640,
        "height": 360,
        "rungs": ((1, 640, 360),),
    }
    return new_video(**(facts | changed))  # pyright: ignore[reportArgumentType]  # by their names


@pytest.fixture
async def project(catalog: Catalog) -> ProjectRecord:
    return await catalog.projects.add("films", NOW_US)


async def add(catalog: Catalog, project: ProjectRecord, **changed: object) -> WholeVideo:
    now_us = changed.pop("now_us", NOW_US)
    assert isinstance(now_us, int)
    return await catalog.videos.add(project.id, arrived(**changed), now_us, by=7)  # pyright: ignore[reportArgumentType]  # by their names


async def listed(catalog: Catalog, project: ProjectRecord, page: int = 1, **asked: object):
    query = VideoQuery(**asked)  # pyright: ignore[reportArgumentType]  # by their names
    return await catalog.videos.find_page(project, query, page)


async def test_a_new_video_waits_for_its_job(catalog: Catalog, project: ProjectRecord) -> None:
    made = await add(catalog, project)
    video = made.video
    assert (video.state, video.progress, video.published) == ("queued", 0, False)
    assert (video.title, video.name, video.project_key) == ("My film", "my-film", project.key)
    assert (video.uploaded_us, video.transcoding_us, video.completed_us) == (NOW_US, None, None)
    assert [(rung.number, rung.transcoded) for rung in made.rungs] == [(1, False)]
    assert await catalog.videos.find(video.id) == made
    job = await catalog.jobs.lease("worker", NOW_US)
    assert job is not None
    assert job.video == video.id
    status = await catalog.videos.find_status(video.id)
    assert status is not None
    assert (status.state, status.attempt, status.reason) == ("queued", 1, "")


async def test_a_video_of_no_project_is_not_made(catalog: Catalog) -> None:
    with pytest.raises(NoSuchProject):
        await catalog.videos.add(99, arrived(), NOW_US, by=None)
    assert await catalog.jobs.lease("worker", NOW_US) is None


async def test_a_hash_names_one_thing_alone(catalog: Catalog, project: ProjectRecord) -> None:
    made = await add(catalog, project)
    stream = await catalog.streams.add(project.id, "Live", NOW_US)
    for taken in (made.video.hash, stream.hash):
        with pytest.raises(HashTaken):
            await add(catalog, project, hash_=taken)
    assert (await listed(catalog, project)).total == 1


async def test_lists_are_newest_first_in_pages_of_thirty(
    catalog: Catalog, project: ProjectRecord
) -> None:
    made = [(await add(catalog, project)).video.id for _ in range(32)]
    first, second, beyond = [await listed(catalog, project, page) for page in (1, 2, 3)]
    assert [each.id for each in first.items] == made[:1:-1]
    assert [each.id for each in second.items] == made[1::-1]
    assert beyond.items == ()
    assert {page.total for page in (first, second, beyond)} == {32}
    assert first.last == 2


async def test_lists_find_titles_without_case_and_take_wildcards_literally(
    catalog: Catalog, project: ProjectRecord
) -> None:
    await add(catalog, project, title="ȘTIRI de la 100%")
    await add(catalog, project, file_title="Știri_azi")
    await add(catalog, project, title="x", file_title="Știri of a file whose title is another")
    assert (await listed(catalog, project, search="știri")).total == 2
    assert [each.title for each in (await listed(catalog, project, search="0%")).items] == [
        "ȘTIRI de la 100%"
    ]
    assert (await listed(catalog, project, search="i_a")).total == 1
    assert (await listed(catalog, project, search="_ir")).total == 0


async def test_lists_take_spans_whose_end_is_outside(
    catalog: Catalog, project: ProjectRecord
) -> None:
    for day in range(4):
        await add(catalog, project, now_us=NOW_US + day * DAY_US)
    found = await listed(catalog, project, from_us=NOW_US + DAY_US, until_us=NOW_US + 3 * DAY_US)
    assert [each.created_us for each in found.items] == [NOW_US + 2 * DAY_US, NOW_US + DAY_US]
    assert found.total == 2


async def test_totals_follow_every_video(catalog: Catalog, project: ProjectRecord) -> None:
    videos = [(await add(catalog, project)).video for _ in range(3)]
    assert (await listed(catalog, project, phase="inprogress")).total == 3
    assert (await listed(catalog, project, phase="completed")).total == 0
    hash_ = await catalog.videos.remove(videos[1].id, NOW_US, by=7)
    assert hash_ == videos[1].hash
    assert await catalog.videos.remove(videos[1].id, NOW_US, by=7) is None
    left = await listed(catalog, project, phase="inprogress")
    assert left.total == len(left.items) == 2
    assert (await listed(catalog, project)).total == 2
    assert await catalog.videos.find(videos[1].id) is None
    assert await catalog.videos.find_known([video.hash for video in videos]) == {
        videos[0].hash, videos[2].hash,
    }  # fmt: skip


async def test_a_change_sets_what_is_sent_and_nothing_else(
    catalog: Catalog, project: ProjectRecord
) -> None:
    made = (await add(catalog, project, title="One", description="About")).video
    romania = find_country("RO")
    assert romania is not None
    category = await catalog.labels.add(
        "category", project.id, "News", active=True, by=None, now_us=NOW_US
    )
    first = await catalog.videos.edit(
        made.id,
        VideoChange(tags=[TagByName("a"), TagByName("A"), TagByName("b")], countries=[romania]),
        NOW_US + 1,
        by=7,
    )
    assert first is not None
    assert [tag.name for tag in first.tags] == ["a", "b"]
    assert (first.video.title, first.video.description) == ("One", "About")
    assert first.video.version == made.version + 1
    assert first.video.updated_us == NOW_US + 1
    second = await catalog.videos.edit(
        made.id,
        VideoChange(title=None, category=category.id, tags=[TagById(first.tags[1].id)]),
        NOW_US + 2,
        by=7,
    )
    assert second is not None
    assert second.countries == (romania,)
    assert [tag.name for tag in second.tags] == ["b"]
    assert second.category is not None
    assert second.category.name == "News"
    assert second.video.title == "My film"
    assert (await listed(catalog, project, search="my film")).total == 1
    cleared = await catalog.videos.edit(
        made.id, VideoChange(category=None, countries=[], tags=[]), NOW_US + 3, by=7
    )
    assert cleared is not None
    assert (cleared.category, cleared.countries, cleared.tags) == (None, (), ())
    same = await catalog.videos.edit(made.id, VideoChange(), NOW_US + 4, by=7)
    assert same == cleared
    assert await catalog.videos.edit(99, VideoChange(title="x"), NOW_US, by=7) is None


async def test_a_change_that_is_refused_changes_nothing(
    catalog: Catalog, project: ProjectRecord
) -> None:
    other = await catalog.projects.add("others", NOW_US)
    foreign = await catalog.labels.add(
        "tag", other.id, "theirs", active=True, by=None, now_us=NOW_US
    )
    made = await add(catalog, project)
    for change in (
        VideoChange(title="New", tags=[TagByName("fresh"), TagById(foreign.id)]),
        VideoChange(title="New", tags=[TagByName("fresh")], category=12),
        VideoChange(title="New", tags=[TagById(1 << 70)]),
        VideoChange(title="New", category=-1),
    ):
        with pytest.raises(NoSuchLabel):
            await catalog.videos.edit(made.video.id, change, NOW_US, by=7)
    with pytest.raises(NoSuchLabel):
        await catalog.videos.set_player(made.video.id, 5, NOW_US, by=7)
    assert await catalog.videos.find(made.video.id) == made
    tags = await catalog.labels.find_page("tag", project.id)
    assert tags.total == 0


async def test_publishing_waits_for_something_to_play(
    catalog: Catalog, project: ProjectRecord
) -> None:
    made = (await add(catalog, project)).video
    hidden = await catalog.videos.unpublish(made.id, NOW_US + 1, by=7)
    assert hidden is not None
    assert (hidden.video.hidden, hidden.video.published) == (True, False)
    again = await catalog.videos.unpublish(made.id, NOW_US + 2, by=7)
    assert again == hidden
    shown = await catalog.videos.publish(made.id, NOW_US + 3, by=7)
    assert shown is not None
    assert (shown.video.hidden, shown.video.published, shown.video.published_us) == (
        False, False, None,
    )  # fmt: skip


async def test_only_what_failed_is_queued_again(catalog: Catalog, project: ProjectRecord) -> None:
    made = (await add(catalog, project)).video
    with pytest.raises(VideoNotFailed):
        await catalog.videos.retry(made.id, NOW_US, by=7)
    assert await catalog.videos.retry(99, NOW_US, by=7) is None


async def test_posters_take_the_place_of_others(catalog: Catalog, project: ProjectRecord) -> None:
    made = (await add(catalog, project)).video
    assert (made.posters, made.poster_labels, made.image_us) == (None, (), None)
    changed = await catalog.videos.set_posters(made.id, "own-1", ("360p", "720p"), NOW_US + 1, by=7)
    assert changed is not None
    assert changed[1] is None
    assert changed[0].video.poster_labels == ("360p", "720p")
    assert changed[0].video.image_us == NOW_US + 1
    later = await catalog.videos.set_posters(made.id, "own-2", ("360p",), NOW_US + 2, by=7)
    assert later is not None
    assert later[1] == "own-1"


async def test_every_change_leaves_an_event_with_its_token(
    catalog: Catalog, project: ProjectRecord
) -> None:
    made = (await add(catalog, project)).video
    await catalog.videos.edit(made.id, VideoChange(title="x", countries=[]), NOW_US, by=8)
    await catalog.videos.unpublish(made.id, NOW_US, by=8)
    await catalog.videos.publish(made.id, NOW_US, by=8)
    await catalog.videos.set_player(made.id, None, NOW_US, by=8)
    await catalog.videos.remove(made.id, NOW_US, by=9)
    found = (await catalog.events.find_page(project.id)).items
    told = [(event.kind, event.token) for event in found if event.subject == made.hash]
    assert told == [
        ("video deleted", 9),
        ("video edited", 8),
        ("video published", 8),
        ("video unpublished", 8),
        ("video edited", 8),
        ("video added", 7),
    ]
    first_edit = next(event for event in reversed(found) if event.kind == "video edited")
    assert first_edit.facts == {"keys": ["title", "countries"]}


async def test_two_processes_that_edit_one_video_lose_nothing(
    place: str | Path, catalog: Catalog, project: ProjectRecord
) -> None:
    made = (await add(catalog, project)).video
    async with open_catalog(place, migrate=False) as other:

        async def edit(by: Catalog, count: int) -> None:
            for number in range(count):
                change = (
                    VideoChange(title=f"t{number}", tags=[TagByName(f"x{number % 3}")])
                    if by is catalog
                    else VideoChange(description=f"d{number}", tags=[TagByName(f"x{number % 2}")])
                )
                assert await by.videos.edit(made.id, change, NOW_US, by=None) is not None

        async with asyncio.TaskGroup() as group:
            for each in (catalog, other, catalog, other):
                group.create_task(edit(each, 10))
    found = await catalog.videos.find(made.id)
    assert found is not None
    assert found.video.version == made.version + 40
    assert (found.video.title, found.video.description) == ("t9", "d9")
    assert len(found.tags) == 1


async def test_numbers_that_no_row_can_have_are_those_of_nothing(catalog: Catalog) -> None:
    for number in (-1, 0, 1 << 31, 1 << 63, 10**30):
        assert await catalog.videos.find(number) is None
        assert await catalog.videos.find_status(number) is None
