"""Posters of live streams, from the engine to where viewers find them: the parent's side.

A poster replaces the one before it at the same address, in one step; then the catalog is told.
Nothing waits for it: what comes while one is being kept takes the place of what waits, and a full
disk or a silent database costs nothing but a poster that is older than it should be.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from media.stream_keys import PublicHash
from media.ticks import VIDEO_SCALE
from storage.errors import StorageError
from storage.objects.addresses import live_poster, live_posters
from storage.objects.base import Objects
from transcode.protocol.messages import Posters

__all__ = ["LivePosters", "Note"]

log = logging.getLogger(__name__)

# A database that does not answer must not keep the posters of other streams.
_NOTE_SECONDS: Final = 5.0

# Stream, labels, size of the largest: False says that there is no such stream (any more).
Note = Callable[[PublicHash, Sequence[str], tuple[int, int]], Awaitable[bool]]


class LivePosters:
    """Keeps the newest poster of each stream; `note` writes down that there is one.

    `note` may raise `StorageError`. `every` is the time between two posters, in ticks of 90 000 a
    second.
    """

    def __init__(self, objects: Objects, note: Note, *, every: int = 30 * VIDEO_SCALE) -> None:
        self.every = every
        self._objects = objects
        self._note = note
        self._waiting: dict[PublicHash, Posters] = {}
        self._more = asyncio.Event()
        self._poor: set[PublicHash] = set()  # whose poster is one that anything better replaces
        self._failing: set[PublicHash] = set()  # so that the log says it once

    def offer(self, stream: PublicHash, posters: Posters) -> None:
        """Take a stream's newest poster, in place of one that waits."""
        if posters.posters:
            self._waiting[stream] = posters
            self._more.set()

    async def keep(self) -> None:
        """Keep what is offered, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                stream = next(iter(self._waiting))
                await self.keep_one(stream, self._waiting.pop(stream))

    async def keep_one(self, stream: PublicHash, posters: Posters) -> None:
        """Keep a stream's poster; where that fails the log says so, once until it works again."""
        try:
            await self._keep(stream, posters)
        except (StorageError, TimeoutError) as error:
            if stream not in self._failing:
                self._failing.add(stream)
                log.warning("poster not kept", extra={"stream": stream, "cause": str(error)})
        else:
            self._failing.discard(stream)

    async def _keep(self, stream: PublicHash, posters: Posters) -> None:
        folder = live_posters(stream)
        there = await self._objects.addresses(folder)
        if posters.poor:
            if there and stream not in self._poor:
                return  # that of an earlier run shows more
            self._poor.add(stream)
        else:
            self._poor.discard(stream)
        for poster in posters.posters:
            await self._objects.put(live_poster(stream, poster.label), poster.data)
        largest = posters.posters[0]
        # From the smallest up, as those of videos.
        labels = [poster.label for poster in reversed(posters.posters)]
        async with asyncio.timeout(_NOTE_SECONDS):
            known = await self._note(stream, labels, (largest.width, largest.height))
        if not known:
            # Deleted since the engine made it.
            self._poor.discard(stream)
            await self._objects.delete_tree(folder)
            return
        kept = {live_poster(stream, label) for label in labels}
        for address in there:
            if address not in kept:  # of another ladder
                await self._objects.delete(address)
