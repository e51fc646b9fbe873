"""The same work for many objects, some at a time: each waits for a disk or for the network."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from storage.cancellation import uncancelled
from storage.errors import StorageError

T = TypeVar("T")


async def do_each(
    items: Collection[T], work: Callable[[T], Awaitable[None]], *, at_once: int
) -> None:
    """Call `work` for each item, `at_once` at a time.

    A `StorageError` does not stop the others; the last one is raised when all are done. Any other
    error cancels them, and is raised unchanged.
    """
    failures: list[StorageError] = []
    remaining = iter(items)

    async def do_next() -> None:
        for item in remaining:
            try:
                await work(item)
            except StorageError as error:
                failures.append(error)

    try:
        with uncancelled():
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(at_once, len(items))):
                    tasks.create_task(do_next())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if failures:
        raise failures[-1]
