"""Events of live runs on their way to the catalog, written beside the media.

A run must not wait for the database: its segments would come late. So events are queued, and one
task writes them in order. While the catalog is unavailable they wait; when too many wait, the
oldest are dropped.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from media.stream_events import StreamEvent
from storage.errors import CatalogBusy, CatalogUnavailable, StorageError

log = logging.getLogger(__name__)

# Of all streams together. An event is about 1 KB; a stream in trouble has one every few seconds.
MAX_EVENTS: Final = 512
_WRITE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.25
# What is still queued when the role ends.
_LAST_SECONDS: Final = 2.0

# Writes an event of the stream with that hash. May raise `StorageError`.
WriteEvent = Callable[[str, StreamEvent], Awaitable[None]]


class EventQueue:
    """The events that wait to be written."""

    def __init__(self, write: WriteEvent) -> None:
        self._write = write
        self._waiting: deque[tuple[str, StreamEvent]] = deque()
        self._more = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._failing = False
        self._dropping = False

    def add(self, stream: str, event: StreamEvent) -> None:
        """Queue an event; drop the oldest if too many wait."""
        if len(self._waiting) == MAX_EVENTS:
            self._waiting.popleft()
            if not self._dropping:
                log.warning("events dropped", extra={"stream": stream, "most": MAX_EVENTS})
            self._dropping = True
        self._waiting.append((stream, event))
        self._empty.clear()
        self._more.set()

    async def run(self) -> None:
        """Write events, until cancelled."""
        while True:
            while self._waiting:
                await self._write_oldest()
            self._dropping = False
            self._empty.set()
            self._more.clear()
            await self._more.wait()

    @asynccontextmanager
    async def written_at_exit(self) -> AsyncGenerator[None, None]:
        """Let `run` write what the block has queued before the block ends, within two seconds."""
        try:
            yield
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._empty.wait()

    async def _write_oldest(self) -> None:
        oldest = self._waiting[0]
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._write(*oldest)
        except (CatalogBusy, CatalogUnavailable, TimeoutError) as error:
            if not self._failing:  # once per outage
                log.warning("events are delayed", extra={"stream": oldest[0], "cause": repr(error)})
            self._failing = True
            await asyncio.sleep(_RETRY_SECONDS)
            return
        except StorageError as error:  # another attempt would not help
            log.warning("event not written", extra={"stream": oldest[0], "cause": repr(error)})
        self._failing = False
        # The oldest may have been dropped meanwhile.
        if self._waiting and self._waiting[0] is oldest:
            self._waiting.popleft()
