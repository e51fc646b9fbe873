"""What lists cost: each question that is asked often goes by an index, on either database.

The statements are those that the catalog makes, caught on their way, and explained on tables that
are filled and measured. On PostgreSQL a question for the rows of one small table may scan that.
"""

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from media.stream_events import RungShedEvent
from storage.catalog import Catalog
from storage.catalog.engine.database import Database, database_url, open_database
from storage.catalog.migrations import migrate
from storage.catalog.records.common import Change, ProjectRecord, Sort
from storage.catalog.records.videos import VideoQuery
from storage.catalog.videos.jobs import TRANSCODE
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.query_plans import caught_statements, plan_of

ROWS = 6_000  # of each table
SMALL, BIG = 1, 2  # projects, with a tenth of all rows and with the rest
MOST_US = 600_000
# Questions whose rows are found by an index and then sorted, as they are few: jobs whose leases are
# over, what happened since a moment of late, commands that wait.
SORTED = {"a job's lease", "events of late", "commands that wait"}

NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i <= {ROWS})"
OF = f"CASE WHEN i % 10 = 0 THEN {SMALL} ELSE {BIG} END"
NAME = "'title ' || CAST(i * 7919 % 10007 AS TEXT)"
TEXT = "CAST(i AS TEXT)"
# By table: its columns and, in the same order, their values; `n.i` counts the rows.
FILLED = {
    "streams": (
        "project_id, hash, secret, secret_digest, title, title_fold, description, created_us,"
        " updated_us, published, hidden, live, processing, receiving_count, no_audio,"
        " next_backup, version",
        f"{OF}, {TEXT}, {TEXT}, {TEXT}, {NAME}, {NAME}, 'words', i, i, true, false, false, false,"
        " 0, false, 2, 1",
    ),
    "videos": (
        "project_id, hash, file_title, title_fold, description, name, size, length_us, width,"
        " height, state, phase, progress, eta, reason, warnings, created_us, updated_us,"
        " published, hidden, countries, generation, poster_labels, storage_size, version",
        f"{OF}, 'v' || {TEXT}, {NAME}, {NAME}, 'words', 'name', 1, 1, 1, 1, 'completed',"
        " CASE WHEN i % 50 = 0 THEN 'failed' WHEN i % 7 = 0 THEN 'inprogress' ELSE 'completed' END,"
        f" 100, 0, '', '[]', i * {MOST_US // ROWS}, i, true, false, '', 1, '', 1, 1",
    ),
    "tags": (
        "project_id, name, name_fold, active, created_us, updated_us, version",
        f"{OF}, {NAME} || {TEXT}, {NAME} || {TEXT}, true, i, i, 1",
    ),
    "events": (
        "project_id, subject, kind, facts, created_us",
        f"{OF}, {TEXT}, 'rung shed', '{{}}', i * {MOST_US // ROWS}",
    ),
    "notices": ("channel, event, body, created_us", f"{TEXT}, 'live', '{{}}', i"),
    "jobs": (
        "kind, video_id, state, attempt, leased_until_us, run_after_us, facts, created_us,"
        " updated_us",
        "'transcode', i - 1, CASE WHEN i % 700 = 0 THEN 'running' ELSE 'queued' END, 1, i, i, '{}',"
        " i, i",
    ),
    "commands": (
        "stream_id, kind, facts, created_us, answered_us, answer",
        "i, 'end', '{\"hash\": \"h\"}', i, CASE WHEN i % 500 = 0 THEN NULL ELSE i END, '{}'",
    ),
    "stream_backups": ("stream_id, number, live", "i, 1, false"),
    "stream_resolutions": ("stream_id, number, active", "i, 1, true"),
    "stream_tags": ("stream_id, tag_id", "i, i - 1"),
    "video_tags": ("video_id, tag_id", "i - 1, i - 1"),
    "video_resolutions": (
        "video_id, number, width, height, transcoded, size, transcode_seconds",
        "i - 1, 1, 1, 1, true, 1, 1",
    ),
}

Question = Callable[[Catalog], Awaitable[object]]


def _lists(of: int) -> dict[str, Question]:
    """Return the queries about one project, by name."""
    ascending = Sort(column="title", descending=False)
    failed = VideoQuery(phase="failed")
    span = VideoQuery(from_us=int(MOST_US * 0.95), until_us=MOST_US)
    late = int(MOST_US * 0.99)
    project = ProjectRecord(id=of, key="key", name="", created_us=0, updated_us=0)

    return {
        "streams": lambda catalog: catalog.streams.find_page(of),
        "streams by title": lambda catalog: catalog.streams.find_page(of, sort=ascending, page=3),
        "streams by title, backwards": lambda catalog: catalog.streams.find_page(
            of, sort=Sort(column="title"), page=3
        ),
        "videos": lambda catalog: catalog.videos.find_page(project, VideoQuery(), 2),
        "videos of a phase": lambda catalog: catalog.videos.find_page(project, failed, 1),
        "videos of a span": lambda catalog: catalog.videos.find_page(project, span, 1),
        "tags": lambda catalog: catalog.labels.find_page("tag", of, page=2),
        "events": lambda catalog: catalog.events.find_page(of),
        "events of late": lambda catalog: catalog.events.find_page(of, since_us=late),
        "events after one": lambda catalog: catalog.events.find_after(of, ROWS - 20),
    }


QUESTIONS: dict[str, Question] = {
    "notices after one": lambda catalog: catalog.outbox.read_after(ROWS - 20, 100),
    "a job's lease": lambda catalog: catalog.jobs.lease("owner", ROWS, TRANSCODE),
    "one video": lambda catalog: catalog.videos.find(500),
    "one stream": lambda catalog: catalog.streams.find(500),
}


@pytest.fixture
async def filled(either_database: str | Path) -> AsyncGenerator[Database]:
    async with open_database(database_url(either_database), create=True) as database:
        await migrate(database)
        catalog = Catalog(database)
        await catalog.installation.first_start(1)
        await catalog.projects.add("Other", Change(1))
        run_sql(
            either_database,
            *(
                # The clause order that both databases accept.
                f"INSERT INTO {table} ({columns}) {NUMBERS} SELECT {values} FROM n"
                for table, (columns, values) in FILLED.items()
            ),
            f"UPDATE totals SET number = {ROWS // 2}",
            "ANALYZE",
        )
        yield database


def _scans(steps: list[str]) -> list[str]:
    """Return the steps that read a whole filled table."""
    tables = "|".join(FILLED)
    scan = re.compile(rf"SCAN ({tables})\b|Seq Scan on ({tables})\b")
    return [step for step in steps if scan.search(step)]


def _sorts(steps: list[str]) -> list[str]:
    """Return the steps that sort."""
    return [step for step in steps if "TEMP B-TREE" in step or re.search(r"\bSort\b", step)]


Plans = dict[str, list[str]]  # steps, by statement


async def _plans(database: Database, question: Question) -> Plans:
    """Run a query and return the plan of each of its statements."""
    with caught_statements() as statements:
        await question(Catalog(database))
    async with database.writing() as connection:
        queries = [each for each in statements if re.search("SELECT|UPDATE|DELETE", each[0])]
        return {
            statement: await connection.run_sync(plan_of, statement, parameters)
            for statement, parameters in queries
        }


def _costly(name: str, plans: Plans, *, counts: bool = True) -> Plans:
    """Return the statements that read a whole table, or sort a list to show the front of it.

    The parts of what a page shows, as tags, are found by an index and may be sorted then. With
    `counts` off, a statement that counts may read all that it counts.
    """
    assert plans, name
    costly: Plans = {}
    for statement, steps in plans.items():
        is_list = "LIMIT" in statement and name not in SORTED
        counted = "count(" in statement and not counts
        if (_scans(steps) and not counted) or (_sorts(steps) and is_list):
            costly[f"{name}: {statement}"] = steps
    return costly


@ON_BOTH
async def test_lists_go_by_an_index(filled: Database) -> None:
    costly: Plans = {}
    for name, question in (_lists(SMALL) | QUESTIONS).items():
        costly |= _costly(name, await _plans(filled, question))
    for name, question in _lists(BIG).items():
        # Events are counted, 10 000 at most; where one project has nearly all of them, reading the
        # table is the shortest way to that.
        costly |= _costly(name, await _plans(filled, question), counts=name != "events")

    with caught_statements() as statements:
        assert len(await Catalog(filled).commands.find_unanswered()) == ROWS // 500
    (query,) = [each for each in statements if "FROM commands" in each[0]]
    async with filled.reading() as connection:
        plan = await connection.run_sync(plan_of, *query)
    costly |= _costly("commands that wait", {query[0]: plan})
    assert not costly, json.dumps(costly, indent=1)


@ON_BOTH
async def test_events_of_one_subject_are_found_without_those_of_others(filled: Database) -> None:
    subject = str(ROWS - 1)
    questions: dict[str, Question] = {
        "page": lambda catalog: catalog.events.find_page(BIG, subject=subject),
        "newest": lambda catalog: catalog.events.find_newest(BIG, subject, [RungShedEvent]),
    }
    for name, question in questions.items():
        for statement, steps in (await _plans(filled, question)).items():
            is_used = any("ix_events_project_id_subject_id" in step for step in steps)
            assert is_used, f"{name}: {statement}: {steps}"


@ON_BOTH
async def test_a_question_without_an_index_is_noticed(filled: Database) -> None:
    async with filled.reading() as connection:
        for query in (
            "SELECT * FROM videos WHERE description = 'other' ORDER BY id LIMIT 10",
            "SELECT * FROM videos WHERE project_id = 1 ORDER BY description LIMIT 10",
        ):
            plan = await connection.run_sync(plan_of, query, ())
            assert _costly("a question", {query: plan}), plan
