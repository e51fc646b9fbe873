"""How many rows are due to be removed by the clock, of how many that will be some day.

Runs within the caller's transaction.
"""

import msgspec
from sqlalchemy import ColumnElement, func, select

from storage.catalog.engine.connection import AsyncConnection


class Due(msgspec.Struct, frozen=True):
    """Of `total`, `count` are due now."""

    count: int
    total: int


async def count_due(
    connection: AsyncConnection, is_due: ColumnElement[bool], *among: ColumnElement[bool]
) -> Due:
    """Count the rows that meet the conditions `among`, and those of them that are due."""
    query = select(func.count().filter(is_due), func.count()).where(*among)
    count, total = (await connection.execute(query)).one()
    return Due(count, total)
