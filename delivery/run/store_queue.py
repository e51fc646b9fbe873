"""What a publication has shown and `delivery.run.run_writer` is to store, in order.

A segment that waits here is only in memory. Segments of a step are stored at the same time, since a
bucket takes long for each. One task at a time stores; others may add to the queue meanwhile.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from delivery.edge.base import EdgeWriter
from delivery.run.run_state import Step
from delivery.run.run_store import StoredRun
from delivery.run.run_writer import RunWriter
from media.hls.segment import InitSection
from storage.errors import StorageError
from storage.objects.addresses import live_segment
from storage.objects.at_once import do_each

log = logging.getLogger(__name__)

# Segments that are stored at the same time: those of a step.
_AT_ONCE: Final = 8
# Init sections that wait for a slow disk, of 64 KiB at most: as much as segments may take. A source
# has one for each rendition.
_MOST_INITS: Final = 1024

# A segment by the number of its step and the name of its rendition.
SegmentKey = tuple[int, str]


class StepToList(msgspec.Struct, frozen=True):
    """A complete step, and the beginning of the playlists that list it (see `RunState`)."""

    step: Step
    first: int
    discontinuities: int


# None is the state alone.
_Write = InitSection | SegmentKey | StepToList | None


class StoreQueue:
    """The queue of one run; `codecs` returns the codecs of its media by rendition.

    Attributes:
        unstored: The segments that only memory has; their owner may remove some.
    """

    def __init__(
        self,
        writer: RunWriter,
        edge: EdgeWriter,
        run: StoredRun,
        codecs: Callable[[], dict[str, str]],
    ) -> None:
        self.unstored: dict[SegmentKey, bytes] = {}
        self._writer = writer
        self._edge = edge
        self._codecs = codecs
        self._hash, self._run = run.hash, run.run
        self._writes: deque[_Write] = deque()
        self._inits = 0
        self._more = asyncio.Event()
        self._storing = asyncio.Lock()

    @property
    def takes_inits(self) -> bool:
        """False while too many init sections wait."""
        return self._inits < _MOST_INITS

    def add(self, item: InitSection | StepToList | None) -> None:
        """Queue an init section, a step whose segments were queued, or None for the state alone."""
        self._inits += isinstance(item, InitSection)
        self._writes.append(item)
        self._more.set()

    def add_segment(self, sequence: int, name: str, data: bytes) -> None:
        """Queue a segment."""
        self.unstored[sequence, name] = data
        self._writes.append((sequence, name))
        self._more.set()

    async def wait(self) -> None:
        """Wait until something is queued."""
        await self._more.wait()

    async def store(self) -> int:
        """Store all that is queued; return the number of failures."""
        async with self._storing:
            return await self._store_pending()

    @asynccontextmanager
    async def emptied(self) -> AsyncGenerator[None]:
        """Store all that is queued, and nothing more for the length of the block."""
        async with self._storing:
            await self._store_pending()
            yield

    async def _store_pending(self) -> int:
        self._more.clear()
        failures = 0
        while self._writes:
            item = self._writes.popleft()
            self._inits -= isinstance(item, InitSection)
            if isinstance(item, tuple):
                failures += await self._store_segments(item)
                continue
            try:
                await self._store(item)
            except StorageError as error:
                failures += 1
                self._warn("run not stored", error)
        return failures

    async def _store_segments(self, first: SegmentKey) -> int:
        """Store a segment, and those queued right behind it; return how many could not be.

        If it is cancelled, the segments that it has not stored are the first of the queue again.
        """
        keys = [first]
        while len(keys) < _AT_ONCE and self._writes:
            key = self._writes[0]
            if not isinstance(key, tuple):
                break
            keys.append(key)
            self._writes.popleft()
        failures = 0
        unfinished = dict.fromkeys(keys)

        async def store(key: SegmentKey) -> None:
            nonlocal failures
            try:
                await self._store_segment(*key)
            except StorageError as error:
                failures += 1
                self._warn("segment not stored", error)
            del unfinished[key]

        try:
            await do_each(keys, store, at_once=_AT_ONCE)
        finally:
            self._writes.extendleft(reversed(unfinished))
        return failures

    async def _store(self, item: InitSection | StepToList | None) -> None:
        match item:
            case InitSection():
                await self._writer.store_init(item)
            case StepToList(step, first, discontinuities):
                await self._writer.list_step(
                    step, self._codecs(), first=first, discontinuities=discontinuities
                )
            case None:
                await self._writer.save()

    async def _store_segment(self, sequence: int, name: str) -> None:
        data = self.unstored.get((sequence, name))
        if data is None:  # given up
            return
        await self._writer.store_segment(name, sequence, data)
        if self.unstored.pop((sequence, name), None) is not None:
            await self._edge.drop_parts([live_segment(self._hash, self._run, name, sequence)])

    def _warn(self, event: str, error: StorageError) -> None:
        log.warning(event, extra={"stream": self._hash, "run": self._run, "cause": str(error)})
