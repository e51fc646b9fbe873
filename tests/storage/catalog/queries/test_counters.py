"""Totals of a project's rows: right after each transaction, and unchanged by one that fails."""

import pytest

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.queries import counters
from storage.catalog.records.common import Change
from tests.support.shared_engines import ON_BOTH

NOW_US = 1_769_860_800_000_000


@pytest.fixture
async def project(catalog: Catalog) -> int:
    return (await catalog.projects.add("films", Change(NOW_US))).id


async def find_counters(database: Database, project: int, kind: str) -> int:
    async with database.reading() as connection:
        return await counters.find(connection, project, kind)


async def test_a_new_project_has_nothing_of_any_kind(database: Database, project: int) -> None:
    for kind in counters.KINDS:
        assert await find_counters(database, project, kind) == 0
    assert await find_counters(database, project + 1, "tags") == 0


@ON_BOTH
async def test_changes_of_one_transaction_are_counted_together_at_its_end(
    database: Database, project: int
) -> None:
    async with database.writing() as connection:
        counters.add(connection, project, "tags", 3)
        counters.add(connection, project, "tags", -1)
        counters.add(connection, project, "players", 1)
        assert await counters.find(connection, project, "tags") == 0
    assert await find_counters(database, project, "tags") == 2
    assert await find_counters(database, project, "players") == 1


@ON_BOTH
async def test_a_transaction_that_fails_counts_nothing(database: Database, project: int) -> None:
    with pytest.raises(RuntimeError):
        async with database.writing() as connection:
            counters.add(connection, project, "tags", 3)
            raise RuntimeError
    assert await find_counters(database, project, "tags") == 0


async def test_a_video_is_in_one_phase_at_a_time(database: Database, project: int) -> None:
    async with database.writing() as connection:
        counters.add(connection, project, "videos.inprogress", 1)
    async with database.writing() as connection:
        counters.move_video(connection, project, "inprogress", "completed")
        counters.move_video(connection, project, "failed", "failed")
    kinds = ("videos.inprogress", "videos.completed", "videos.failed")
    assert [await find_counters(database, project, kind) for kind in kinds] == [0, 1, 0]


async def test_projects_are_counted_apart(
    catalog: Catalog, database: Database, project: int
) -> None:
    other = (await catalog.projects.add("more films", Change(NOW_US))).id
    async with database.writing() as connection:
        counters.add(connection, project, "streams", 1)
    assert await find_counters(database, other, "streams") == 0
    assert await find_counters(database, project, "streams") == 1
