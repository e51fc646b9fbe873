"""Lists of many streams: a page of them asks the database as often as a page of one."""

from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.records.common import Change, Sort
from storage.catalog.streams.repository import PAGE_SIZE, STATES
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.many_rows import fill_streams
from tests.support.storage.query_plans import caught_statements

MANY = 500


@ON_BOTH
@pytest.mark.parametrize("search", ["", "number"])
async def test_the_length_of_a_list_costs_no_further_statement(
    catalog: Catalog, location: str | Path, search: str
) -> None:
    project = await catalog.projects.add("One", Change(1))
    stream = await catalog.streams.add(project.id, "Show number 0", Change(1))
    orders = (None, Sort("title", descending=False), Sort("id", descending=False))
    counts: list[list[int]] = []
    for many in (1, MANY + 1):
        if many > 1:
            fill_streams(location, stream.id, MANY)
        counts.append([])
        for sort in orders:
            for page in {1, -(-many // PAGE_SIZE)}:
                with caught_statements() as statements:
                    streams = await catalog.streams.find_page(
                        project.id, search=search, sort=sort, page=page
                    )
                assert streams.total == many
                assert len(streams.items) == min(many - (page - 1) * PAGE_SIZE, PAGE_SIZE)
                assert all(len(record.backups) == 1 for record in streams.items)
                counts[-1].append(len(statements))
    assert set(counts[1]) == set(counts[0])
    assert max(counts[0]) <= 6
    for state in STATES:
        page_of_state = await catalog.streams.find_page(project.id, state=state)
        assert (
            page_of_state.total == {"live": 0, "idle": MANY + 1, "unpublished": MANY // 10}[state]
        )
