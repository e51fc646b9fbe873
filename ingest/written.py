"""What the journal has of one stream: its newest state, and what its owner is told.

What the journal does not take is kept and tried again; only the owner's task writes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from ingest.ports import LiveJournal, LiveState, PortError

__all__ = ["Written"]

log = logging.getLogger(__name__)

_JOURNAL_SECONDS: Final = 5.0
# What happened and could not be told; then the oldest goes.
_UNTOLD: Final = 16


class Written:
    """One stream's place in the journal."""

    def __init__(self, stream: str, journal: LiveJournal) -> None:
        self._stream = stream
        self._journal = journal
        self._state: LiveState | None = None
        self._wrote = asyncio.Event()
        self._failing = False
        self._untold: deque[tuple[str, dict[str, object]]] = deque(maxlen=_UNTOLD)

    def tell(self, kind: str, facts: dict[str, object]) -> None:
        """Have the next `write` tell the owner what happened."""
        self._untold.append((kind, facts))

    async def write(self, state: LiveState) -> None:
        """Write the state where it is another, and what is to be told."""
        if state == self._state and not self._untold:
            return
        try:
            async with asyncio.timeout(_JOURNAL_SECONDS):
                if state != self._state:
                    await self._journal.changed(state)
                    self._state = state
                    self._wrote.set()
                while self._untold:
                    told = self._untold[0]
                    await self._journal.happened(self._stream, *told)
                    # It may have fallen out of its place meanwhile.
                    if self._untold and self._untold[0] is told:
                        self._untold.popleft()
        except (TimeoutError, PortError) as error:
            # Once a failure: the next moment tries again.
            if not self._failing:
                about = {"stream": self._stream, "cause": repr(error)}
                log.warning("state not written", extra=about)
            self._failing = True
        else:
            self._failing = False

    async def has(self, state: Callable[[], LiveState]) -> None:
        """Wait until the journal has the present state."""
        while self._state != state():
            self._wrote.clear()
            await self._wrote.wait()
