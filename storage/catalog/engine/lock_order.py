"""The order in which transactions lock rows, and the writes that they defer to their end.

PostgreSQL aborts one of two transactions that deadlock; a common order prevents that. A transaction
that locks rows of several of these kinds locks them in this order, and rows of one kind by ID:

1. streams, then videos (select a row `with_for_update` before changing it), then rows of the trash;
2. the project (`storage.catalog.queries.project_lookup.require`): each event, when it is announced,
   and each new row of a project lock it, too; deleting the project locks it after all its streams,
   and its rows are removed later, streams and videos before all others
   (`storage.catalog.projects.removal`);
3. upload links, then uploads, recordings, imports, jobs, their parts and spans;
4. tags, categories and players. A transaction that holds a stream or video may lock these before
   the project, since a project's removal locks them only after its streams and videos. Their own
   deletion locks streams and videos after them, and waits for none of these;
5. totals, by project and kind;
6. the lock that orders the numbers of events and of the outbox of broadcasts.

Hosts and then the owners of streams are locked in transactions that lock nothing of the above.
Tokens are locked before their sessions and links, and these before the project.

Nearly every transaction needs totals, events and the outbox. They are written at the end of the
transaction (`defer`) and sorted, so that their order is always right and they are held as briefly
as possible.

SQLite has one lock for all writers, and needs no order.
"""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Final

from sqlalchemy import func, select

from storage.catalog.engine.connection import AsyncConnection

DeferredWrite = Callable[[AsyncConnection], Awaitable[None]]
# The key of a writing transaction's deferred writes in its connection's `info`.
DEFERRED: Final = "deferred"
_NUMBERS: Final = 0x48454144  # among PostgreSQL's advisory locks


class Rank(IntEnum):
    """The kinds of rows that are written last, in lock order."""

    TOTALS = 5
    EVENTS = 6
    OUTBOX = 7  # under the same lock


class DeferredWrites:
    """The writes that a transaction executes right before its commit."""

    def __init__(self) -> None:
        self._writes: list[tuple[Rank, tuple[int, str], DeferredWrite]] = []

    def add(self, rank: Rank, row: tuple[int, str], write: DeferredWrite) -> None:
        """Defer a write of a row; within a rank, rows are written in sorted order."""
        self._writes.append((rank, row, write))

    def has(self, rank: Rank) -> bool:
        """Return whether a write of that rank is deferred."""
        return any(each == rank for each, _, _ in self._writes)

    async def run(self, connection: AsyncConnection) -> None:
        """Execute the writes; those of the same row keep the order in which they were added."""
        for _, _, write in sorted(self._writes, key=lambda each: each[:2]):
            await write(connection)


def defer(
    connection: AsyncConnection, rank: Rank, write: DeferredWrite, row: tuple[int, str] = (0, "")
) -> None:
    """Defer a write to the end of the caller's transaction; `row` sorts the rows of a rank."""
    writes: DeferredWrites = connection.info[DEFERRED]
    writes.add(rank, row, write)


async def lock_numbers(connection: AsyncConnection) -> None:
    """Lock the numbers of events and of the outbox, so that they rise as transactions end.

    The lock is held until after the commit is visible: no higher number can be read before this
    transaction's. For deferred writes alone: who holds it waits for nothing else.
    """
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(_NUMBERS)))
