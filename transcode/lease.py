"""Holding what was leased while something is done with it: beats, and an end where it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from storage.errors import CatalogError, StorageError
from storage.jobs import BEAT_SECONDS, LEASE_US, JobLost, SpanLost

__all__ = ["holding"]

log = logging.getLogger(__name__)

_LEASE_SECONDS: Final = LEASE_US / 1_000_000

T = TypeVar("T")


async def holding(
    doing: Awaitable[T],
    *,
    beat: Callable[[], Awaitable[None]],
    lost: StorageError,
    clock: Callable[[], float],
    ends: tuple[type[Exception], ...],
) -> T:
    """Do something while a lease is extended by `beat`; broken off where that is lost.

    `ends` are the errors that `doing` may end with.

    Raises:
        StorageError: `lost`, where it was.
        Exception: one of `ends`.
    """
    outcome: list[T] = []
    failure: Exception | None = None
    try:
        async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(_beat(beat, deadline, clock))
            try:
                outcome.append(await doing)
            except ends as error:
                # Out of this block it would come as a group.
                failure = error
            finally:
                beating.cancel()
    except TimeoutError as error:
        raise lost from error
    if failure is not None:
        raise failure
    return outcome[0]


async def _beat(
    beat: Callable[[], Awaitable[None]], deadline: asyncio.Timeout, clock: Callable[[], float]
) -> None:
    """Extend the lease again and again; move the deadline to now when it is lost."""
    good = clock()
    while clock() - good < _LEASE_SECONDS:
        await asyncio.sleep(BEAT_SECONDS)
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await beat()
            good = clock()
        except (JobLost, SpanLost):
            break
        except (CatalogError, TimeoutError) as error:
            log.warning("lease not extended", extra={"cause": str(error)})
    deadline.reschedule(asyncio.get_running_loop().time())
