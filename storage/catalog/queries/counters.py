"""How many rows of a kind a project has, without counting them.

A transaction that adds or removes a row adds to the total here; so a total is right whenever the
rows are. Each function runs within the caller's transaction, and totals change at its end
(`storage.catalog.engine.lock_order`): it does not see its own changes.
"""

from functools import partial
from typing import Final

from sqlalchemy import bindparam, insert, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.lock_order import Rank, defer
from storage.catalog.schema.tables import totals

KINDS: Final = (
    "streams",
    "videos",
    "videos.inprogress",
    "videos.completed",
    "videos.failed",
    "tags",
    "categories",
    "players",
)
# Run for nearly each page of a list: built once, as building it costs more than running it.
_ONE: Final = select(totals.c.number).where(
    totals.c.project_id == bindparam("of"), totals.c.kind == bindparam("which")
)


async def begin(connection: AsyncConnection, project: int) -> None:
    """Start the totals of a new project at zero."""
    rows = [{"project_id": project, "kind": kind, "number": 0} for kind in KINDS]
    await connection.execute(insert(totals), rows)


def add(connection: AsyncConnection, project: int, kind: str, number: int) -> None:
    """Count `number` more rows of a kind (fewer, where it is negative), as the transaction ends."""
    write = partial(_write, project=project, kind=kind, number=number)
    defer(connection, Rank.TOTALS, write, row=(project, kind))


def move_video(connection: AsyncConnection, project: int, before: str, after: str) -> None:
    """Count a video in its new phase."""
    if before != after:
        add(connection, project, f"videos.{before}", -1)
        add(connection, project, f"videos.{after}", 1)


async def _write(connection: AsyncConnection, *, project: int, kind: str, number: int) -> None:
    is_total = (totals.c.project_id == project, totals.c.kind == kind)
    await connection.execute(
        update(totals).where(*is_total).values(number=totals.c.number + number)
    )


async def find(connection: AsyncConnection, project: int, kind: str) -> int:
    """Return how many rows of a kind there are."""
    result = await connection.execute(_ONE, {"of": project, "which": kind})
    return result.scalar_one_or_none() or 0
