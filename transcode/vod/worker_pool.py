"""Workers that wait for jobs and do them, a few at once."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from media.no_op import always
from storage.errors import CatalogError
from storage.job_leases import HeldJob, HeldSpan, JobLost, SpanLost
from transcode.vod.job import VideoTranscoder

__all__ = ["FileWorkers"]

log = logging.getLogger(__name__)

# What another process queued is found so soon; what this one queued, at once (`nudge`).
_POLL_SECONDS: Final = 0.5
_TROUBLE_SECONDS: Final = 5.0


class FileWorkers:
    """Does the jobs and spans of a catalog, at most `most` at once.

    `new_owner` makes random names. Nothing new is begun while `may_begin` says no: live streams
    need the machine. What is under way goes on.
    """

    def __init__(
        self,
        transcoder: VideoTranscoder,
        *,
        most: int,
        new_owner: Callable[[], str],
        may_begin: Callable[[], bool] = always,
    ) -> None:
        self._transcoder = transcoder
        self._most = most
        self._new_owner = new_owner
        self._may_begin = may_begin
        self._more = asyncio.Event()
        transcoder.on_more = self.nudge

    def nudge(self) -> None:
        """Look for work now: there is more of it."""
        self._more.set()

    async def run(self) -> None:
        """Take jobs and do them until cancelled; what is under way then is given back."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._most):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            self._more.clear()
            pause = _POLL_SECONDS
            # The core comes first: a lease that waits for one would run out.
            async with self._transcoder.cores.one():
                try:
                    held = await self._leased()
                except CatalogError as error:
                    log.warning("no jobs to be had", extra={"cause": str(error)})
                    held, pause = None, _TROUBLE_SECONDS
                if held is not None:
                    await self._do(held)
                    continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._more.wait()

    async def _leased(self) -> HeldJob | HeldSpan | None:
        """Lease a job or a span, where there is one and it may be begun."""
        return await self._transcoder.lease(self._new_owner()) if self._may_begin() else None

    async def _do(self, held: HeldJob | HeldSpan) -> None:
        number = held.id if isinstance(held, HeldJob) else held.job
        facts = {"job": number, "attempt": held.attempt}
        try:
            await self._transcoder.do(held)
        except (JobLost, SpanLost):
            log.warning("job lost", extra=facts)
        except CatalogError as error:
            # The lease runs out, and the job is taken again.
            log.error("job not ended", extra={**facts, "cause": str(error)})  # noqa: TRY400  # one line
            await asyncio.sleep(_TROUBLE_SECONDS)
        except Exception:  # one file's fault must not end the others, nor the streams beside
            # Its lease runs out; after the third time the video fails.
            log.exception("job broke off", extra=facts)
