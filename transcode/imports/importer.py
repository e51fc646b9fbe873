"""Files fetched from addresses, as jobs: each becomes the source of its video.

A file is downloaded to a partial file, which later attempts continue, and probed in a sandbox when
it is whole, as an upload is. Then it is renamed to an address that only this attempt uses, and one
transaction gives it to the video. An attempt that lost its lease changes nothing, and removes what
it put there.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import ClassVar, Final

import msgspec

from media.no_op import do_nothing_async
from media.stream_keys import PublicHash
from outbound.http_client import CheckedClient, FetchRefused
from outbound.policy import BadWebAddress, parse_web_address
from storage.catalog.records.videos import VideoFile
from storage.catalog.videos.imports import Imports, ImportWork
from storage.catalog.videos.jobs import IMPORT
from storage.errors import CatalogError
from storage.file_intake import FileRefused, Probe, probe_source
from storage.leases import Lease
from storage.objects import addresses
from storage.objects.base import ObjectError, StoreFull
from storage.objects.resumable_file import FileStillLocked, ResumableFile, open_resumable_file
from storage.objects.store import MediaStore
from storage.workers.context import WorkContext
from storage.workers.leased_task import AttemptFailed, InputRefused, LeasedTask, TaskEvents
from storage.workers.worker_pool import WorkSource
from transcode.imports.download import DownloadLimits, FileVersion, download

log = logging.getLogger(__name__)

_PROGRESS_SECONDS: Final = 1.0  # each is a transaction
# One project may have as many at once as then remain free for others: four of eight.
_PLACES: Final = 8
# While only imports of projects that have their share are due, the queue is queried this seldom:
# each query takes the write lock.
_BUSY_PAUSE_SECONDS: Final = 2.0
_FULL: Final = "There is no room for the file."
_NOT_KEPT: Final = "The file could not be stored."

# Why a project may have no more files of so many bytes; None if it may.
RefuseFile = Callable[[int, int], Awaitable[str | None]]


class ImportContext(WorkContext, frozen=True, kw_only=True):
    """What imports work with.

    At most `places` run at once; `least_free` bytes of the disk stay free. `refuse_file` checks the
    quotas of a project: before a download, when its size is known, and when the file has arrived.
    """

    imports: Imports
    objects: MediaStore
    probe: Probe
    client: CheckedClient
    limits: DownloadLimits
    least_free: int
    places: int = _PLACES
    refuse_file: RefuseFile = do_nothing_async


class _Idle(msgspec.Struct, frozen=True):
    """The time before which nothing can be leased while these projects are busy."""

    busy: frozenset[int]
    until: float


class Importer(WorkSource[ImportContext]):
    """Leases and does the jobs that fetch files.

    Of one project no more run at once than places are then free for others: one project's imports
    leave places for those of another.
    """

    kind: ClassVar = IMPORT

    def __init__(self, context: ImportContext) -> None:
        super().__init__(context)
        self._running: Counter[int] = Counter()  # by project
        self._leasing = asyncio.Lock()
        self._idle = _Idle(frozenset(), 0.0)

    async def lease(self, owner: str) -> Lease | None:
        """Lease the next import; see `WorkSource.lease`.

        None if nothing is due, or only imports of projects that have their share of the places.
        """
        async with self._leasing:
            free = self.context.places - self._running.total()
            busy = frozenset(each for each, count in self._running.items() if count >= free)
            now = self.context.clock()
            if busy and busy == self._idle.busy and now < self._idle.until:
                return None
            job = await self.lease_kind(self.kind, owner, busy=busy)
            if job is None:
                self._idle = _Idle(busy, now + _BUSY_PAUSE_SECONDS)
                return None
            self._running[job.project] += 1
            return job

    async def do(self, held: Lease) -> None:
        """Do a job that was leased here to its end, and free its place; see `WorkSource.do`."""
        try:
            work = await self.context.write(self.context.imports.begin, held)
            await ImportJob(self.context, work, held).run()
        finally:
            self._running -= Counter([held.project])


class ImportJob(LeasedTask[ImportContext, VideoFile]):
    """One attempt at fetching a video's file."""

    events: ClassVar = TaskEvents(
        what="import",
        begun="importing",
        failed="import failed",
        given_up="import failed",
    )
    spent_reason: ClassVar = "The import broke off {} times and was given up."

    def __init__(self, context: ImportContext, work: ImportWork, job: Lease) -> None:
        super().__init__(context, job, video=work.hash)
        self._work = work
        self._source = addresses.imported_source(work.hash, job.attempt)
        self._stored_source: str | None = None
        self._progress_recorded: float | None = None
        self._is_size_recorded = False

    async def make(self) -> VideoFile:
        """Download the file and put it at its address; see `LeasedTask.make`."""
        try:
            return await self._download()
        except (FetchRefused, FileRefused) as error:
            raise InputRefused(error.reason) from error
        except StoreFull as error:
            raise AttemptFailed(_FULL) from error
        except (ObjectError, OSError, FileStillLocked) as error:
            log.error("import not stored", extra={**self.facts, "cause": str(error)})  # noqa: TRY400  # one line
            raise AttemptFailed(_NOT_KEPT) from error

    async def _download(self) -> VideoFile:
        context = self._context
        try:
            address = parse_web_address(self._work.url, context.limits.ports)
        except BadWebAddress as error:
            raise FetchRefused(error.reason) from error
        limits = context.limits
        work = self._work
        await self._require_quota(0 if work.received else 1)
        async with open_partial_file(
            context.objects,
            work.hash,
            attempt=self.held.attempt,
            received=work.received if work.validator is not None else 0,
            max_bytes=limits.max_bytes,
            min_free_bytes=context.least_free,
        ) as inflow:
            version = FileVersion(validator=work.validator if inflow.position else None)
            if inflow.position:
                log.info("import resumed", extra={**self.facts, "bytes": inflow.position})
            await download(
                address,
                inflow,
                client=context.client,
                limits=limits,
                on_progress=partial(self._record_progress, inflow, version),
                version=version,
            )
            await inflow.flush()
            await self._require_quota(0 if self._is_size_recorded else inflow.position)
            video_file = await probe_source(
                context.probe, inflow.path, self._source, inflow.position
            )
            # If the lease is lost, the file should not be put where it has to be removed again.
            await self.extend_lease()
            await inflow.keep(self._source)
            return video_file

    async def _require_quota(self, size: int) -> None:
        """Check that the project may have so many bytes more than are recorded for it.

        Raises:
            FetchRefused: it may not.
            CatalogError: the database did not answer.
        """
        reason = await self._context.refuse_file(self.held.project, size)
        if reason is not None:
            raise FetchRefused(reason)

    async def finish(self, outcome: VideoFile) -> None:
        """Give the file to the video; see `LeasedTask.finish`."""
        await self._context.imports.complete(self.held, outcome, self._context.now_us())
        log.info("imported", extra={**self.facts, "bytes": outcome.size})
        self._stored_source = self._source

    async def fail(self, reason: str) -> None:
        """See `LeasedTask.fail`."""
        await self._context.imports.fail(self.held, reason, self._context.now_us())

    async def clean_up(self) -> None:
        """Remove the files of this and older attempts, except the one that the video has."""
        # And no others: the owner may have given the video another file by now.
        attempts = range(self.held.attempt + 1)
        hash_ = self._work.hash
        sources = {addresses.imported_source(hash_, each) for each in attempts}
        sources |= {addresses.partial_import(hash_, each) for each in (None, *attempts)}
        await self._remove(sources - {self._stored_source})

    async def discard(self) -> None:
        """Remove this attempt's file, but not what later attempts continue."""
        own = addresses.partial_import(self._work.hash, self.held.attempt)
        await self._remove({self._source, own})

    async def _remove(self, sources: Collection[str]) -> None:
        with contextlib.suppress(ObjectError):  # then `storage.cleanup.orphans` removes them
            for address in await self._context.objects.addresses(
                addresses.video_sources(self._work.hash)
            ):
                if address in sources:
                    await self._context.objects.delete(address)

    async def _record_progress(
        self, inflow: ResumableFile, version: FileVersion, _received: int, size: int | None
    ) -> None:
        """Record how much is on the disk, and of which version, every `_PROGRESS_SECONDS`.

        Raises:
            LeaseLost: the lease is lost.
            StoreFailed: the disk failed.
            FetchRefused: the size is known now, and exceeds a quota.
        """
        now = self._context.clock()
        recorded = self._progress_recorded
        if recorded is not None and now - recorded < _PROGRESS_SECONDS:
            return
        self._progress_recorded = now
        try:
            safe_bytes = await inflow.sync()
            await self._context.imports.progress(
                self.held, safe_bytes, size, self._context.now_us(), validator=version.validator
            )
        except CatalogError as error:
            log.warning("progress not written", extra={**self.facts, "cause": str(error)})
            return
        if size is not None and not self._is_size_recorded:
            self._is_size_recorded = True
            await self._require_quota(0)


@asynccontextmanager
async def open_partial_file(
    objects: MediaStore,
    hash_: PublicHash,
    *,
    attempt: int,
    received: int,
    max_bytes: int,
    min_free_bytes: int,
    wait_seconds: float = 1.0,
) -> AsyncGenerator[ResumableFile]:
    """Open the file of a video's import for the length of the block, with up to `received` bytes.

    It survives the block and the process, and is locked while an attempt writes to it. How many of
    its bytes count, and of which version of the file they are, is in the row of the import. If a
    worker that lost its lease still holds it after `wait_seconds`, the attempt begins a separate
    file. `min_free_bytes` of the disk stay free.

    Raises:
        FileStillLocked: the attempt's own file is held, too.
        StoreFull, StoreFailed: the file cannot be created.
    """
    open_file = partial(
        open_resumable_file,
        objects,
        final_address=addresses.imported_source(hash_, attempt),
        max_bytes=max_bytes,
        min_free_bytes=min_free_bytes,
        wait_seconds=wait_seconds,
    )
    async with AsyncExitStack() as stack:
        try:
            file = await stack.enter_async_context(open_file(addresses.partial_import(hash_)))
        except FileStillLocked:
            own_address = addresses.partial_import(hash_, attempt)
            file = await stack.enter_async_context(open_file(own_address))
            received = 0
        await file.truncate(received)
        yield file
