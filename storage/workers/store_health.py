"""Whether the store is well: the disk or object store of the media, and the catalog's database.

While it is not, nothing is leased, work under way waits before its next write, and an attempt that
breaks off does not count as failed. The log has one line when that begins and one when it ends. For
one event loop; all pools of a process share one `StoreHealth`.

A check may miss what is wrong. If work on two subjects in a row, such as two videos, fails with the
same error of the store, they are not the cause: leasing pauses, and failures of that kind do not
count any more, until something succeeds. Each pause is longer than the one before.

Where another copy of the catalog has the store (`storage.store_lease`), nothing is leased either.
No subject and no disk is the cause of that, so it counts neither way.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from storage.errors import StorageError
from storage.objects.base import ObjectError, ObjectMissing, StoreClaimed

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
# A store that comes and goes is not well yet. In this time the workers of all hosts extend the
# leases that ended while the database was away.
_STEADY_SECONDS: Final = 5.0
# Something is written to each folder this often though all seems well: a bucket charges for it.
_THOROUGH_SECONDS: Final = 300.0
# The first pause after two subjects failed alike, and the longest one: the next attempts are made
# while whoever repairs the store still watches.
_PAUSE_SECONDS: Final = 30.0
_LONGEST_PAUSE_SECONDS: Final = 600.0

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

    It is well again once every check of `steady_seconds` has found it so. The first check is
    thorough, and one in `thorough_seconds`. `clock` is in seconds and monotonic.
    """

    def __init__(
        self,
        check: StoreCheck = _always_well,
        *,
        clock: Callable[[], float] = time.monotonic,
        poll_seconds: float = _POLL_SECONDS,
        steady_seconds: float = _STEADY_SECONDS,
        thorough_seconds: float = _THOROUGH_SECONDS,
    ) -> None:
        self._check = check
        self._clock = clock
        self._poll = poll_seconds
        self._steady = steady_seconds
        self._thorough = thorough_seconds
        self._checking = asyncio.Lock()
        self._checked: float | None = None
        self._checked_thoroughly: float | None = None
        self._cause: StorageError | None = None
        self._last_failure: tuple[int, _Kind] | None = None
        self._blamed: _Kind | None = None
        self._pauses = 0
        self._paused_until = 0.0
        self._ill_since: float | None = None
        self._well_since: float | None = None

    async def is_well(self) -> bool:
        """Return the state of the store; check it if that was not done lately."""
        async with self._checking:
            if self._checked is None or self._clock() - self._checked >= self._poll:
                await self._examine(thorough=self._ill_since is not None or self._is_due())
        return self._ill_since is None

    async def problem(self) -> ObjectError | None:
        """Return why media cannot be written now; None if they can, or the catalog is the cause."""
        cause = None if await self.is_well() else self._cause
        return cause if isinstance(cause, ObjectError) else None

    @property
    def pause(self) -> str | None:
        """Why leasing paused, or pauses, after two subjects failed alike; None if nothing did."""
        if self._blamed is None:
            return None
        return f"transcoding pauses: two videos in a row failed with: {self._blamed.text}"

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

    async def wait_to_lease(self) -> None:
        """Wait until the store is well and no pause is left."""
        while True:
            await self.wait()
            if self._clock() >= self._paused_until:
                return
            await asyncio.sleep(self._poll)

    def is_to_blame(self, subject: int, error: Exception | None) -> bool:
        """Record that a subject failed while checks find the store well; return if it is not.

        `error` is what made it fail. The store is to blame if another subject failed right before
        with the same error of the store.
        """
        if isinstance(error, StoreClaimed):
            return True
        kind = _kind(error)
        last, self._last_failure = self._last_failure, None if kind is None else (subject, kind)
        if kind is None:
            return False
        if kind != self._blamed and (last is None or last[0] == subject or last[1] != kind):
            return False
        self._begin_pause(kind)
        return True

    def record_success(self) -> None:
        """Record that work was done and stored."""
        if self._blamed is not None:
            log.info("jobs leased again", extra={"pauses": self._pauses})
        self._last_failure = self._blamed = None
        self._pauses, self._paused_until = 0, 0.0

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
        self._cause = error
        if self._ill_since is None:
            self._ill_since = self._clock()
            log.warning("jobs not leased", extra={"cause": str(error)})

    def _begin_pause(self, kind: "_Kind") -> None:
        now = self._clock()
        if self._blamed == kind and now < self._paused_until:
            return  # work that was under way when the pause began
        seconds = min(_PAUSE_SECONDS * 2**self._pauses, _LONGEST_PAUSE_SECONDS)
        self._blamed, self._pauses, self._paused_until = kind, self._pauses + 1, now + seconds
        log.warning("jobs not leased", extra={"cause": self.pause, "seconds": round(seconds)})

    def _is_due(self) -> bool:
        """Return whether a thorough check is due."""
        last = self._checked_thoroughly
        return last is None or self._clock() - last >= self._thorough

    async def _examine(self, *, thorough: bool) -> None:
        try:
            await self._check(thorough=thorough)
        except StorageError as error:
            self.report(error)
        else:
            self._note_well()
        self._checked = self._clock()
        if thorough:
            self._checked_thoroughly = self._checked

    def _note_well(self) -> None:
        if self._ill_since is None:
            return
        now = self._clock()
        if self._well_since is None:
            self._well_since = now
        if now - self._well_since >= self._steady:
            log.info("jobs leased again", extra={"seconds": round(now - self._ill_since)})
            self._ill_since = self._well_since = None


class _Kind(msgspec.Struct, frozen=True):
    """What errors of the store have in common: the top folder, and what is wrong there."""

    folder: str
    reason: str

    @property
    def text(self) -> str:
        return f"{self.folder}: {self.reason}"


def _kind(error: Exception | None) -> _Kind | None:
    """Return the kind of an error of the store; None for any other error.

    A file that is missing is no fault of the store.
    """
    if isinstance(error, ObjectMissing | FileNotFoundError):
        return None
    if isinstance(error, ObjectError):
        return _Kind(error.address.partition("/")[0], error.reason)
    if isinstance(error, OSError):
        return _Kind("the disk", error.strerror or type(error).__name__)
    return None
