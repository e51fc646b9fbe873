"""Workers that wait for jobs and do them, a few at once."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from storage.catalog.jobs import Jobs
from storage.errors import CatalogError
from storage.jobs import HeldJob, JobLost
from transcode.video import VideoTranscoder

__all__ = ["FileWorkers"]

log = logging.getLogger(__name__)

# What another process queued is found so soon; what this one queued, at once (`nudge`).
_POLL_SECONDS: Final = 0.5
_TROUBLE_SECONDS: Final = 5.0


class FileWorkers:
    """Does the jobs of a catalog, at most `most` at once. `new_owner` makes random names."""

    def __init__(
        self,
        transcoder: VideoTranscoder,
        jobs: Jobs,
        *,
        most: int,
        now_us: Callable[[], int],
        new_owner: Callable[[], str],
    ) -> None:
        self._transcoder = transcoder
        self._jobs = jobs
        self._most = most
        self._now_us = now_us
        self._new_owner = new_owner
        self._more = asyncio.Event()

    def nudge(self) -> None:
        """Look for a job now: one was queued."""
        self._more.set()

    async def run(self) -> None:
        """Take jobs and do them until cancelled; what is under way then is given back."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._most):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            held = await self._next()
            try:
                await self._transcoder.do(held)
            except JobLost:
                log.warning("job lost", extra={"job": held.id, "attempt": held.attempt})
            except CatalogError as error:
                # The lease runs out, and the job is taken again.
                log.error("job not ended", extra={"job": held.id, "cause": str(error)})  # noqa: TRY400  # one line
                await asyncio.sleep(_TROUBLE_SECONDS)
            except Exception:  # one file's fault must not end the others, nor the streams beside
                # Its lease runs out; after the third time the video fails.
                log.exception("job broke off", extra={"job": held.id, "attempt": held.attempt})

    async def _next(self) -> HeldJob:
        """Wait for a job and lease it."""
        while True:
            self._more.clear()
            pause = _POLL_SECONDS
            try:
                held = await self._jobs.lease(self._new_owner(), self._now_us())
                if held is not None:
                    return held
            except CatalogError as error:
                log.warning("no jobs to be had", extra={"cause": str(error)})
                pause = _TROUBLE_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._more.wait()
