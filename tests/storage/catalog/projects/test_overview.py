"""The overview of current work, over all projects or one."""

from pathlib import Path

from storage.catalog import Catalog
from storage.catalog.projects.overview import MOST
from storage.catalog.records.common import Change, ProjectRecord
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

# The same statements on both: what differs between them has tests of its own.


async def fill(catalog: Catalog, project: ProjectRecord, location: str | Path) -> dict[str, int]:
    """Add live and other streams and videos to a project; return their numbers by title."""
    numbers: dict[str, int] = {}
    for title in ("live", "idle"):
        numbers[title] = (await catalog.streams.add(project.id, title, Change(1))).id
    for title in ("working", "failed", "done"):
        added = await catalog.videos.add(project.id, new_video(title=title), Change(1))
        numbers[title] = added.video.id
    run_sql(
        location,
        f"UPDATE streams SET live = true WHERE id = {numbers['live']}",
        f"UPDATE videos SET phase = 'failed', state = 'failed' WHERE id = {numbers['failed']}",
        f"UPDATE videos SET phase = 'completed', state = 'completed' WHERE id = {numbers['done']}",
    )
    return numbers


async def test_what_is_live_made_and_failed_is_found_in_all_projects_or_in_one(
    catalog: Catalog, location: str | Path
) -> None:
    one, two, gone = [
        await catalog.projects.add(name, Change(1)) for name in ("One", "Two", "Gone")
    ]
    first, second = await fill(catalog, one, location), await fill(catalog, two, location)
    await fill(catalog, gone, location)
    run_sql(location, f"UPDATE projects SET removed_us = 2 WHERE id = {gone.id}")
    whole = await catalog.overviews.find(reach=None)
    assert [record.id for record in whole.live] == [second["live"], first["live"]]
    assert [record.id for record in whole.working] == [second["working"], first["working"]]
    assert [record.id for record in whole.failed] == [second["failed"], first["failed"]]
    assert whole.keys == {one.id: one.key, two.id: two.key}
    assert [record.project_key for record in whole.failed] == [two.key, one.key]
    mine = await catalog.overviews.find(reach=one.id)
    assert [record.id for record in mine.live] == [first["live"]]
    assert [record.id for record in mine.working] == [first["working"]]
    assert [record.id for record in mine.failed] == [first["failed"]]
    assert mine.keys == {one.id: one.key}


async def test_troubled_are_live_streams_without_their_primary_on_air(
    catalog: Catalog, location: str | Path
) -> None:
    project = await catalog.projects.add("One", Change(1))
    values = {
        "primary": "live = true, on_air = 0",
        "backup": "live = true, on_air = 2",
        "slate": "live = true, on_air = NULL",
        "paused": "live = true, on_air = NULL, paused = true",
        "idle": "live = false, on_air = NULL",
    }
    for title, changed in values.items():
        number = (await catalog.streams.add(project.id, title, Change(1))).id
        run_sql(location, f"UPDATE streams SET {changed} WHERE id = {number}")
    overview = await catalog.overviews.find(reach=project.id)
    assert [record.title for record in overview.troubled] == ["slate", "backup"]
    assert len(overview.live) == 4


async def test_no_more_is_read_than_a_page_shows(catalog: Catalog, location: str | Path) -> None:
    project = await catalog.projects.add("Many", Change(1))
    for number in range(MOST + 1):
        await catalog.streams.add(project.id, f"{number}", Change(1))
    run_sql(location, "UPDATE streams SET live = true")
    overview = await catalog.overviews.find(reach=None)
    assert len(overview.live) == MOST
    assert overview.live[0].title == f"{MOST}"
