"""Videos edited, published, queued again and shown with posters, on both databases."""

import asyncio
from pathlib import Path

import pytest

from media.countries import find_country
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.details import VideoDetails
from storage.errors import NoSuchLabel, VideoNotFailed
from tests.storage.catalog.videos.test_queries import add, listed
from tests.support.shared_engines import ON_BOTH

NOW_US = 1_700_000_000_123_456


@ON_BOTH
async def test_a_change_sets_what_is_sent_and_nothing_else(
    catalog: Catalog, project: ProjectRecord
) -> None:
    record = (await add(catalog, project, title="One", description="About")).video
    romania = find_country("RO")
    assert romania is not None
    category = await catalog.labels.add("category", project.id, "News", Change(NOW_US), active=True)
    first = await catalog.videos.edit(
        record.id,
        VideoDetails.edit(tags=["a", "A", "b"], countries=[romania.number]),
        Change(NOW_US + 1, by=7),
    )
    assert first is not None
    assert [tag.name for tag in first.tags] == ["a", "b"]
    assert (first.video.title, first.video.description) == ("One", "About")
    assert first.video.version == record.version + 1
    assert first.video.updated_us == NOW_US + 1
    second = await catalog.videos.edit(
        record.id,
        VideoDetails.edit(title=None, category=category.id, tags=[first.tags[1].id]),
        Change(NOW_US + 2, by=7),
    )
    assert second is not None
    assert second.countries == (romania,)
    assert [tag.name for tag in second.tags] == ["b"]
    assert second.category is not None
    assert second.category.name == "News"
    assert second.video.title == "My film"
    assert (await listed(catalog, project, search="my film")).total == 1
    cleared = await catalog.videos.edit(
        record.id, VideoDetails.edit(category=None, countries=[], tags=[]), Change(NOW_US + 3, by=7)
    )
    assert cleared is not None
    assert (cleared.category, cleared.countries, cleared.tags) == (None, (), ())
    same = await catalog.videos.edit(record.id, VideoDetails.edit(), Change(NOW_US + 4, by=7))
    assert same == cleared
    assert await catalog.videos.edit(99, VideoDetails.edit(title="x"), Change(NOW_US, by=7)) is None


async def test_a_change_that_is_refused_changes_nothing(
    catalog: Catalog, project: ProjectRecord
) -> None:
    other = await catalog.projects.add("others", Change(NOW_US))
    foreign = await catalog.labels.add("tag", other.id, "theirs", Change(NOW_US), active=True)
    created = await add(catalog, project)
    for change in (
        VideoDetails.edit(title="New", tags=["fresh", foreign.id]),
        VideoDetails.edit(title="New", tags=["fresh"], category=12),
        VideoDetails.edit(title="New", tags=[1 << 70]),
        VideoDetails.edit(title="New", category=-1),
    ):
        with pytest.raises(NoSuchLabel):
            await catalog.videos.edit(created.video.id, change, Change(NOW_US, by=7))
    with pytest.raises(NoSuchLabel):
        await catalog.videos.set_player(created.video.id, 5, Change(NOW_US, by=7))
    assert await catalog.videos.find(created.video.id) == created
    tags = await catalog.labels.find_page("tag", project.id)
    assert tags.total == 0


async def test_publishing_waits_for_something_to_play(
    catalog: Catalog, project: ProjectRecord
) -> None:
    record = (await add(catalog, project)).video
    hidden = await catalog.videos.unpublish(record.id, Change(NOW_US + 1, by=7))
    assert hidden is not None
    assert (hidden.video.hidden, hidden.video.published) == (True, False)
    again = await catalog.videos.unpublish(record.id, Change(NOW_US + 2, by=7))
    assert again == hidden
    published = await catalog.videos.publish(record.id, Change(NOW_US + 3, by=7))
    assert published is not None
    assert (published.video.hidden, published.video.published, published.video.published_us) == (
        False, False, None,
    )  # fmt: skip


async def test_only_what_failed_is_queued_again(catalog: Catalog, project: ProjectRecord) -> None:
    record = (await add(catalog, project)).video
    with pytest.raises(VideoNotFailed):
        await catalog.videos.retry(record.id, Change(NOW_US, by=7))
    assert await catalog.videos.retry(99, Change(NOW_US, by=7)) is None


@ON_BOTH
async def test_posters_take_the_place_of_others(catalog: Catalog, project: ProjectRecord) -> None:
    record = (await add(catalog, project)).video
    assert (record.posters, record.poster_labels, record.image_us) == (None, (), None)
    changed = await catalog.videos.set_posters(
        record.id, "own-1", ("360p", "720p"), Change(NOW_US + 1, by=7)
    )
    assert changed is not None
    assert changed[1] is None
    assert changed[0].video.poster_labels == ("360p", "720p")
    assert changed[0].video.image_us == NOW_US + 1
    later = await catalog.videos.set_posters(
        record.id, "own-2", ("360p",), Change(NOW_US + 2, by=7)
    )
    assert later is not None
    assert later[1] == "own-1"


async def test_every_change_leaves_an_event_with_its_token(
    catalog: Catalog, project: ProjectRecord
) -> None:
    record = (await add(catalog, project)).video
    await catalog.videos.edit(
        record.id, VideoDetails.edit(title="x", countries=[]), Change(NOW_US, by=8)
    )
    await catalog.videos.unpublish(record.id, Change(NOW_US, by=8))
    await catalog.videos.publish(record.id, Change(NOW_US, by=8))
    await catalog.videos.set_player(record.id, None, Change(NOW_US, by=8))
    await catalog.videos.remove(record.id, Change(NOW_US, by=9))
    events = (await catalog.events.find_page(project.id)).items
    recorded = [(event.kind, event.token) for event in events if event.subject == record.hash]
    assert recorded == [
        ("video deleted", 9),
        ("video edited", 8),
        ("video published", 8),
        ("video unpublished", 8),
        ("video edited", 8),
        ("video added", 7),
    ]
    first_edit = next(event for event in reversed(events) if event.kind == "video edited")
    assert first_edit.facts == {"keys": ["title", "countries"]}


@ON_BOTH
async def test_two_processes_that_edit_one_video_lose_nothing(
    location: str | Path, catalog: Catalog, project: ProjectRecord
) -> None:
    record = (await add(catalog, project)).video
    async with open_catalog(location, migrate=False) as other:

        async def edit(by: Catalog, count: int) -> None:
            for number in range(count):
                change = (
                    VideoDetails.edit(title=f"t{number}", tags=[f"x{number % 3}"])
                    if by is catalog
                    else VideoDetails.edit(description=f"d{number}", tags=[f"x{number % 2}"])
                )
                assert await by.videos.edit(record.id, change, Change(NOW_US)) is not None

        async with asyncio.TaskGroup() as group:
            for each in (catalog, other, catalog, other):
                group.create_task(edit(each, 10))
    stored = await catalog.videos.find(record.id)
    assert stored is not None
    assert stored.video.version == record.version + 40
    assert (stored.video.title, stored.video.description) == ("t9", "d9")
    assert len(stored.tags) == 1
