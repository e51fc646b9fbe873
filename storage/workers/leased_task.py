"""One attempt at leased work: heartbeats while it runs, then one of five ends.

It finishes; it fails for good, because of its input; it is put back to be tried later, until it has
failed too often; it is given back at once when the process stops; or its lease is lost, and what
the attempt made is removed. An attempt that broke off because the store or the database was away
(by a check, or because other work failed alike right before), or because what it needs is not to be
had now, is put back and does not count. Each end is recorded until the database answers. Subclasses
of `LeasedTask` define the steps. Which work is leased next is not decided here: see
`storage.workers.worker_pool`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from media.ticks import MICROSECONDS
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable, StorageError
from storage.leases import HEARTBEAT_SECONDS, Lease, LeaseLost
from storage.workers.catalog_retry import longest_wait, until_answered
from storage.workers.context import WorkContext

log = logging.getLogger(__name__)

# Within one lease: two may fail, one for a busy database and one for a slow disk.
_HEARTBEATS: Final = 3
_AWAY_SECONDS: Final = 2.0  # between two tries while the database is away
_NO_CATALOG: Final = "The catalog did not answer."

ContextT = TypeVar("ContextT", bound=WorkContext)
OutcomeT = TypeVar("OutcomeT")


class NotDone(Exception):
    """The attempt did not succeed; `reason` is a sentence for the owner of the input."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InputRefused(NotDone):
    """The input cannot be used, now or later."""


class AttemptFailed(NotDone):
    """The attempt failed through no fault of the input, so another one may succeed.

    It is raised from the store's error, if that is the cause.
    """


class Postponed(NotDone):
    """The attempt cannot go on now, and is put back without counting."""


class TaskEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a task's log events; those of work that is put back begin with `what`."""

    what: str
    begun: str
    failed: str
    given_up: str


class LeasedTask(ABC, Generic[ContextT, OutcomeT]):
    """One attempt at the leased work `held`; `facts` are logged with each of its events.

    `spent_reason` is the sentence for the owner when no attempt so far recorded its end; it has a
    placeholder for their number.
    """

    events: ClassVar[TaskEvents]
    spent_reason: ClassVar[str]

    def __init__(self, context: ContextT, held: Lease, **facts: object) -> None:
        self.held = held
        self.facts = held.facts | facts
        self._context = context
        self._end_unanswered = False

    async def extend_lease(self) -> None:
        """Extend the lease; raise `LeaseLost` if it is not held any more."""
        await self._context.jobs.extend(self.held, self._context.now_us())

    @abstractmethod
    async def make(self) -> OutcomeT:
        """Do the work while the lease is extended.

        Raises:
            InputRefused: no attempt can succeed.
            AttemptFailed: this attempt did not.
            Postponed: it could not go on now.
        """

    async def finish(self, outcome: OutcomeT) -> None:
        """Record the outcome of `make`, and nothing else: it is repeated if that fails."""
        del outcome  # by default, nothing remains of it
        await self._context.jobs.finish(self.held)

    async def fail(self, reason: str) -> None:
        """Record that the work failed for good, and nothing else."""
        del reason  # it is logged
        await self._context.jobs.finish(self.held)

    async def clean_up(self) -> None:  # not every task leaves something behind
        """Remove what the recorded outcome or failure leaves behind; the lease is over."""

    async def put_back(self, *, failed: bool) -> None:
        """Queue the work again: later if this attempt `failed`, else at once."""
        await self._context.jobs.requeue(self.held, self._context.now_us(), failed=failed)

    async def discard(self) -> None:  # not every task makes something
        """Remove what this attempt made."""

    async def run(self) -> None:
        """Carry the attempt to its end; give the work back when cancelled.

        Raises:
            LeaseLost: the lease is lost, and nothing was changed.
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
        except LeaseLost:
            # An end that was not answered may have been recorded, and what was made may be in use.
            if not self._end_unanswered:
                await self.discard()
            raise

    async def _attempt(self) -> None:
        try:
            outcome = await self._make_while_held()
        except InputRefused as error:
            reason = error.reason
            await self._record(lambda: self.fail(reason))
            log.info(self.events.failed, extra={**self.facts, "reason": reason})
            await self.clean_up()
        except AttemptFailed as error:
            await self._retry(error.reason)
        except Postponed as error:
            await self._put_back(error.reason, failed=False)
        else:
            await self._record(lambda: self.finish(outcome))
            self._context.health.record_success()
            await self.clean_up()

    async def _make_while_held(self) -> OutcomeT:
        """Run `make` and extend the lease meanwhile; cancel `make` when the lease is lost."""
        outcome: list[OutcomeT] = []
        failure: Exception | None = None
        try:
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as tasks:
                heartbeat = tasks.create_task(self._extend_repeatedly(deadline))
                try:
                    outcome.append(await self.make())
                # Raised in the group they would come out as an ExceptionGroup.
                except (InputRefused, AttemptFailed) as error:
                    failure = await self._judge(error)
                except (CatalogBusy, CatalogUnavailable) as error:
                    log.warning("catalog did not answer", extra={**self.facts, "cause": str(error)})
                    failure = Postponed(_NO_CATALOG)
                except (StorageError, Postponed) as error:
                    failure = error
                finally:
                    heartbeat.cancel()
        except TimeoutError as error:
            raise LeaseLost(self.held) from error
        if failure is not None:
            raise failure
        return outcome[0]

    async def _judge(self, error: InputRefused | AttemptFailed) -> Exception:
        """Return how an attempt that failed ends: it does not count if the store is at fault."""
        if not await self._context.health.check_thoroughly():
            return Postponed(error.reason)
        if isinstance(error, AttemptFailed):
            cause = error.__cause__
            store_error = cause if isinstance(cause, Exception) else None
            if self._context.health.is_to_blame(self.held.subject, store_error):
                return Postponed(error.reason)
        return error

    async def _extend_repeatedly(self, deadline: asyncio.Timeout) -> None:
        """Extend the lease until it is lost; then move `deadline` to now."""
        interval = self.held.lease_us / MICROSECONDS / _HEARTBEATS
        extended, answered = self._context.clock(), True
        while self._context.clock() - extended < longest_wait(self.held.lease_us):
            await asyncio.sleep(interval if answered else min(interval, _AWAY_SECONDS))
            try:
                async with asyncio.timeout(interval):
                    await self.extend_lease()
                extended, answered = self._context.clock(), True
            except LeaseLost:
                break
            except (CatalogError, TimeoutError) as error:
                if answered:
                    log.warning("lease not extended", extra={**self.facts, "cause": str(error)})
                answered = False
        deadline.reschedule(asyncio.get_running_loop().time())

    async def _retry(self, reason: str) -> None:
        if msgspec.structs.replace(self.held, failures=self.held.failures + 1).spent:
            await self._give_up(reason)
            return
        await self._put_back(reason, failed=True)

    async def _put_back(self, reason: str, *, failed: bool) -> None:
        await self._record(lambda: self.put_back(failed=failed))
        log.warning("%s put back", self.events.what, extra={**self.facts, "reason": reason})
        await self.discard()

    async def _give_up(self, reason: str, **facts: object) -> None:
        await self._record(lambda: self.fail(reason))
        log.error(self.events.given_up, extra={**self.facts, "reason": reason, **facts})
        await self.clean_up()

    async def _record(self, write: Callable[[], Awaitable[None]]) -> None:
        """Record the end of this attempt, and keep the lease until the database has answered.

        Raises:
            LeaseLost: the lease is lost, or an earlier try was recorded without an answer.
            CatalogError: the database did not answer for `longest_wait`.
        """

        async def try_to_write() -> None:
            try:
                await write()
            except CatalogError:
                self._end_unanswered = True
                raise

        await until_answered(
            try_to_write,
            within=longest_wait(self.held.lease_us),
            facts=self.facts,
            before_retry=self.extend_lease,
            clock=self._context.clock,
        )

    async def _give_back(self) -> None:
        """Let another worker begin at once; if that fails here, the lease expires."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self.put_back(failed=False)
                await self.discard()
            log.info("%s given back", self.events.what, extra=self.facts)
        except (LeaseLost, CatalogError, TimeoutError) as error:
            cause = {**self.facts, "cause": str(error)}
            log.warning("%s not given back", self.events.what, extra=cause)
