"""Workers that lease work and do it, several at a time."""

import asyncio
import contextlib
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import ClassVar, Final, Generic, TypeVar

from media.no_op import always
from storage.cancellation import uncancelled
from storage.errors import CatalogError, StorageError
from storage.leases import Lease, LeaseLost, WorkKind
from storage.workers.context import WorkContext

log = logging.getLogger(__name__)

# Work that another process queued is found this soon; work of this process at once (`nudge`).
_POLL_SECONDS: Final = 0.5
_TROUBLE_SECONDS: Final = 5.0  # the end of a job could not be recorded

ContextT = TypeVar("ContextT", bound=WorkContext, covariant=True)


class WorkSource(ABC, Generic[ContextT]):
    """What the workers of a process lease, and how it is done; projects take turns in each kind.

    A source leases work of its `kind`, or of others too in a `lease` of its own.
    """

    kind: ClassVar[WorkKind]

    def __init__(self, context: ContextT) -> None:
        self.context = context
        self._last_projects: dict[WorkKind, int] = {}

    async def lease(self, owner: str) -> Lease | None:
        """Lease what is to be done next, if there is anything; `owner` is a new random name.

        Raises:
            CatalogError: the database did not answer.
        """
        return await self.lease_kind(self.kind, owner)

    @abstractmethod
    async def do(self, held: Lease) -> None:
        """Do what was leased to its end (see `storage.workers.leased_task.LeasedTask.run`).

        Raises:
            LeaseLost: another worker holds the lease now, or what the work was for is gone.
            CatalogError: the end could not be recorded; the lease will expire.
        """

    def place(self) -> AbstractAsyncContextManager[None]:
        """Return a block within which each piece of work is leased and done."""
        return nullcontext()

    async def lease_kind(
        self,
        kind: WorkKind,
        owner: str,
        *,
        busy: frozenset[int] = frozenset(),
        passed_over: Collection[int] = (),
    ) -> Lease | None:
        """Lease the next work of a kind (see `Jobs.lease`), of the next project that has some."""
        lease = await self.context.jobs.lease(
            owner,
            self.context.now_us(),
            kind,
            lease_us=self.context.lease_us,
            after=self._last_projects.get(kind, 0),
            busy=busy,
            passed_over=passed_over,
        )
        if lease is not None:
            self._last_projects[kind] = lease.project
        return lease


class WorkerPool:
    """At most `size` workers at a time over one source of work.

    No new work is begun while `may_begin` returns False, or the store is not well; work under way
    continues. `prefix` is put before the names of log events.
    """

    def __init__(
        self,
        source: WorkSource[WorkContext],
        *,
        size: int,
        may_begin: Callable[[], bool] = always,
        prefix: str = "",
    ) -> None:
        self._source = source
        self._context = source.context
        self._size = size
        self._may_begin = may_begin
        self._prefix = prefix
        self._turn = asyncio.Lock()

    def nudge(self) -> None:
        """Look for work now instead of at the next poll."""
        self._context.more.set()

    async def run(self) -> None:
        """Lease work and do it until cancelled; what is under way then is given back."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._size):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            async with AsyncExitStack() as place:
                await self._do(await self._find_work(place))
            self.nudge()  # its end may allow other work to be leased

    async def _find_work(self, place: AsyncExitStack) -> Lease:
        """Return what was leased; `place` then holds the place for doing it.

        Of all workers without work one looks for some, and the others wait for their turn.
        """
        async with self._turn:
            while True:
                self._context.more.clear()
                await self._context.health.wait_to_lease()
                # The place comes first: a lease would expire while it waits for one.
                async with AsyncExitStack() as taken:
                    await taken.enter_async_context(self._source.place())
                    try:
                        held = await self._lease()
                    except CatalogError as error:
                        self._context.health.report(error)
                        continue
                    if held is not None:
                        await place.enter_async_context(taken.pop_all())
                        return held
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._context.more.wait()

    async def _lease(self) -> Lease | None:
        return await self._source.lease(secrets.token_hex(16)) if self._may_begin() else None

    async def _do(self, held: Lease) -> None:
        try:
            with uncancelled():
                await self._source.do(held)
        except LeaseLost:
            log.warning("%sjob lost", self._prefix, extra=held.facts)
        except StorageError as error:
            # The lease expires, and the job is leased again.
            cause = {**held.facts, "cause": str(error)}
            log.error("%sjob not ended", self._prefix, extra=cause)  # noqa: TRY400  # one line
            await asyncio.sleep(_TROUBLE_SECONDS)
        except Exception:  # one file's fault must not end the other jobs, nor the live streams
            # The lease expires; after the third time the video fails.
            log.exception("%sjob broke off", self._prefix, extra=held.facts)
