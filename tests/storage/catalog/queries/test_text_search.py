"""Searches in titles and names, alike on both databases."""

from pathlib import Path

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.migrations import finishing
from storage.catalog.queries.text_search import plain_form, searchable
from storage.catalog.records.common import Change, PlayerOptions, ProjectRecord, Sort
from storage.catalog.records.details import StreamDetails
from storage.catalog.records.videos import VideoQuery
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video

TITLES = ("İstanbul", "istanbul", "Zürich HB", "ZURICH", "Die Straße", "Łódź", "が", "50% é")
FOUND = {
    "istanbul": ["istanbul", "İstanbul"],
    "İSTANBUL": ["istanbul", "İstanbul"],
    "zurich": ["ZURICH", "Zürich HB"],
    "zürich": ["ZURICH", "Zürich HB"],
    "Zu\u0308RICH h": ["Zürich HB"],
    "strasse": ["Die Straße"],
    "lodz": ["Łódź"],
    "か": [],
    "\u0301": [],
    "%": ["50% é"],
    "50% e": ["50% é"],
    "_": [],
}


def test_only_texts_outside_of_ascii_take_room_twice() -> None:
    assert searchable("title", "Zurich") == {"title_fold": "zurich", "title_plain": None}
    assert searchable("name", "ZÜRICH") == {"name_fold": "zürich", "name_plain": "zürich\nzurich"}
    assert plain_form("中文") == "中文\n中文"


@ON_BOTH
async def test_accents_and_case_are_ignored_in_streams_videos_and_names(
    catalog: Catalog, project: ProjectRecord
) -> None:
    for number, title in enumerate(TITLES):
        await catalog.streams.add(project.id, title, Change(1))
        video = new_video(f"V{number:011}", file_title=title, size=1, source=f"{number}")
        await catalog.videos.add(project.id, video, Change(1))
        await catalog.players.add(project.id, title, PlayerOptions(), Change(1))
        await catalog.labels.add("tag", project.id, title, Change(1), active=True)
    by_name = Sort("name", descending=False)
    for search, titles in FOUND.items():
        streams = await catalog.streams.find_page(
            project.id, search=search, sort=Sort("title", descending=False)
        )
        videos = await catalog.videos.find_page(
            project, VideoQuery(search=search, sort=Sort("title", descending=False)), 1
        )
        players = await catalog.players.find_page(project.id, search=search, sort=by_name)
        tags = await catalog.labels.find_page("tag", project.id, search=search, sort=by_name)
        assert [each.title for each in streams.items] == titles, search
        assert [each.file_title for each in videos.items] == titles, search
        assert [each.name for each in players.items] == titles, search
        assert [each.name for each in tags.items] == titles, search
        assert {streams.total, videos.total, players.total, tags.total} == {len(titles)}, search


async def _found(catalog: Catalog, project: ProjectRecord, search: str) -> list[str]:
    page = await catalog.streams.find_page(project.id, search=search)
    return [each.title for each in page.items]


@ON_BOTH
async def test_what_an_older_version_writes_is_found_as_it_was_then_and_later_as_now(
    catalog: Catalog, database: Database, project: ProjectRecord, location: str | Path
) -> None:
    stream = (await catalog.streams.add(project.id, "Zürich", Change(1))).id
    # An edit by an older version, which does not know the new column.
    run_sql(location, "UPDATE streams SET title = 'Köln', title_fold = 'köln'")
    assert await _found(catalog, project, "zurich") == []
    assert await _found(catalog, project, "KÖLN") == ["Köln"]
    assert await _found(catalog, project, "koln") == []
    await finishing.finish(database)
    assert await _found(catalog, project, "koln") == ["Köln"]
    run_sql(location, "UPDATE streams SET title = 'Bern', title_fold = 'bern'")
    await finishing.finish(database)
    assert run_sql(location, "SELECT title_plain FROM streams") == [(None,)]
    await catalog.streams.edit(stream, StreamDetails.edit(title="Genève"), Change(2))
    assert await _found(catalog, project, "geneve") == ["Genève"]
