"""Workers that lease jobs or spans and do them, several at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Final, Generic, Protocol, TypeVar

from media.no_op import always
from storage.cancellation import uncancelled
from storage.errors import CatalogError, StorageError
from storage.job_leases import HeldJob, HeldSpan, JobLost, SpanLost
from transcode.jobs.store_health import StoreHealth

log = logging.getLogger(__name__)

# Work that another process queued is found this soon; work of this process at once (`nudge`).
_POLL_SECONDS: Final = 0.5
_TROUBLE_SECONDS: Final = 5.0  # the end of a job could not be recorded

HeldT = TypeVar("HeldT", bound=HeldJob | HeldSpan)


class WorkSource(Protocol[HeldT]):
    """What the workers lease, and how it is done."""

    async def lease(self, owner: str) -> HeldT | None:
        """Lease what is to be done next, if there is anything; `owner` is a new random name."""
        ...

    async def do(self, held: HeldT) -> None:
        """Do what was leased."""
        ...


class WorkerPool(Generic[HeldT]):
    """At most `size` workers at a time over one source of work.

    `new_owner` makes random names. No new work is begun while `may_begin` returns False, or the
    store is not well by `health`; work under way continues. Each piece of work is leased and done
    within a block of `place`. `prefix` is put before the names of log events.
    """

    def __init__(
        self,
        source: WorkSource[HeldT],
        *,
        size: int,
        new_owner: Callable[[], str],
        may_begin: Callable[[], bool] = always,
        place: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        health: StoreHealth | None = None,
        prefix: str = "",
    ) -> None:
        self._source = source
        self._size = size
        self._new_owner = new_owner
        self._may_begin = may_begin
        self._place = place
        self._health = health or StoreHealth()
        self._prefix = prefix
        self._more = asyncio.Event()
        self._turn = asyncio.Lock()

    def nudge(self) -> None:
        """Look for work now instead of at the next poll."""
        self._more.set()

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

    async def _find_work(self, place: AsyncExitStack) -> HeldT:
        """Return what was leased; `place` then holds the place for doing it.

        Of all workers without work one looks for some, and the others wait for their turn.
        """
        async with self._turn:
            while True:
                self._more.clear()
                await self._health.wait_to_lease()
                # The place comes first: a lease would expire while it waits for one.
                async with AsyncExitStack() as taken:
                    await taken.enter_async_context(self._place())
                    try:
                        held = await self._lease()
                    except CatalogError as error:
                        self._health.report(error)
                        continue
                    if held is not None:
                        await place.enter_async_context(taken.pop_all())
                        return held
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._more.wait()

    async def _lease(self) -> HeldT | None:
        return await self._source.lease(self._new_owner()) if self._may_begin() else None

    async def _do(self, held: HeldT) -> None:
        job = held.job if isinstance(held, HeldSpan) else held.id
        facts = {"job": job, "attempt": held.attempt}
        try:
            with uncancelled():
                await self._source.do(held)
        except (JobLost, SpanLost):
            log.warning("%sjob lost", self._prefix, extra=facts)
        except StorageError as error:
            # The lease expires, and the job is leased again.
            cause = {**facts, "cause": str(error)}
            log.error("%sjob not ended", self._prefix, extra=cause)  # noqa: TRY400  # one line
            await asyncio.sleep(_TROUBLE_SECONDS)
        except Exception:  # one file's fault must not end the other jobs, nor the live streams
            # The lease expires; after the third time the video fails.
            log.exception("%sjob broke off", self._prefix, extra=facts)
