"""What the journal has of one stream: its newest state, and what its owner is told.

A state and what happened up to it are one entry, written together. What the journal does not take
is kept and tried again, in order. A task of its own writes, so that a journal that does not answer
holds up nobody who decides what viewers get.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from ingest.stream.ports import Happened, LiveJournal, LiveState, PortError

__all__ = ["Written"]

log = logging.getLogger(__name__)

_JOURNAL_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.25
# Entries that could not be written: past that two become one, with the later state.
_ENTRIES: Final = 16
# What is told with one; past that the oldest goes. An encoder in trouble makes some each second.
_TOLD: Final = 64


class _Entry(msgspec.Struct, frozen=True):
    state: LiveState
    told: tuple[Happened, ...]


class Written:
    """One stream's place in the journal."""

    def __init__(self, stream: str, journal: LiveJournal) -> None:
        self._stream = stream
        self._journal = journal
        self._state: LiveState | None = None  # what the journal has
        self._wrote = asyncio.Event()
        self._more = asyncio.Event()
        self._closed = False
        self._failing = False
        self._told: deque[Happened] = deque(maxlen=_TOLD)
        self._entries: deque[_Entry] = deque()

    @property
    def behind(self) -> bool:
        """Whether there is something that the journal has not taken yet."""
        return bool(self._entries or self._told)

    def tell(self, kind: str, facts: dict[str, object]) -> None:
        """Have the owner told what happened, with the next state that is noted."""
        self._told.append(Happened(kind=kind, facts=facts))

    def note(self, state: LiveState) -> None:
        """Have the state written where it is another, and what is to be told."""
        newest = self._entries[-1].state if self._entries else self._state
        if state == newest and not self._told:
            return
        self._entries.append(_Entry(state, tuple(self._told)))
        self._told.clear()
        if len(self._entries) > _ENTRIES:
            self._fold()
        self._more.set()

    async def write(self) -> None:
        """Write what is noted until `close`, and then what is left, once more."""
        while not self._closed:
            self._more.clear()
            if await self._write():
                await self._more.wait()
            else:
                await asyncio.sleep(_AGAIN_SECONDS)
        await self._write()
        self._closed = False

    async def flush(self) -> None:
        """Write what is noted, once, where `write` does not run."""
        await self._write()

    def close(self) -> None:
        """Let `write` return."""
        self._closed = True
        self._more.set()

    async def has(self, state: Callable[[], LiveState]) -> None:
        """Wait until the journal has the present state, and all that was told."""
        while self._state != state() or self.behind:
            self._wrote.clear()
            await self._wrote.wait()

    async def _write(self) -> bool:
        """Write all there is; False where the journal does not take it."""
        try:
            while self._entries:
                entry = self._entries[0]
                async with asyncio.timeout(_JOURNAL_SECONDS):
                    await self._journal.changed(entry.state, entry.told)
                self._state = entry.state
                self._entries.popleft()
                self._wrote.set()
        except (TimeoutError, PortError) as error:
            if not self._failing:  # once a failure: the next moment tries again
                about = {"stream": self._stream, "cause": repr(error)}
                log.warning("state not written", extra=about)
            self._failing = True
            return False
        self._failing = False
        return True

    def _fold(self) -> None:
        """Make one entry of the two oldest; not of the very first, which may be under way."""
        first = self._entries.popleft()
        second, third = self._entries.popleft(), self._entries.popleft()
        told = (*second.told, *third.told)[-_TOLD:]
        self._entries.appendleft(_Entry(third.state, told))
        self._entries.appendleft(first)
