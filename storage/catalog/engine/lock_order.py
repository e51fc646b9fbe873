"""The order in which transactions lock rows, and the writes that each leaves to its end.

PostgreSQL ends one of two transactions that wait for each other; in one order they never do. A
transaction that locks rows of several of these kinds locks them in this order, and rows of one kind
by their numbers:

1. streams, then videos (a row that is changed is selected `with_for_update` first);
2. the project (`storage.catalog.queries.project_lookup.require`): each event and each new row of a
   project locks it, too; deleting the project locks it after all its streams, and its rows are
   removed later, streams and videos before all others (`storage.catalog.projects.removal`);
3. upload links, then uploads, recordings, imports, jobs and spans;
4. tags, categories and players. Whoever holds a stream or video may lock these before the project,
   since they are removed with a project only after that stream or video;
5. totals, by project and kind;
6. the lock that orders the outbox of broadcasts.

Hosts and then the owners of streams are locked in transactions that lock nothing of the above.
Tokens are locked before their sessions and links, and these before the project.

The last two are wanted by nearly every transaction. They are not written where they come up but at
the end (`defer`), sorted, so that no caller can get their order wrong and they are held shortest.

SQLite has one lock for all writers, and needs no order.
"""

from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["DEFERRED", "DeferredWrite", "DeferredWrites", "Rank", "defer"]

DeferredWrite = Callable[[AsyncConnection], Awaitable[None]]
# Where the deferred writes of a writing transaction are, in its connection's `info`.
DEFERRED: Final = "deferred"


class Rank(IntEnum):
    """The kinds of rows that are written last, in the order in which they are locked."""

    TOTALS = 5
    OUTBOX = 6


class DeferredWrites:
    """What a writing transaction does before it commits."""

    def __init__(self) -> None:
        self._writes: list[tuple[Rank, tuple[int, str], DeferredWrite]] = []

    def add(self, rank: Rank, row: tuple[int, str], write: DeferredWrite) -> None:
        """Leave a write of a row to the end; within a rank, rows are written in their order."""
        self._writes.append((rank, row, write))

    def has(self, rank: Rank) -> bool:
        """Return whether there is a write of that rank."""
        return any(each == rank for each, _, _ in self._writes)

    async def run(self, connection: AsyncConnection) -> None:
        """Write; writes of the same row keep the order in which they were added."""
        for _, _, write in sorted(self._writes, key=lambda each: each[:2]):
            await write(connection)


def defer(
    connection: AsyncConnection, rank: Rank, write: DeferredWrite, row: tuple[int, str] = (0, "")
) -> None:
    """Leave a write to the end of the caller's transaction; `row` is what it locks, in order."""
    writes: DeferredWrites = connection.info[DEFERRED]
    writes.add(rank, row, write)
