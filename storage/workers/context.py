"""What every kind of work is done with."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from storage.catalog.jobs.jobs import Jobs
from storage.leases import LEASE_US, Lease
from storage.workers.catalog_retry import longest_wait, until_answered
from storage.workers.store_health import StoreHealth

T = TypeVar("T")


class WorkContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the work of a process is leased and done with; each kind adds what else it needs.

    Leases last `lease_us` unless they are extended. `clock` is monotonic, in seconds; `health` is
    that of the store that the work is read from and written to. `more` is set when there may be
    more to lease.
    """

    jobs: Jobs
    now_us: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    lease_us: int = LEASE_US
    health: StoreHealth = msgspec.field(default_factory=StoreHealth)
    more: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    async def write(self, write: Callable[[Lease, int], Awaitable[T]], lease: Lease) -> T:
        """Write to the catalog until it answers (see `until_answered`), while the lease is held.

        `write` is called with the lease and the time.
        """
        return await until_answered(
            lambda: write(lease, self.now_us()),
            within=longest_wait(lease.lease_us),
            facts=lease.facts,
            clock=self.clock,
        )
