"""Concurrent calls of a catalog, and the number of those refused as busy."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from storage.errors import CatalogBusy

Call = Callable[[], Awaitable[object]]


async def count_refused(callers: Sequence[Sequence[Call]]) -> int:
    """Run each caller's calls in turn, all callers concurrently, and count the refused calls.

    A transaction that the database aborted because of a deadlock is refused as busy.
    """
    refused = 0

    async def run(calls: Sequence[Call]) -> None:
        nonlocal refused
        for call in calls:
            try:
                await call()
            except CatalogBusy:
                refused += 1

    async with asyncio.TaskGroup() as group:
        for calls in callers:
            group.create_task(run(calls))
    return refused
