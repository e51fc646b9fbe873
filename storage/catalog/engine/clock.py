"""The database's clock: leases, ages and what has expired are judged by it.

All processes share it, so that differences between the hosts' own clocks do not matter. Between two
readings, this host's monotonic clock advances the time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, literal_column

from storage.catalog.engine.connection import AsyncConnection
from storage.errors import StorageError
from storage.wall_clock import wall_clock_us

# A host's clock drifts by a few milliseconds in this time.
_INTERVAL_SECONDS: Final = 60.0
# Microseconds since the Unix epoch; SQLite's are in steps of 1 ms.
_NOW_US: Final = {
    "postgresql": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    "sqlite": "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}


def now_in(connection: AsyncConnection) -> ColumnElement[int]:
    """Return the SQL expression for the current time of the database, in microseconds."""
    return literal_column(_NOW_US[connection.dialect.name], BigInteger())


def _monotonic_us() -> int:
    # Unlike CLOCK_MONOTONIC, it advances while a virtual machine is suspended.
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class DatabaseClock:
    """The time of the clock that `read` queries, in microseconds since the Unix epoch.

    Before the first reading, `now_us` returns the time of `wall_us`, this host's clock.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[int]],
        *,
        monotonic_us: Callable[[], int] = _monotonic_us,
        wall_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self._read = read
        self._monotonic_us = monotonic_us
        self._wall_us = wall_us
        self._offset_us: int | None = None

    async def synchronize(self) -> None:
        """Read the database's clock.

        Raises:
            CatalogError: the database did not answer.
        """
        sent_us = self._monotonic_us()
        now_us = await self._read()
        self._offset_us = now_us - (sent_us + self._monotonic_us()) // 2

    async def keep_synchronized(self, interval: float = _INTERVAL_SECONDS) -> None:
        """Read the database's clock every `interval` seconds, until cancelled.

        While the database does not answer, the time advances from the last reading.
        """
        while True:
            await asyncio.sleep(interval)
            with suppress(StorageError):
                await self.synchronize()

    def now_us(self) -> int:
        """Return the time by the database's clock."""
        if self._offset_us is None:
            return self._wall_us()
        return self._monotonic_us() + self._offset_us
