"""One job: an uploaded file becomes an adaptive playlist with posters, or fails with a reason.

What is made lies in folders of the attempt's own, and is shown to nobody before the one transaction
that ends the job. Who loses the job, or fails, removes what it made.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from storage.catalog.jobs import Jobs
from storage.catalog.transcoding import MadeVideo, Transcoding, VideoWork
from storage.errors import CatalogError
from storage.jobs import BEAT_SECONDS, LEASE_US, HeldJob, JobLost
from storage.objects.addresses import video
from storage.objects.base import ObjectError, Objects
from transcode.making import NotDone, VideoMaker, folders_of
from transcode.probe import NotMedia

__all__ = ["VideoTranscoder"]

log = logging.getLogger(__name__)

_MICROSECONDS: Final = 1_000_000
_FOLDER: Final = re.compile(r"(?:poster-)?[0-9]+-([0-9]+)")
_SPENT: Final = "Transcoding broke off {} times and was given up; the file may be damaged."


class VideoTranscoder:
    """Does jobs. `path_of` is where an object stands as a file; `clock` never goes back."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        transcoding: Transcoding,
        objects: Objects,
        path_of: Callable[[str], Path],
        now_us: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._transcoding = transcoding
        self._objects = objects
        self._now_us = now_us
        self._clock = clock
        self._maker = VideoMaker(
            transcoding=transcoding, objects=objects, path_of=path_of, now_us=now_us, clock=clock
        )

    async def do(self, held: HeldJob) -> None:
        """Do a job to its end, good or bad; cancelled, it gives the job back.

        Raises:
            JobLost: another worker has it.
            CatalogError: its end could not be written down; the lease will run out.
        """
        work = await self._transcoding.begin(held, self._now_us())
        facts = {"video": work.hash, "job": held.id, "attempt": held.attempt}
        if held.spent:
            reason = _SPENT.format(held.failures)
            await self._transcoding.fail(held, reason, self._now_us())
            log.error("video given up", extra={**facts, "failures": held.failures})
            await self._sweep(work, held, keep=())
            return
        log.info("transcoding", extra=facts)
        try:
            # What workers left that were killed; one that only sleeps clears up after itself.
            await self._sweep(work, held, keep=(), before=held.attempt)
            made = await self._held(work, held)
            replaced = await self._transcoding.complete(held, made, self._now_us())
            log.info("video completed", extra={**facts, "bytes": made.size})
            kept = {made.media, made.posters} - set(replaced.folders)
            await self._sweep(work, held, keep=tuple(kept))
        except NotMedia as error:
            await self._remove(work, held)
            await self._transcoding.fail(held, error.reason, self._now_us())
            log.info("video failed", extra={**facts, "reason": error.reason})
            await self._sweep(work, held, keep=())
        except NotDone as error:
            await self._remove(work, held)
            await self._again(work, held, error.reason)
        except asyncio.CancelledError:
            await self._give_back(work, held)
            raise
        except JobLost:
            # Not so where the catalog's answer is missing: what was made may be shown by now.
            await self._remove(work, held)
            raise

    # -- the end that it comes to -----------------------------------------------------------------

    async def _again(self, work: VideoWork, held: HeldJob, reason: str) -> None:
        last = msgspec.structs.replace(held, failures=held.failures + 1).spent
        facts = {"video": work.hash, "job": held.id, "reason": reason}
        if last:
            await self._transcoding.fail(held, reason, self._now_us())
            log.error("video given up", extra=facts)
            await self._sweep(work, held, keep=())
        else:
            await self._transcoding.put_back(held, self._now_us(), failed=True)
            log.warning("video put back", extra=facts)

    async def _give_back(self, work: VideoWork, held: HeldJob) -> None:
        """Let another worker begin at once; what cannot be done here its lease does."""
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await self._transcoding.put_back(held, self._now_us(), failed=False)
                await self._remove(work, held)
            log.info("video given back", extra={"video": work.hash, "job": held.id})
        except (JobLost, CatalogError, TimeoutError) as error:
            log.warning("video not given back", extra={"video": work.hash, "cause": str(error)})

    async def _remove(self, work: VideoWork, held: HeldJob) -> None:
        await self._delete(work, folders_of(work, held))

    async def _sweep(
        self,
        work: VideoWork,
        held: HeldJob,
        *,
        keep: tuple[str | None, ...],
        before: int | None = None,
    ) -> None:
        """Remove what this attempt (or those `before` one) and older ones left, but what is shown.

        `keep` is what is shown; empty, it is what was at the beginning.
        """
        shown = {*keep} if keep else {work.media, work.posters}
        last = held.attempt if before is None else before - 1
        try:
            found = await self._objects.addresses(video(work.hash))
        except ObjectError as error:
            log.warning("leftovers not found", extra={"video": work.hash, "cause": str(error)})
            return
        folders = {address.split("/")[2] for address in found if address.count("/") > 1}
        older = [
            name
            for name in sorted(folders - shown)
            if (number := _FOLDER.fullmatch(name)) and int(number[1]) <= last
        ]
        await self._delete(work, older)

    async def _delete(self, work: VideoWork, folders: list[str] | tuple[str, ...]) -> None:
        for folder in folders:
            try:
                await self._objects.delete_tree(f"{video(work.hash)}/{folder}")
            except ObjectError as error:  # it takes room and is named by nothing
                log.warning("leftovers stay", extra={"video": work.hash, "cause": str(error)})

    # -- holding it -------------------------------------------------------------------------------

    async def _held(self, work: VideoWork, held: HeldJob) -> MadeVideo:
        """Make the video while the lease is extended; broken off where that is lost.

        Raises:
            NotMedia: nothing can be made of the file.
            NotDone: nothing was made of it this time.
            JobLost: another worker has the job.
        """
        outcome: MadeVideo | NotMedia | NotDone | JobLost
        try:
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as tasks:
                beating = tasks.create_task(self._beat(held, deadline))
                try:
                    outcome = await self._maker.make(work, held)
                except (NotMedia, NotDone, JobLost) as error:
                    outcome = error
                finally:
                    beating.cancel()
        except TimeoutError as error:
            raise JobLost(held) from error
        if isinstance(outcome, MadeVideo):
            return outcome
        raise outcome

    async def _beat(self, held: HeldJob, deadline: asyncio.Timeout) -> None:
        """Extend the lease again and again; move the deadline to now when it is lost."""
        good = self._clock()
        while self._clock() - good < LEASE_US / _MICROSECONDS:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._jobs.beat(held, self._now_us())
                good = self._clock()
            except JobLost:
                break
            except (CatalogError, TimeoutError) as error:
                log.warning("lease not extended", extra={"job": held.id, "cause": str(error)})
        deadline.reschedule(asyncio.get_running_loop().time())
