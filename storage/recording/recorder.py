"""Records live runs: follows what they list, and makes a video of each when it is over.

A `Follower` is the ear that a publication has; it only queues, so a run is never held up by its
recording. One task for each links what was listed (`storage.recording.recording_store`). Another
looks for recordings whose runs are over, by what is on disk and not by what it was told: so a run
that a restart cut off, or that ended while the database was away, becomes a video all the same.

What cannot be kept is a gap in the recording and costs the run nothing. Where free room falls below
the least, the recording stops and what there is of it becomes a video at once.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from media.stream_keys import PublicHash
from storage.catalog.videos.recordings import MadeRecording, RecordingRow
from storage.errors import StorageError
from storage.live.publication import Publication
from storage.live.run_state import RunNotes, Step
from storage.live.run_store import newest, notes_of
from storage.objects.base import Objects
from storage.recording.finalize import finish
from storage.recording.pages import codecs_by
from storage.recording.recording_store import Heard, Record

__all__ = ["Follower", "Ledger", "Recorder"]

log = logging.getLogger(__name__)

# Two minutes of steps wait for a disk or a database that is slow; then the oldest are lost.
_WAITING: Final = 64
# The same for a page that cannot be written: a quarter of an hour.
_UNWRITTEN: Final = 512
_AGAIN_SECONDS: Final = 10.0
_TROUBLE_SECONDS: Final = 1.0
# A run that is over waits so long for a place in the catalog.
_LAST_TRIES: Final = 120
# Who ends a run waits so long for its last step to be linked, not longer.
_SETTLE_SECONDS: Final = 1.0

Chronicle = Callable[[str, str, dict[str, object]], Awaitable[None]]


class Ledger(Protocol):
    """The recordings that there are (`storage.catalog.videos.recordings.Recordings`).

    Every method raises `StorageError` where the database does not answer.
    """

    async def find(self, stream: PublicHash, run: str) -> RecordingRow | None:
        """Return the recording of a run."""
        ...

    async def all(self) -> tuple[RecordingRow, ...]:
        """Return every recording."""
        ...

    async def begin(
        self, stream: PublicHash, run: str, keep_days: int, now_us: int
    ) -> RecordingRow | None:
        """Note that a run is recorded; None where there is no such stream."""
        ...

    async def finish(
        self,
        recording: RecordingRow,
        made: MadeRecording,
        now_us: int,
        name_of: Callable[[str], str],
    ) -> int | None:
        """Make the video of a recording; None where the recording is gone."""
        ...

    async def drop(self, recording: int) -> None:
        """Forget a recording."""
        ...


class Follower:
    """What a run lists, waiting to be recorded (see `storage.live.observer.Listener`).

    `begins` says whether a recording may begin; one that there is goes on in any case.
    """

    def __init__(self, stream: str, run: str, *, begins: bool, keep_days: int) -> None:
        self.stream = stream
        self.run = run
        self.begins = begins
        self.keep_days = keep_days
        self.over = False
        self.deaf = False  # nothing is recorded any more
        self.settled = asyncio.Event()
        self._waiting: deque[Heard] = deque(maxlen=_WAITING)
        self._more = asyncio.Event()

    def listed(self, step: Step, notes: RunNotes, codecs: Mapping[str, str]) -> None:
        """Queue a step; where too many wait, the oldest is lost and leaves a gap."""
        if not self.deaf:
            heard = Heard(step=step, renditions=notes.renditions, codecs=codecs or codecs_by(notes))
            self._waiting.append(heard)
            self._more.set()

    def ended(self) -> None:
        """Take note that nothing follows."""
        self.over = True
        self._more.set()

    async def next(self) -> Heard | None:
        """Wait for the next step; None where the run is over."""
        while not self._waiting and not self.over:
            self._more.clear()
            await self._more.wait()
        return self._waiting.popleft() if self._waiting else None


class Recorder:
    """The recordings of one process, which alone takes encoders in.

    `free_bytes` asks the disk (it blocks), `least_free` is what must stay free. `name_of` makes a
    title's slug. `chronicle` is told what a stream's owner may want to know.
    """

    def __init__(
        self,
        *,
        objects: Objects,
        ledger: Ledger,
        free_bytes: Callable[[], int],
        least_free: int,
        now_us: Callable[[], int],
        name_of: Callable[[str], str],
        chronicle: Chronicle,
    ) -> None:
        self._objects = objects
        self._ledger = ledger
        self._free_bytes = free_bytes
        self._least_free = least_free
        self._now_us = now_us
        self._name_of = name_of
        self._chronicle = chronicle
        self._following: dict[tuple[str, str], Follower] = {}
        self._new: deque[Follower] = deque()
        self._more = asyncio.Event()
        self._due = asyncio.Event()
        self._complained: set[tuple[str, str]] = set()
        self._running = False

    # -- what runs call ---------------------------------------------------------------------------

    def follow(self, publication: Publication, *, begins: bool, keep_days: int) -> None:
        """Record what the publication lists from now on, and what it has on disk already."""
        key = publication.hash, publication.run
        follower = Follower(*key, begins=begins, keep_days=keep_days)
        before = self._following.get(key)
        if before is not None:  # a run that broke off and goes on: the new one has the notes
            before.deaf = True
            before.ended()
        self._following[key] = follower
        publication.attach(follower)
        self._new.append(follower)
        self._more.set()

    def look(self) -> None:
        """Look for recordings whose runs are over: one may be."""
        self._due.set()

    async def leave(self, stream: str) -> None:
        """Expect nothing more of a stream's run; returns when its last step is kept, or soon."""
        theirs = [one for one in self._following.values() if one.stream == stream]
        for one in theirs:
            one.ended()
        if not self._running:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                for one in theirs:
                    await one.settled.wait()

    # -- the tasks --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Record and finish recordings, until cancelled."""
        self._running = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._finish_those_over())
                while True:
                    while self._new:
                        tasks.create_task(self._follow(self._new.popleft()))
                    self._more.clear()
                    await self._more.wait()
        finally:
            self._running = False

    async def _follow(self, follower: Follower) -> None:
        key = follower.stream, follower.run
        try:
            await self._record(follower)
        except Exception:  # a recording's fault must end neither the run nor the others
            log.exception("recording broke off", extra={"stream": key[0], "run": key[1]})
        finally:
            follower.deaf = True
            if self._following.get(key) is follower:
                del self._following[key]
            follower.settled.set()
            self._due.set()

    async def _record(self, follower: Follower) -> None:
        heard = await follower.next()
        record = None if heard is None else await self._opened(follower)
        if record is None or record.closed:
            return
        cause: str | None = None
        while heard is not None and cause is None:
            self._complain(follower, "media not recorded", await record.take(heard))
            if record.due:
                await self._write(follower, record)
            cause = await self._obstacle(record)
            heard = None if cause is not None else await follower.next()
        await self._write(follower, record, closed=cause is not None)
        if cause is not None:
            log.warning("recording stopped", extra={"stream": follower.stream, "cause": cause})
            await self._tell(follower.stream, "recording stopped", {"cause": cause})

    async def _opened(self, follower: Follower) -> Record | None:
        """Return the run's record, begun where it may; None where there is to be none."""
        tries = 0
        while True:
            try:
                row = await self._ledger.find(follower.stream, follower.run)
                if row is None:
                    row = await self._begun(follower)
                if row is None:
                    return None
                return await Record.load(
                    self._objects, stream=row.stream, run=row.run, hash_=row.hash
                )
            except StorageError as error:
                self._complain(follower, "recording waits", error)
                tries += follower.over
                if tries > _LAST_TRIES:
                    raise
                await asyncio.sleep(_TROUBLE_SECONDS)

    async def _begun(self, follower: Follower) -> RecordingRow | None:
        if not follower.begins:
            return None
        cause = await self._too_full()
        if cause is not None:
            log.warning("recording not begun", extra={"stream": follower.stream, "cause": cause})
            await self._tell(follower.stream, "recording not begun", {"cause": cause})
            return None
        row = await self._ledger.begin(
            follower.stream, follower.run, follower.keep_days, self._now_us()
        )
        if row is not None:
            about = {"stream": row.stream, "run": row.run, "video": row.hash}
            log.info("recording begins", extra=about)
        return row

    async def _obstacle(self, record: Record) -> str | None:
        """Return why a recording cannot go on."""
        if record.unwritten > _UNWRITTEN:
            return "what is recorded cannot be written down"
        return await self._too_full()

    async def _too_full(self) -> str | None:
        try:
            free = await asyncio.to_thread(self._free_bytes)
        except OSError as error:
            return f"free space is not known: {error.strerror}"
        if free >= self._least_free:
            return None
        return f"free space is {free} bytes, storage.min_free_bytes is {self._least_free}"

    async def _write(self, follower: Follower, record: Record, *, closed: bool = False) -> None:
        """Write a page; what cannot be written now is written with the next, or after the run."""
        try:
            await record.write(closed=closed)
        except StorageError as error:
            self._complain(follower, "recording not written down", error)

    def _complain(self, follower: Follower, event: str, error: StorageError | None) -> None:
        """Log what goes wrong, once for each run."""
        about = follower.run, event
        if error is None or about in self._complained:
            return
        self._complained.add(about)
        extra = {"stream": follower.stream, "run": follower.run, "cause": str(error)}
        log.warning(event, extra=extra)

    async def _tell(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        try:
            await self._chronicle(stream, kind, facts)
        except StorageError as error:
            log.warning("event not written", extra={"stream": stream, "cause": str(error)})

    # -- what is over -----------------------------------------------------------------------------

    async def _finish_those_over(self) -> None:
        while True:
            self._due.clear()
            try:
                for row in await self._ledger.all():
                    if (row.stream, row.run) not in self._following:
                        await self._finish_if_over(row)
            except StorageError as error:
                log.warning("recordings not looked for", extra={"cause": str(error)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self._due.wait()

    async def _finish_if_over(self, row: RecordingRow) -> None:
        about = {"stream": row.stream, "run": row.run, "video": row.hash}
        try:
            record = await Record.load(
                self._objects, stream=row.stream, run=row.run, hash_=row.hash
            )
            notes = await notes_of(self._objects, row.stream, row.run)
            if not record.closed and not await self._is_over(row, notes):
                return
            kept = await finish(
                self._objects, self._ledger, row, record, notes, self._now_us, self._name_of
            )
            self._complained = {each for each in self._complained if each[0] != row.run}
            log.info("recorded" if kept else "nothing recorded", extra=about)
        except StorageError as error:
            if (row.run, "unfinished") not in self._complained:
                self._complained.add((row.run, "unfinished"))
                log.warning("recording not finished", extra={**about, "cause": str(error)})
        except Exception:  # one recording's fault must not keep the others
            log.exception("recording not finished", extra=about)

    async def _is_over(self, row: RecordingRow, notes: RunNotes | None) -> bool:
        """Say whether nobody goes on with a run: it was ended, cleared away, or another began."""
        if notes is None or notes.ended:
            return True
        found = await newest(self._objects, row.stream)
        return found is None or found.run != row.run
