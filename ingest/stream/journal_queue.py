"""States and events of one stream on their way to the journal.

A state and the events up to it form one entry, which is written in one piece. Entries that the
journal does not accept are kept and retried in order. A separate task writes them, so that a
journal that does not answer never delays the decision about what viewers get.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from ingest.stream.ports import LiveJournal, LiveState, PortError
from media.stream_events import StreamEvent

log = logging.getLogger(__name__)

_JOURNAL_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.25
# Unwritten entries; beyond that two are merged into one with the later state.
_MAX_ENTRIES: Final = 16
# Events of one entry; beyond that the oldest is dropped. A failing encoder causes some each second.
_MAX_EVENTS: Final = 64


class _Entry(msgspec.Struct, frozen=True):
    state: LiveState
    events: tuple[StreamEvent, ...]


class JournalQueue:
    """The queue of one stream's journal entries."""

    def __init__(self, stream: str, journal: LiveJournal) -> None:
        self._stream = stream
        self._journal = journal
        self._written_state: LiveState | None = None
        self._written = asyncio.Event()
        self._more = asyncio.Event()
        self._closed = False
        self._discarded = False
        self._failing = False
        self._events: deque[StreamEvent] = deque(maxlen=_MAX_EVENTS)
        self._entries: deque[_Entry] = deque()

    @property
    def is_pending(self) -> bool:
        """True while something is not yet written."""
        return bool(self._entries or self._events)

    def add_event(self, event: StreamEvent) -> None:
        """Add an event to the entry of the next state."""
        if not self._discarded:
            self._events.append(event)

    def set_state(self, state: LiveState) -> None:
        """Queue the state with the events so far, unless there are none and it is unchanged."""
        newest = self._entries[-1].state if self._entries else self._written_state
        if self._discarded or (state == newest and not self._events):
            return
        self._entries.append(_Entry(state, tuple(self._events)))
        self._events.clear()
        if len(self._entries) > _MAX_ENTRIES:
            self._merge_oldest()
        self._more.set()

    async def run(self) -> None:
        """Write entries until `close`, then try once to write the rest."""
        while not self._closed:
            self._more.clear()
            if await self._write():
                await self._more.wait()
            else:
                await asyncio.sleep(_RETRY_SECONDS)
        await self._write()
        self._closed = False

    async def flush(self) -> None:
        """Write all entries, however often that takes a retry; for use while `run` does not run."""
        while not await self._write():  # noqa: ASYNC110  # only a try shows whether it accepts
            await asyncio.sleep(_RETRY_SECONDS)

    def close(self) -> None:
        """Let `run` return."""
        self._closed = True
        self._more.set()

    def forget_written(self) -> None:
        """Write the next state even if it is the one that was written last."""
        self._written_state = None

    def discard(self) -> None:
        """Write nothing more: drop all entries, queued and later ones; no caller waits."""
        self._discarded = True
        self._entries.clear()
        self._events.clear()
        self._written.set()

    async def wait_for(self, state: Callable[[], LiveState]) -> None:
        """Wait until the journal has the present state and all events, or until `discard`."""
        while not self._discarded and (self._written_state != state() or self.is_pending):
            self._written.clear()
            await self._written.wait()

    async def _write(self) -> bool:
        """Write all entries; return False if the journal did not accept one."""
        try:
            while self._entries:
                entry = self._entries[0]
                async with asyncio.timeout(_JOURNAL_SECONDS):
                    await self._journal.write(entry.state, entry.events)
                if self._discarded:  # meanwhile
                    return True
                self._written_state = entry.state
                self._entries.popleft()
                self._written.set()
        except (TimeoutError, PortError) as error:
            if not self._failing:  # one line a failure, not one a retry
                about = {"stream": self._stream, "cause": repr(error)}
                log.warning("state not written", extra=about)
            self._failing = True
            return False
        self._failing = False
        return True

    def _merge_oldest(self) -> None:
        """Merge the second and the third entry; the first may be being written."""
        first = self._entries.popleft()
        second, third = self._entries.popleft(), self._entries.popleft()
        events = (*second.events, *third.events)[-_MAX_EVENTS:]
        self._entries.appendleft(_Entry(third.state, events))
        self._entries.appendleft(first)
