"""One attempt at a leased job or span: heartbeats while it runs, then one of five ends.

It finishes; it fails for good, because of its input; it is put back to be tried later, until it has
failed too often; it is given back at once when the process stops; or its lease is lost, and what
the attempt made is removed. Subclasses of `LeasedTask` say what each step is. Which work is leased
next is not decided here: see `transcode.jobs.worker_pool`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from media.ticks import MICROSECONDS
from storage.errors import CatalogError, StorageError
from storage.job_leases import HEARTBEAT_SECONDS, HeldJob, HeldSpan, JobLost, SpanLost

__all__ = ["AttemptFailed", "InputRefused", "LeasedTask", "TaskEvents"]

log = logging.getLogger(__name__)

# In the length of a lease: two may fail, one for a busy database and one for a slow disk.
_HEARTBEATS: Final = 3

HeldT = TypeVar("HeldT", bound=HeldJob | HeldSpan)
OutcomeT = TypeVar("OutcomeT")


class InputRefused(Exception):
    """The input cannot be used, now or later; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AttemptFailed(Exception):
    """The attempt failed through no fault of the input, so another one may succeed.

    `reason` is a sentence for the owner of the input.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TaskEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a task's log events."""

    begun: str
    failed: str
    given_up: str
    put_back: str
    given_back: str
    not_given_back: str


class LeasedTask(ABC, Generic[HeldT, OutcomeT]):
    """One attempt at what `held` is; `facts` are logged with each of its events.

    `spent_reason` is the sentence for the owner when all attempts so far ended without a word; it
    has a place for their number. `clock` is in seconds and monotonic.
    """

    events: ClassVar[TaskEvents]
    spent_reason: ClassVar[str]

    def __init__(
        self, held: HeldT, facts: Mapping[str, object], clock: Callable[[], float]
    ) -> None:
        self.held = held
        self.facts = dict(facts)
        self._clock = clock

    @abstractmethod
    async def extend_lease(self) -> None:
        """Extend the lease; raise `JobLost` or `SpanLost` if it is not held any more."""

    @abstractmethod
    async def make(self) -> OutcomeT:
        """Do the work while the lease is extended.

        Raises:
            InputRefused: no attempt can succeed.
            AttemptFailed: this attempt did not.
        """

    @abstractmethod
    async def finish(self, outcome: OutcomeT) -> None:
        """Record the outcome of `make`, then remove what it replaces.

        The lease is not extended any more: what is slow comes after the record.
        """

    @abstractmethod
    async def fail(self, reason: str) -> None:
        """Record that the work failed for good, then remove what was made."""

    @abstractmethod
    async def put_back(self, *, failed: bool) -> None:
        """Queue the work again: later if this attempt `failed`, else at once."""

    @abstractmethod
    async def discard(self) -> None:
        """Remove what this attempt made."""

    async def run(self) -> None:
        """Carry the attempt to its end; give the work back when cancelled.

        Raises:
            JobLost, SpanLost: the lease is lost, and nothing was changed.
            CatalogError: the end could not be recorded; the lease will expire.
        """
        if self.held.spent:
            await self._give_up(
                self.spent_reason.format(self.held.failures), failures=self.held.failures
            )
            return
        log.info(self.events.begun, extra=self.facts)
        try:
            await self._attempt()
        except asyncio.CancelledError:
            await self._give_back()
            raise
        except (JobLost, SpanLost):
            # Not after another `CatalogError`: the outcome may have been recorded, and be in use.
            await self.discard()
            raise

    async def _attempt(self) -> None:
        try:
            outcome = await self._make_while_held()
        except InputRefused as error:
            await self.fail(error.reason)
            log.info(self.events.failed, extra={**self.facts, "reason": error.reason})
        except AttemptFailed as error:
            await self._retry(error.reason)
        else:
            await self.finish(outcome)

    async def _make_while_held(self) -> OutcomeT:
        """Run `make` and extend the lease meanwhile; cancel `make` when the lease is lost."""
        outcome: list[OutcomeT] = []
        failure: Exception | None = None
        try:
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as tasks:
                heartbeat = tasks.create_task(self._extend_repeatedly(deadline))
                try:
                    outcome.append(await self.make())
                except (InputRefused, AttemptFailed, StorageError) as error:
                    failure = error  # raised in the group it would come out as an ExceptionGroup
                finally:
                    heartbeat.cancel()
        except TimeoutError as error:
            held = self.held
            raise (SpanLost(held) if isinstance(held, HeldSpan) else JobLost(held)) from error
        if failure is not None:
            raise failure
        return outcome[0]

    async def _extend_repeatedly(self, deadline: asyncio.Timeout) -> None:
        """Extend the lease until it is lost; then move `deadline` to now."""
        lease = self.held.lease_us / MICROSECONDS
        extended = self._clock()
        while self._clock() - extended < lease:
            await asyncio.sleep(lease / _HEARTBEATS)
            try:
                async with asyncio.timeout(lease / _HEARTBEATS):
                    await self.extend_lease()
                extended = self._clock()
            except (JobLost, SpanLost):
                break
            except (CatalogError, TimeoutError) as error:
                log.warning("lease not extended", extra={**self.facts, "cause": str(error)})
        deadline.reschedule(asyncio.get_running_loop().time())

    async def _retry(self, reason: str) -> None:
        if msgspec.structs.replace(self.held, failures=self.held.failures + 1).spent:
            await self._give_up(reason)
            return
        await self.put_back(failed=True)
        log.warning(self.events.put_back, extra={**self.facts, "reason": reason})
        await self.discard()

    async def _give_up(self, reason: str, **facts: object) -> None:
        await self.fail(reason)
        log.error(self.events.given_up, extra={**self.facts, "reason": reason, **facts})

    async def _give_back(self) -> None:
        """Let another worker begin at once; if that fails here, the lease expires."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self.put_back(failed=False)
                await self.discard()
            log.info(self.events.given_back, extra=self.facts)
        except (JobLost, SpanLost, CatalogError, TimeoutError) as error:
            log.warning(self.events.not_given_back, extra={**self.facts, "cause": str(error)})
