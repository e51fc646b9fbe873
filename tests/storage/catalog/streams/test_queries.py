"""Streams as their owners see them: adding, listing, searching, sorting."""

from pathlib import Path

import pytest

from media.stream_keys import StreamKey
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, Sort, StreamRecord
from storage.catalog.streams.live_state import AirState
from storage.catalog.streams.repository import STATES
from storage.errors import NoSuchProject
from tests.support.concurrent_programs import run_together
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

ADDER = """
import asyncio, sys
from storage.catalog import open_catalog
from storage.catalog.records.common import Change

async def main():
    async with open_catalog(sys.argv[1], migrate=False) as catalog:
        together()
        for number in range(50):
            await catalog.streams.add(1, f"{sys.argv[2]} {number}", Change(number))

asyncio.run(main())
"""


async def _titles(catalog: Catalog, search: str = "", sort: Sort | None = None) -> list[str]:
    page = await catalog.streams.find_page(1, search=search, sort=sort)
    assert page.total == len(page.items)
    return [stream.title for stream in page.items]


async def _add_all(catalog: Catalog, *titles: str) -> list[StreamRecord]:
    project = await catalog.projects.add("One", Change(1))
    return [await catalog.streams.add(project.id, title, Change(1)) for title in titles]


async def test_a_new_stream_has_a_key_one_backup_and_the_standard_resolutions(
    catalog: Catalog,
) -> None:
    project = await catalog.projects.add("One", Change(1))
    stream = await catalog.streams.add(project.id, "Título", Change(1_000_001))
    assert StreamKey.parse(stream.key.text) == stream.key
    assert stream.hash == stream.key.hash
    assert (stream.project, stream.title, stream.description) == (project.id, "Título", "")
    assert (stream.created_us, stream.updated_us) == (1_000_001, 1_000_001)
    assert (stream.published, stream.published_us, stream.hidden) == (False, None, False)
    assert (stream.live, stream.processing, stream.receiving_count) == (False, False, 0)
    assert (stream.on_air, stream.no_audio, stream.version) == (None, False, 1)
    assert [(backup.number, backup.live, backup.on_air) for backup in stream.backups] == [
        (1, False, False)
    ]
    assert [(each.number, each.active) for each in stream.resolutions] == [
        (1, True),
        (2, True),
        (3, True),
        (4, True),
        (5, False),
        (6, False),
    ]
    assert await catalog.streams.find(stream.id) == stream
    assert await catalog.streams.find(stream.id + 1) is None


async def test_a_stream_of_no_project_is_refused(catalog: Catalog) -> None:
    with pytest.raises(NoSuchProject, match="no project 99"):
        await catalog.streams.add(99, "Lost", Change(1))


async def test_all_streams_are_listed_oldest_first_over_all_projects(catalog: Catalog) -> None:
    assert await catalog.streams.find_all() == ()
    added = await _add_all(catalog, "b", "a")
    other = await catalog.projects.add("Two", Change(1))
    added.append(await catalog.streams.add(other.id, "c", Change(1)))
    assert await catalog.streams.find_all() == tuple(added)


@ON_BOTH
async def test_a_deleted_streams_number_is_never_used_again(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        first, second = await _add_all(catalog, "a", "b")
        run_sql(location, f"DELETE FROM streams WHERE id = {second.id}")
        assert run_sql(location, "SELECT count(*) FROM stream_backups") == [(1,)]
        third = await catalog.streams.add(first.project, "c", Change(1))
        assert third.id == second.id + 1
        assert third.backups[0].id == second.backups[0].id + 1


async def test_all_streams_are_listed_however_many_they_are(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        (first,) = await _add_all(catalog, "One")
        columns = "project_id, secret, title, title_fold, description, created_us, updated_us, \
            published, hidden, live, processing, receiving_count, no_audio, next_backup, version"
        run_sql(
            location,
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1201)"
            f" INSERT INTO streams (hash, secret_digest, {columns})"
            f" SELECT CAST(i AS TEXT), CAST(i AS TEXT), {columns} FROM streams, n",
        )
        everything = await catalog.streams.find_all()
        assert everything[0] == first
        assert [stream.id for stream in everything] == list(range(1, 1202))


async def test_lists_are_newest_first_in_pages_of_ten(catalog: Catalog) -> None:
    added = await _add_all(catalog, *(f"Stream {number}" for number in range(23)))
    other = await catalog.projects.add("Two", Change(1))
    await catalog.streams.add(other.id, "Not yours", Change(1))
    pages = [await catalog.streams.find_page(1, page=number) for number in (1, 2, 3, 4)]
    assert [len(page.items) for page in pages] == [10, 10, 3, 0]
    assert [page.total for page in pages] == [23] * 4
    assert [page.last for page in pages] == [3] * 4
    assert [stream for page in pages for stream in page.items] == list(reversed(added))


@ON_BOTH
async def test_a_page_far_beyond_any_number_of_a_database_is_empty(catalog: Catalog) -> None:
    await _add_all(catalog, "One")
    page = await catalog.streams.find_page(1, page=10**18 - 1)
    assert (page.items, page.total, page.last) == ((), 1, 1)


async def test_an_empty_list_has_one_page(catalog: Catalog) -> None:
    await _add_all(catalog)
    page = await catalog.streams.find_page(1)
    assert (page.items, page.total, page.last) == ((), 0, 1)


@ON_BOTH
async def test_titles_sort_without_case_and_equal_ones_by_number(catalog: Catalog) -> None:
    await _add_all(catalog, "beta", "Alpha", "ÉCLAIR", "alpha", "Beta")
    upwards = ["Alpha", "alpha", "beta", "Beta", "ÉCLAIR"]
    assert await _titles(catalog, sort=Sort("title", descending=False)) == upwards
    downwards = list(reversed(upwards))
    assert await _titles(catalog, sort=Sort("title", descending=True)) == downwards
    by_number = ["beta", "Alpha", "ÉCLAIR", "alpha", "Beta"]
    assert await _titles(catalog, sort=Sort("id", descending=False)) == by_number


_SEARCHES = {
    "știri": ["ȘTIRI locale"],  # case, beyond ASCII
    "S\u0326tiri": ["ȘTIRI locale"],  # an accent typed apart
    "100%": ["100% live"],  # a per cent sign is itself
    "%": ["100% live"],
    "a_b": ["a_b"],  # so is an underscore
    "\\": ["back\\slash"],  # and a backslash
    "/": ["and/or"],  # and the escape character
    "'; DROP TABLE streams; --": [],  # a statement is a text
    "l": ["back\\slash", "ȘTIRI locale", "100% live"],  # newest first
    "nowhere": [],
    "日本": ["日本語"],  # no Latin at all
}


@ON_BOTH
async def test_a_search_finds_a_part_of_the_title_taken_literally(catalog: Catalog) -> None:
    await _add_all(
        catalog, "100% live", "1000 a", "a_b", "axb", "ȘTIRI locale", "back\\slash", "and/or",
        "日本語",
    )  # fmt: skip
    assert {search: await _titles(catalog, search) for search in _SEARCHES} == _SEARCHES


@ON_BOTH
async def test_two_processes_that_add_at_once_lose_nothing(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.projects.add("One", Change(1))
        await run_together(*((ADDER, str(location), name) for name in ("left", "right")))
        listed: list[StreamRecord] = []
        for number in range(1, 11):
            listed += (await catalog.streams.find_page(1, page=number)).items
        assert {stream.title for stream in listed} == {
            f"{name} {number}" for name in ("left", "right") for number in range(50)
        }
        assert len({stream.hash for stream in listed}) == 100
        assert all(len(stream.backups) == 1 for stream in listed)
        assert all(len(stream.resolutions) == 6 for stream in listed)


async def test_streams_of_a_state_are_listed_and_counted(catalog: Catalog) -> None:
    on_air, sending, hidden, _ = await _add_all(catalog, "On air", "Sending", "Hidden", "Idle")
    live = AirState(live=True, processing=True, on_air=0, sending=[0], no_audio=False)
    begins = AirState(live=False, processing=True, on_air=None, sending=[0], no_audio=False)
    await catalog.live_state.set(on_air.id, now_us=2, **live)
    await catalog.live_state.set(sending.id, now_us=2, **begins)
    await catalog.streams.unpublish(hidden.id, Change(3))
    titles_by_state: dict[str, list[str]] = {}
    for wanted in STATES:
        page = await catalog.streams.find_page(1, state=wanted)
        titles_by_state[wanted] = [stream.title for stream in page.items]
        assert page.total == len(page.items)
    assert titles_by_state == {
        "live": ["On air"],
        "idle": ["Idle", "Hidden"],
        "unpublished": ["Hidden"],
    }
    both = await catalog.streams.find_page(1, search="HID", state="idle")
    assert [stream.title for stream in both.items] == ["Hidden"]
