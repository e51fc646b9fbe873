"""Holding what was leased while something is done with it: beats, and an end where it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from media.ticks import MICROSECONDS
from storage.errors import CatalogError
from storage.job_leases import HeldJob, HeldSpan, JobLost, SpanLost

__all__ = ["holding"]

log = logging.getLogger(__name__)

# Of a lease: two beats may fail, for a database that is busy and for a slow disk.
_BEATS: Final = 3

T = TypeVar("T")


async def holding(
    doing: Awaitable[T],
    *,
    held: HeldJob | HeldSpan,
    beat: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
    ends: tuple[type[Exception], ...],
) -> T:
    """Do something while the lease of what is `held` is extended by `beat`; broken off when lost.

    `ends` are the errors that `doing` may end with.

    Raises:
        JobLost, SpanLost: it is not held any more.
        Exception: one of `ends`.
    """
    outcome: list[T] = []
    failure: Exception | None = None
    try:
        async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(_beat(held.lease_us / MICROSECONDS, beat, deadline, clock))
            try:
                outcome.append(await doing)
            except ends as error:
                # Out of this block it would come as a group.
                failure = error
            finally:
                beating.cancel()
    except TimeoutError as error:
        raise (SpanLost(held) if isinstance(held, HeldSpan) else JobLost(held)) from error
    if failure is not None:
        raise failure
    return outcome[0]


async def _beat(
    lease: float,  # seconds
    beat: Callable[[], Awaitable[None]],
    deadline: asyncio.Timeout,
    clock: Callable[[], float],
) -> None:
    """Extend the lease again and again; move the deadline to now when it is lost."""
    good = clock()
    while clock() - good < lease:
        await asyncio.sleep(lease / _BEATS)
        try:
            async with asyncio.timeout(lease / _BEATS):
                await beat()
            good = clock()
        except (JobLost, SpanLost):
            break
        except (CatalogError, TimeoutError) as error:
            log.warning("lease not extended", extra={"cause": str(error)})
    deadline.reschedule(asyncio.get_running_loop().time())
