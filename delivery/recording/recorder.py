"""Records live runs: follows the steps that they list, and turns each ended run into a video.

A `RecordingQueue` observes each run and only queues its steps, so recording never delays a run. One
task per run links the listed media (`delivery.recording.recording_store`).
Another task looks for recordings of ended runs by the state on disk, not by notifications: a run
that a restart cut off, or that ended during a database outage, becomes a video, too.

Media that cannot be kept become gaps of the recording and never affect the run. If free disk space
falls below the minimum, the recording stops and is finalized at once.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from delivery.recording.finalize import finalize
from delivery.recording.recording_store import ListedStep, RecordingStore
from delivery.run.observers import ObservedRun, QueueingObserver
from delivery.run.run_state import RunState, Step
from delivery.run.run_store import StoredRun, newest_run, read_state
from media.stream_events import RecordingNotBegunEvent, RecordingStoppedEvent, StreamEvent
from media.ticks import MICROSECONDS
from storage.catalog.videos.recordings import RecordingRow, Recordings
from storage.errors import StorageError
from storage.objects.addresses import live_run
from storage.objects.base import Objects
from storage.objects.disk_threads import FILES

log = logging.getLogger(__name__)

# Two minutes of steps wait for a slow disk or database; then the oldest are dropped.
_MAX_QUEUED: Final = 64
# The same for steps that cannot be written into pages: a quarter of an hour.
_MAX_UNWRITTEN: Final = 512
_POLL_SECONDS: Final = 10.0
# A run has a state some seconds after its recording has begun, in a slow store after a minute.
_BEGINNING_US: Final = 120 * MICROSECONDS
_RETRY_SECONDS: Final = 1.0
# Attempts to open the recording of a run that has already ended.
_MAX_LATE_TRIES: Final = 120

WriteEvent = Callable[[str, StreamEvent], Awaitable[None]]


class RecordingQueue(QueueingObserver[ListedStep]):
    """The listed steps of a run that wait to be recorded.

    If too many wait, the oldest are dropped, which leaves a gap. A new recording begins if the
    run's policy says so; an existing one continues in any case.
    """

    def __init__(self, run: ObservedRun) -> None:
        super().__init__(run, _MAX_QUEUED)
        recording = None if run.policy is None else run.policy.recording
        self.keep_days = None if recording is None or not recording.enabled else recording.keep_days
        self.is_closed = False  # no more steps are accepted
        self.settled = asyncio.Event()  # no task records it
        self.settled.set()

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Queue a step."""
        if not self.is_closed:
            listed = ListedStep(
                step=step,
                renditions=state.renditions,
                codecs=codecs or state.announced_codecs,
                folders=(live_run(self.stream, self.run),),
            )
            self.put(listed)

    async def release(self) -> None:
        """Wait until the last step is linked."""
        self.on_ended()
        await self.settled.wait()


class Recorder:
    """The recordings of the process that runs ingest.

    `find_lack` returns what the disk lacks, None if it has room (it blocks). `name_of` makes a slug
    of a title. `write_event` adds an event for the stream's owner.
    """

    def __init__(
        self,
        *,
        objects: Objects,
        catalog: Recordings,
        find_lack: Callable[[], str | None],
        now_us: Callable[[], int],
        name_of: Callable[[str], str],
        write_event: WriteEvent,
    ) -> None:
        self._objects = objects
        self._catalog = catalog
        self._find_lack = find_lack
        self._now_us = now_us
        self._name_of = name_of
        self._write_event = write_event
        self._queues: dict[tuple[str, str], RecordingQueue] = {}
        self._new: deque[RecordingQueue] = deque()
        self._more = asyncio.Event()
        self._due = asyncio.Event()
        self._warned: set[tuple[str, str]] = set()

    # -- called by runs ---------------------------------------------------------------------------

    def observe(self, run: ObservedRun) -> RecordingQueue:
        """Record the steps that a run lists, and those that it has stored already."""
        key = run.stream, run.run
        queue = RecordingQueue(run)
        previous = self._queues.get(key)
        if previous is not None:  # the run was interrupted and resumed
            previous.is_closed = True
            previous.on_ended()
        self._queues[key] = queue
        self._new.append(queue)
        self._more.set()
        self.check_ended()  # for the run before it, which is over
        return queue

    def check_ended(self) -> None:
        """Look for recordings of ended runs now, since a run may have ended."""
        self._due.set()

    # -- tasks ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Record runs and finalize recordings, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._finalize_ended_runs())
            while True:
                while self._new:
                    tasks.create_task(self._follow(self._new.popleft()))
                self._more.clear()
                await self._more.wait()

    async def _follow(self, queue: RecordingQueue) -> None:
        key = queue.stream, queue.run
        queue.settled.clear()
        try:
            await self._record(queue)
        except Exception:  # a failed recording must not end the run or other recordings
            log.exception("recording broke off", extra={"stream": key[0], "run": key[1]})
        finally:
            queue.is_closed = True
            if self._queues.get(key) is queue:
                del self._queues[key]
            queue.settled.set()
            self._due.set()

    async def _record(self, queue: RecordingQueue) -> None:
        listed = await queue.next()
        store = None if listed is None else await self._open_store(queue)
        if store is None or store.closed:
            return
        cause: str | None = None
        while listed is not None and cause is None:
            self._warn_once(queue, "media not recorded", await store.append(listed))
            if store.is_page_due:
                await self._write(queue, store)
            cause = await self._obstacle(store)
            listed = None if cause is not None else await queue.next()
        await self._write(queue, store, closed=cause is not None)
        if cause is not None:
            log.warning("recording stopped", extra={"stream": queue.stream, "cause": cause})
            await self._write_owner_event(queue.stream, RecordingStoppedEvent(cause=cause))

    async def _open_store(self, queue: RecordingQueue) -> RecordingStore | None:
        """Open the recording of a run, or begin it if allowed; None if the run is not recorded."""
        tries = 0
        while True:
            try:
                row = await self._catalog.find(queue.stream, queue.run)
                if row is None:
                    row = await self._begin(queue)
                if row is None:
                    return None
                return await RecordingStore.load(self._objects, row.hash)
            except StorageError as error:
                self._warn_once(queue, "recording waits", error)
                tries += queue.has_ended
                if tries > _MAX_LATE_TRIES:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    async def _begin(self, queue: RecordingQueue) -> RecordingRow | None:
        if queue.keep_days is None:
            return None
        cause = await self._too_full()
        if cause is not None:
            log.warning("recording not begun", extra={"stream": queue.stream, "cause": cause})
            await self._write_owner_event(queue.stream, RecordingNotBegunEvent(cause=cause))
            return None
        row = await self._catalog.begin(queue.stream, queue.run, queue.keep_days, self._now_us())
        if row is not None:
            about = {"stream": row.stream, "run": row.run, "video": row.hash}
            log.info("recording begins", extra=about)
        return row

    async def _obstacle(self, store: RecordingStore) -> str | None:
        """Return the reason why a recording cannot continue, if any."""
        if store.unwritten_count > _MAX_UNWRITTEN:
            return "the pages of the recording cannot be written"
        return await self._too_full()

    async def _too_full(self) -> str | None:
        try:
            return await FILES.run(self._find_lack)
        except OSError as error:
            return f"free space is not known: {error.strerror}"

    async def _write(
        self, queue: RecordingQueue, store: RecordingStore, *, closed: bool = False
    ) -> None:
        """Write a page; on failure its steps go into the next one, or are written after the run."""
        try:
            self._warn_once(queue, "media not recorded", await store.write_page(closed=closed))
        except StorageError as error:
            self._warn_once(queue, "recording pages not written", error)

    def _warn_once(self, queue: RecordingQueue, event: str, error: StorageError | None) -> None:
        """Log a warning once per run and event."""
        about = queue.run, event
        if error is None or about in self._warned:
            return
        self._warned.add(about)
        extra = {"stream": queue.stream, "run": queue.run, "cause": str(error)}
        log.warning(event, extra=extra)

    async def _write_owner_event(self, stream: str, event: StreamEvent) -> None:
        try:
            await self._write_event(stream, event)
        except StorageError as error:
            log.warning("event not written", extra={"stream": stream, "cause": str(error)})

    # -- finalizing -------------------------------------------------------------------------------

    async def _finalize_ended_runs(self) -> None:
        failing = False
        while True:
            self._due.clear()
            try:
                for row in await self._catalog.find_all():
                    if (row.stream, row.run) not in self._queues:
                        await self._finalize_if_ended(row)
                failing = False
            except StorageError as error:
                log.warning("recordings not listed", extra={"cause": str(error)})
            except Exception:  # a fault here must not end the recordings of present runs
                if not failing:
                    log.exception("recordings not listed")
                failing = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._due.wait()

    async def _finalize_if_ended(self, row: RecordingRow) -> None:
        about = {"stream": row.stream, "run": row.run, "video": row.hash}
        try:
            store = await RecordingStore.load(self._objects, row.hash)
            state = await read_state(self._objects, row.stream, row.run)
            if not store.closed and not await self._has_ended(
                row, state, begun=bool(store.totals.steps)
            ):
                return
            run = StoredRun(hash=row.stream, run=row.run, state=state) if state else None
            kept = await finalize(
                self._objects, self._catalog, row, store, run, self._now_us, self._name_of
            )
            self._warned = {each for each in self._warned if each[0] != row.run}
            log.info("recorded" if kept else "nothing recorded", extra=about)
        except StorageError as error:
            if (row.run, "unfinished") not in self._warned:
                self._warned.add((row.run, "unfinished"))
                log.warning("recording not finished", extra={**about, "cause": str(error)})
        except Exception:  # a failed recording must not stop the others
            log.exception("recording not finished", extra=about)

    async def _has_ended(self, row: RecordingRow, state: RunState | None, *, begun: bool) -> bool:
        """Return whether a run is over: it ended, was deleted, or a newer one began.

        `begun` is True if any of it was recorded.
        """
        if state is not None and state.ended:
            return True
        newest = await newest_run(self._objects, row.stream)
        if newest is not None and newest.run != row.run:
            return state is not None or newest.run > row.run
        # Without a state, another host may have just begun the run, and not stored a state yet.
        return state is None and (begun or self._now_us() - row.created_us >= _BEGINNING_US)
