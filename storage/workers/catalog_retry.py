"""Writes to the catalog that are repeated until the database answers.

A write whose answer was lost may have been made. If it then turns out that the lease is lost, that
may be because the write ended it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from media.no_op import do_nothing_async
from media.ticks import MICROSECONDS
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.25  # seconds: a deadlock or a lock that was held too long is over by then
_LONGEST_PAUSE: Final = 2.0
# The same write is refused again if the fault is ours.
_MOST_REFUSALS: Final = 4
# A database that is away cannot lease the work to others either. When it returns, a lease that has
# ended is still held unless another worker was faster.
_MOST_LEASES: Final = 20

T = TypeVar("T")


def longest_wait(lease_us: int) -> float:
    """Return for how many seconds work with such a lease continues while the database is away."""
    return _MOST_LEASES * lease_us / MICROSECONDS


async def until_answered(
    write: Callable[[], Awaitable[T]],
    *,
    within: float,
    facts: Mapping[str, object],
    before_retry: Callable[[], Awaitable[None]] = do_nothing_async,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Write until the database answers, pausing longer each time, for at most `within` seconds.

    A write that is answered, but refused, is tried four times. `before_retry` runs before each
    repetition, which it can prevent by raising. `facts` are logged with the first failure.

    Raises:
        CatalogError: the last failure, when the time is up or the write was refused too often.
        LeaseLost: raised by `write` or `before_retry`.
    """
    started, pause, failures, refusals = clock(), _FIRST_PAUSE, 0, 0
    while True:
        try:
            if failures:
                await before_retry()
            return await write()
        except CatalogError as error:
            failures += 1
            refusals += not isinstance(error, CatalogBusy | CatalogUnavailable)
            if clock() - started >= within or refusals >= _MOST_REFUSALS:
                raise
            if failures == 1:
                log.warning("catalog not written yet", extra={**facts, "cause": str(error)})
        await asyncio.sleep(min(pause, within))
        pause = min(2 * pause, _LONGEST_PAUSE)
