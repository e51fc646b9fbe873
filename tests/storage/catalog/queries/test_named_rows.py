"""Lists of named rows: searched, ordered, and no row on two pages or on none."""

from itertools import pairwise

from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.queries import named_rows
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change, Named, Page, ProjectRecord, Sort
from storage.catalog.schema.tables import tags
from tests.support.shared_engines import ON_BOTH

NEWEST = Sort()


async def listed(
    database: Database, project: int, *, search: str = "", sort: Sort = NEWEST, page: int = 1
) -> Page[Named]:
    async with database.reading() as connection:
        return await named_rows.find_page(
            connection, tags, project, RowReader(Named, tags),
            search=search, sort=sort, page=page,
        )  # fmt: skip


async def add(catalog: Catalog, project: ProjectRecord, *names: str) -> None:
    for name in names:
        await catalog.labels.add("tag", project.id, name, Change(1), active=True)


async def test_rows_that_are_equal_are_on_one_page_each(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    await add(catalog, project, *(f"tag {number}" for number in range(23)))
    for descending in (True, False):
        sort = Sort("active", descending=descending)
        pages = [await listed(database, project.id, sort=sort, page=page) for page in (1, 2, 3)]
        assert [len(page.items) for page in pages] == [10, 10, 3]
        numbers = [each.id for page in pages for each in page.items]
        assert all((a > b) is descending for a, b in pairwise(numbers))


@ON_BOTH
async def test_a_page_beyond_the_end_is_empty_however_far(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    await add(catalog, project, "one")
    for page in (2, 1 << 40, 10**30):
        rows = await listed(database, project.id, page=page)
        assert (rows.items, rows.total, rows.last) == ((), 1, 1)


@ON_BOTH
async def test_a_search_ignores_case_and_has_no_wildcards(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    await add(catalog, project, "ȘTIRI 100%", "știri_azi", "other")
    for search, count in (("știri", 2), ("%", 1), ("_", 1), ("\\", 0), ("nothing", 0)):
        rows = await listed(database, project.id, search=search)
        assert (len(rows.items), rows.total) == (count, count), search


async def test_rows_of_other_projects_are_not_listed(
    catalog: Catalog, database: Database, project: ProjectRecord
) -> None:
    other = await catalog.projects.add("other", Change(1))
    await add(catalog, other, "theirs")
    for search in ("", "theirs"):
        assert (await listed(database, project.id, search=search)).total == 0


async def test_a_page_may_be_larger(catalog: Catalog, project: ProjectRecord) -> None:
    await add(catalog, project, *(f"tag {number:02}" for number in range(12)))
    by_name = Sort("name", descending=False)
    whole = await catalog.labels.find_page("tag", project.id, sort=by_name, size=500)
    assert [label.name for label in whole.items] == [f"tag {number:02}" for number in range(12)]
    assert (whole.last, whole.total) == (1, 12)
    second = await catalog.labels.find_page("tag", project.id, sort=by_name, page=2, size=8)
    assert [label.name for label in second.items] == ["tag 08", "tag 09", "tag 10", "tag 11"]
    players = await catalog.players.find_page(project.id, size=500)
    assert (players.items, players.size) == ((), 500)
