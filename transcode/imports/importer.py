"""Files fetched from addresses, as jobs: each becomes the source of its video.

What is fetched goes to a temporary of this process and is looked into in a box when it is whole,
as an upload is; then it is renamed to a place of the attempt's own, and one transaction gives it to
the video. Who lost the job can change nothing, and removes what it put there.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from media.stream_keys import PublicHash
from storage.catalog.videos.imports import Imports, ImportWork
from storage.catalog.videos.jobs import IMPORT, Jobs
from storage.errors import CatalogError, StorageError
from storage.fetch_policy import BadWebAddress, parse_web_address
from storage.file_intake import FileRefused, Probe, probe_source
from storage.job_leases import HEARTBEAT_SECONDS, LEASE_US, HeldJob, JobLost
from storage.objects import addresses
from storage.objects.base import ObjectError, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import IncomingFile, open_incoming_file
from transcode.imports.download import Bounds, fetch
from transcode.imports.http_client import FetchRefused, Remote
from transcode.vod.lease import holding

__all__ = ["FileImporters", "Importer"]

log = logging.getLogger(__name__)

# What a process queued is found so soon.
_POLL_SECONDS: Final = 0.5
_TROUBLE_SECONDS: Final = 5.0
_TELL_SECONDS: Final = 1.0
_SPENT: Final = "The import broke off {} times and was given up."
_FULL: Final = "There is no room for the file."
_NOT_KEPT: Final = "The file could not be stored."


class _NotDone(Exception):
    """A file could not be had for a reason of ours: another try later may do; `reason` as ever."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Importer:
    """Does jobs that fetch. `least_free` bytes of the disk stay free; `clock` never goes back."""

    def __init__(  # noqa: PLR0913  # what it stands on, each by its name
        self,
        *,
        jobs: Jobs,
        imports: Imports,
        objects: DiskObjects,
        probe: Probe,
        remote: Remote,
        bounds: Bounds,
        least_free: int,
        now_us: Callable[[], int],
        lease_us: int = LEASE_US,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._imports = imports
        self._objects = objects
        self._probe = probe
        self._remote = remote
        self._bounds = bounds
        self._least_free = least_free
        self._now_us = now_us
        self._lease_us = lease_us
        self._clock = clock
        self._turn = 0

    async def lease(self, owner: str) -> HeldJob | None:
        """Take what is to be fetched next, of the projects in turn; `owner` is a new random name.

        Raises:
            CatalogError: the database did not answer.
        """
        held = await self._jobs.lease(
            owner, self._now_us(), IMPORT, lease_us=self._lease_us, after=self._turn
        )
        if held is not None:
            self._turn = held.project
        return held

    async def do(self, held: HeldJob) -> None:
        """Fetch a file, or say why that cannot be; cancelled, the job is given back.

        Raises:
            JobLost: another worker has it, or the video is gone.
            CatalogError: its end could not be written down; the lease will run out.
        """
        work = await self._imports.begin(held, self._now_us())
        facts = {"video": work.hash, "job": held.id, "attempt": held.attempt}
        if held.spent:
            await self._fail(work, held, _SPENT.format(held.failures))
            return
        log.info("importing", extra=facts)
        try:
            size = await holding(
                self._bring(work, held),
                held=held,
                beat=lambda: self._jobs.beat(held, self._now_us()),
                clock=self._clock,
                ends=(FetchRefused, FileRefused, _NotDone, JobLost, CatalogError),
            )
        except (FetchRefused, FileRefused) as error:
            await self._fail(work, held, error.reason)
        except _NotDone as error:
            if msgspec.structs.replace(held, failures=held.failures + 1).spent:
                await self._fail(work, held, error.reason)
            else:
                await self._imports.put_back(held, self._now_us(), failed=True)
                log.warning("import put back", extra={**facts, "reason": error.reason})
        except asyncio.CancelledError:
            await self._give_back(work, held)
            raise
        else:
            log.info("imported", extra={**facts, "bytes": size})

    async def _bring(self, work: ImportWork, held: HeldJob) -> int:
        """Fetch the file and give it to the video; returns its size in bytes."""
        try:
            address = parse_web_address(work.url, self._bounds.ports)
        except BadWebAddress as error:
            raise FetchRefused(error.reason) from error
        taking = open_incoming_file(
            self._objects, max_bytes=self._bounds.most_bytes, min_free_bytes=self._least_free
        )
        try:
            async with taking as inflow:
                told = _Telling(self._imports, held, self._now_us, self._clock)
                await fetch(
                    address, inflow, remote=self._remote, bounds=self._bounds, told=told.tell
                )
                await inflow.flush()
                await self._keep(work, held, inflow)
                return inflow.size
        except StoreFull as error:
            raise _NotDone(_FULL) from error
        except ObjectError as error:
            log.error("import failed", extra={"video": work.hash, "reason": str(error)})  # noqa: TRY400  # the world's
            raise _NotDone(_NOT_KEPT) from error

    async def _keep(self, work: ImportWork, held: HeldJob, inflow: IncomingFile) -> None:
        place = addresses.imported_source(work.hash, held.attempt)
        landed = await probe_source(self._probe, inflow.path, place, inflow.size)
        # Nobody puts a file where it is not to stay, as far as that can be known.
        await self._jobs.beat(held, self._now_us())
        await inflow.keep(place)
        try:
            await self._imports.arrive(held, landed, self._now_us())
        except JobLost:
            await self._discard(work.hash, {place})
            raise
        # No other: the owner may have given the video another file by now.
        older = {addresses.imported_source(work.hash, each) for each in range(held.attempt)}
        await self._discard(work.hash, older)

    async def _discard(self, hash_: PublicHash, gone: Collection[str]) -> None:
        """Remove files of the video's, of attempts that came to nothing."""
        with contextlib.suppress(ObjectError):  # they go with the leftovers
            for address in await self._objects.addresses(addresses.video_sources(hash_)):
                if address in gone:
                    await self._objects.delete(address)

    async def _fail(self, work: ImportWork, held: HeldJob, reason: str) -> None:
        await self._imports.fail(held, reason, self._now_us())
        log.info("import failed", extra={"video": work.hash, "job": held.id, "reason": reason})

    async def _give_back(self, work: ImportWork, held: HeldJob) -> None:
        """Let another worker begin at once; what cannot be done here its lease does."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._imports.put_back(held, self._now_us(), failed=False)
            log.info("import given back", extra={"video": work.hash, "job": held.id})
        except (JobLost, CatalogError, TimeoutError) as error:
            log.warning("import not given back", extra={"video": work.hash, "cause": str(error)})


class _Telling:
    """Tells how much came, once a second at most; it notices there that the job is lost."""

    def __init__(
        self,
        imports: Imports,
        held: HeldJob,
        now_us: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._imports = imports
        self._held = held
        self._now_us = now_us
        self._clock = clock
        self._told: float | None = None

    async def tell(self, received: int, size: int | None) -> None:
        """Tell it where it is time.

        Raises:
            JobLost: the job is not held any more.
        """
        now = self._clock()
        if self._told is not None and now - self._told < _TELL_SECONDS:
            return
        self._told = now
        try:
            await self._imports.progress(self._held, received, size, self._now_us())
        except CatalogError as error:
            log.warning("progress not told", extra={"cause": str(error)})


class FileImporters:
    """Does the import jobs of a catalog, at most `most` at once; `new_owner` makes random names."""

    def __init__(self, importer: Importer, *, most: int, new_owner: Callable[[], str]) -> None:
        self._importer = importer
        self._most = most
        self._new_owner = new_owner

    async def run(self) -> None:
        """Take jobs and do them until cancelled; what is under way then is given back."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._most):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            held = await self._next()
            facts = {"job": held.id, "attempt": held.attempt}
            try:
                await self._importer.do(held)
            except JobLost:
                log.info("import job lost", extra=facts)
            except StorageError as error:
                # The lease runs out, and the job is taken again.
                log.error("import job not ended", extra={**facts, "cause": str(error)})  # noqa: TRY400  # one line
                await asyncio.sleep(_TROUBLE_SECONDS)
            except Exception:  # one file's fault must not end the others, nor what runs beside
                # Its lease runs out; after the third time the video fails.
                log.exception("import job broke off", extra=facts)

    async def _next(self) -> HeldJob:
        """Wait for a job and lease it."""
        while True:
            pause = _POLL_SECONDS
            try:
                held = await self._importer.lease(self._new_owner())
                if held is not None:
                    return held
            except CatalogError as error:
                log.warning("no import jobs to be had", extra={"cause": str(error)})
                pause = _TROUBLE_SECONDS
            await asyncio.sleep(pause)
