"""Lists of many videos: the engines' own plans show that an index has each list's order."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from storage.catalog import Catalog
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoQuery
from storage.catalog.schema.tables import videos
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.many_rows import copy_rows, padded
from tests.support.storage.query_plans import caught_statements

MANY, SHARE = 20_000, 50
DAY_US = 86_400_000_000
# Any: a statement's parameters, in the form of its driver
Statement = tuple[str, Any]

LISTS = {
    "all": (VideoQuery(), "ix_videos_project_id_id"),
    "of a phase": (VideoQuery(phase="completed"), "ix_videos_project_id_phase_id"),
    "of a span": (
        VideoQuery(from_us=NOW_US, until_us=NOW_US + DAY_US),
        "ix_videos_project_id_created_us_id",
    ),
    "recent": (VideoQuery(from_us=NOW_US), "ix_videos_project_id_created_us_id"),
    "searched": (VideoQuery(search="film"), "ix_videos_project_id_id"),
}


def fill(location: str | Path, other: int) -> None:
    """Make many videos of the one that there is, a third of them completed.

    One of fifty is of its project, the rest are of the other: a list must not read past them.
    """
    changed = {
        "hash": padded(location, "V"),
        "project_id": f"CASE WHEN n.n % {SHARE} = 0 THEN videos.project_id ELSE {other} END",
        "created_us": f"{NOW_US} + CAST(n.n AS BIGINT) * 60000000",
        "phase": "CASE WHEN n.n % 3 = 0 THEN 'completed' ELSE 'inprogress' END",
    }
    copy_rows(location, videos, 1, MANY, changed)
    mine, completed = MANY // SHARE + 1, MANY // SHARE // 3
    run_sql(
        location,
        f"UPDATE totals SET number = {mine} WHERE kind = 'videos'",
        f"UPDATE totals SET number = {completed} WHERE kind = 'videos.completed'",
        "ANALYZE",
    )


def plan_of(location: str | Path, statement: Statement) -> str:
    """Return the engine's plan of a statement."""
    text, parameters = statement
    if isinstance(location, Path):
        with closing(sqlite3.connect(location)) as connection:
            rows = connection.execute(f"EXPLAIN QUERY PLAN {text}", parameters).fetchall()
            return "\n".join(str(row[3]) for row in rows)
    with psycopg.connect(location) as served:
        query = sql.SQL(f"EXPLAIN {text}")  # pyright: ignore[reportArgumentType]  # the catalog's
        return "\n".join(str(row[0]) for row in served.execute(query, parameters))


@ON_BOTH
async def test_an_index_has_the_order_of_every_list(location: str | Path, catalog: Catalog) -> None:
    project = await catalog.projects.add("films", Change(NOW_US))
    other = await catalog.projects.add("others", Change(NOW_US))
    await add(catalog, project)
    fill(location, other.id)
    for name, (query, index) in LISTS.items():
        with caught_statements() as statements:
            page = await catalog.videos.find_page(project, query, 1)
        assert len(page.items) == min(30, page.total) > 10, name
        (listed,) = [each for each in statements if "LIMIT" in each[0]]
        plan = plan_of(location, listed)
        assert index in plan, (name, plan)
        assert "B-TREE" not in plan, (name, plan)
        assert "Sort" not in plan, (name, plan)
        assert "SCAN videos\n" not in plan + "\n", (name, plan)
        assert "Seq Scan on videos" not in plan, (name, plan)


async def test_totals_without_a_search_are_not_counted(
    location: str | Path, catalog: Catalog
) -> None:
    project = await catalog.projects.add("films", Change(NOW_US))
    await add(catalog, project)
    with caught_statements() as statements:
        await catalog.videos.find_page(project, VideoQuery(), 1)
        await catalog.videos.find_page(project, VideoQuery(phase="inprogress"), 1)
    assert len(statements) == 4, json.dumps([each[0] for each in statements])
    assert not [each for each in statements if "count(" in each[0]]
