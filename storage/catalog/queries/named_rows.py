"""Rows of a project that have a name, in pages: tags, categories, players.

Each function runs within the caller's transaction.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Table, func, select

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.queries import counters, text_search
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Named, Page, Sort

PAGE_SIZE: Final = 10
# The largest number that a row can have: 31 bits, on PostgreSQL.
MAX_ID: Final = (1 << 31) - 1

R = TypeVar("R", bound=msgspec.Struct)


async def lock(connection: AsyncConnection, table: Table, project: int, number: int) -> bool:
    """Lock a project's row against deletion; return False if the project has no such row."""
    query = (
        select(table.c.id)
        .where(table.c.id == number, table.c.project_id == project)
        .with_for_update(read=True, key_share=True)
    )
    if not 0 < number <= MAX_ID:
        return False
    return (await connection.execute(query)).scalar_one_or_none() is not None


async def find_named(
    connection: AsyncConnection, table: Table, ids: Iterable[int | None]
) -> dict[int | None, Named]:
    """Return the rows with these numbers, by number; None stands for none."""
    numbers = {each for each in ids if each is not None}
    if not numbers:
        return {}
    reader = RowReader(Named, table)
    query = select(*reader.columns).where(table.c.id.in_(numbers))
    return {each.id: each for each in await reader.find_all(connection, query)}


async def find_page(
    connection: AsyncConnection,
    table: Table,
    project: int,
    reader: RowReader[R],
    *,
    search: str,
    sort: Sort,
    page: int,
    size: int = PAGE_SIZE,
) -> Page[R]:
    """Return a page of a project's rows whose names contain `search`, whatever its case.

    The table's total is kept under its name (`storage.catalog.queries.counters`).
    """
    conditions = [table.c.project_id == project]
    if search:
        conditions.append(text_search.contains(table, "name", search))
        total = None
    else:
        total = await counters.find(connection, project, table.name)
    order = _order(table, sort)
    return await page_of(
        connection, table, conditions, order, reader, total=total, page=page, size=size
    )


async def page_of(
    connection: AsyncConnection,
    table: Table,
    conditions: Sequence[ColumnElement[bool]],
    order: Sequence[ColumnElement[Any]],  # Any: columns of any type
    reader: RowReader[R],
    *,
    total: int | None,
    page: int,
    size: int = PAGE_SIZE,
    **others: object,
) -> Page[R]:
    """Return a page of the rows that meet `conditions`; they are counted if `total` is None.

    `others` are as in `RowReader.read`.
    """
    if total is None:
        count = select(func.count()).select_from(table).where(*conditions)
        total = (await connection.execute(count)).scalar_one()
    offset = (page - 1) * size
    items: tuple[R, ...] = ()
    # Beyond the end nothing is queried: a huge page number is no offset that a database takes.
    if offset < total:
        query = select(*reader.columns).where(*conditions).order_by(*order)
        rows = await connection.execute(query.limit(size).offset(offset))
        items = tuple(reader.read(row, **others) for row in rows)
    return Page(items=items, total=total, number=page, size=size)


def _order(table: Table, sort: Sort) -> list[ColumnElement[Any]]:  # Any: a column of any type
    """Return the order; equal rows are ordered by number, so that no page shows a row twice."""
    columns = [table.c.id]
    if sort.column == "name":
        columns.insert(0, table.c.name_fold)
    elif sort.column == "active":
        columns.insert(0, table.c.active)
    return [column.desc() if sort.descending else column.asc() for column in columns]
