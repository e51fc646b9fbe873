"""What a run has yet to store, in the order in which it was shown to viewers."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from media.hls.segment import InitSection
from storage.live.run_state import Step

__all__ = ["AT_ONCE", "MOST_INITS", "CompleteStep", "PendingWrite", "PendingWrites", "SegmentKey"]

# Segments that are stored at the same time: those of a step, where a bucket takes long for each.
AT_ONCE: Final = 8
# Init sections that wait for a slow disk, of 64 KiB at most: as much as segments may take. A source
# has one for each rendition.
MOST_INITS: Final = 1024

# A segment by the number of its step and the name of its rendition.
SegmentKey = tuple[int, str]


class CompleteStep(msgspec.Struct, frozen=True):
    """A complete step, and the beginning of the playlists that list it (see `RunState`)."""

    step: Step
    first: int
    discontinuities: int


# None is the state alone.
PendingWrite = InitSection | SegmentKey | CompleteStep | None


class PendingWrites:
    """A queue of writes."""

    def __init__(self) -> None:
        self._writes: deque[PendingWrite] = deque()
        self._inits = 0
        self._more = asyncio.Event()

    @property
    def has_room_for_init(self) -> bool:
        """True unless too many init sections wait."""
        return self._inits < MOST_INITS

    def add(self, write: PendingWrite) -> None:
        """Add a write."""
        self._writes.append(write)
        self._inits += isinstance(write, InitSection)
        self._more.set()

    async def wait(self) -> None:
        """Wait until there is something."""
        await self._more.wait()

    def take_all(self) -> Iterator[InitSection | list[SegmentKey] | CompleteStep | None]:
        """Take the writes one by one; segments that follow each other come together."""
        self._more.clear()
        while self._writes:
            write = self._writes.popleft()
            if not isinstance(write, tuple):
                self._inits -= isinstance(write, InitSection)
                yield write
                continue
            keys = [write]
            while len(keys) < AT_ONCE and self._writes and isinstance(self._writes[0], tuple):
                key = self._writes.popleft()
                if isinstance(key, tuple):
                    keys.append(key)
            yield keys

    def put_back(self, keys: Iterable[SegmentKey]) -> None:
        """Make segments the first of the queue again, in this order."""
        self._writes.extendleft(reversed([*keys]))
