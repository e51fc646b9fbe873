"""Whether the store is well: the disk or object store of the media, and the catalog's database.

While it is not, nothing is leased, work under way waits before its next write, and an attempt that
breaks off does not count as failed. The log has one line when that begins and one when it ends. For
one event loop; all pools of a process share one `StoreHealth`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from storage.errors import StorageError
from storage.objects.base import ObjectError

__all__ = ["StoreCheck", "StoreHealth"]

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
# A store that comes and goes is not well yet. In this time the workers of all hosts extend the
# leases that ended while the database was away.
_STEADY_SECONDS: Final = 5.0

T = TypeVar("T")


class StoreCheck(Protocol):
    """Raises `StorageError` while the store is not well.

    With `thorough`, something is written and read back.
    """

    async def __call__(self, *, thorough: bool) -> None:
        """Check the store."""
        ...


async def _always_well(*, thorough: bool) -> None:
    """Treat the store as well."""
    del thorough


class StoreHealth:
    """The state of the store, as found at most `poll_seconds` ago.

    It is well again once every check of `steady_seconds` has found it so. `clock` is in seconds and
    monotonic.
    """

    def __init__(
        self,
        check: StoreCheck = _always_well,
        *,
        clock: Callable[[], float] = time.monotonic,
        poll_seconds: float = _POLL_SECONDS,
        steady_seconds: float = _STEADY_SECONDS,
    ) -> None:
        self._check = check
        self._clock = clock
        self._poll = poll_seconds
        self._steady = steady_seconds
        self._checking = asyncio.Lock()
        self._checked: float | None = None
        self._ill_since: float | None = None
        self._well_since: float | None = None

    async def is_well(self) -> bool:
        """Return the state of the store; check it if that was not done lately."""
        async with self._checking:
            if self._checked is None or self._clock() - self._checked >= self._poll:
                await self._examine(thorough=self._ill_since is not None)
        return self._ill_since is None

    async def check_thoroughly(self) -> bool:
        """Check the store thoroughly now, because something has failed; return its state."""
        async with self._checking:
            await self._examine(thorough=True)
        return self._ill_since is None

    async def wait(self) -> None:
        """Wait until the store is well."""
        while True:
            if await self.is_well():
                return
            await asyncio.sleep(self._poll)

    async def write(self, action: Callable[[], Awaitable[T]]) -> T:
        """Write to the store once it is well, and again if that failed because it was not.

        Raises:
            ObjectError: the store is well, and refuses this write.
        """
        while True:
            await self.wait()
            try:
                return await action()
            except ObjectError:
                if await self.check_thoroughly():
                    raise

    def report(self, error: StorageError) -> None:
        """Record that something failed because the store is not well."""
        self._well_since = None
        if self._ill_since is None:
            self._ill_since = self._clock()
            log.warning("jobs not leased", extra={"cause": str(error)})

    async def _examine(self, *, thorough: bool) -> None:
        try:
            await self._check(thorough=thorough)
        except StorageError as error:
            self.report(error)
        else:
            self._note_well()
        self._checked = self._clock()

    def _note_well(self) -> None:
        if self._ill_since is None:
            return
        now = self._clock()
        if self._well_since is None:
            self._well_since = now
        if now - self._well_since >= self._steady:
            log.info("jobs leased again", extra={"seconds": round(now - self._ill_since)})
            self._ill_since = self._well_since = None
