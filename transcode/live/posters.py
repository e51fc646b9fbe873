"""Stores the posters of live streams that engines make.

A poster atomically replaces the one before it at the same address; then the catalog records it.
Nothing waits for posters: a newer one replaces the one that is queued, and a full disk or a
database that does not answer only leaves an older poster in place.
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

log = logging.getLogger(__name__)

# A database that does not answer must not hold up the posters of other streams.
_RECORD_SECONDS: Final = 5.0

# Stream, labels, size of the largest; returns False if the stream does not exist any more.
RecordPoster = Callable[[PublicHash, Sequence[str], tuple[int, int]], Awaitable[bool]]


class LivePosters:
    """Stores the newest poster of each stream; `record` records it in the catalog.

    `record` may raise `StorageError`. `every` is the time between two posters, in ticks of 90 000 a
    second.
    """

    def __init__(
        self, objects: Objects, record: RecordPoster, *, every: int = 30 * VIDEO_SCALE
    ) -> None:
        self.every = every
        self._objects = objects
        self._record = record
        self._waiting: dict[PublicHash, Posters] = {}
        self._more = asyncio.Event()
        self._replaceable: set[PublicHash] = set()  # streams whose poster any better one replaces
        self._failing: set[PublicHash] = set()  # streams whose failure is logged already

    def offer(self, stream: PublicHash, posters: Posters) -> None:
        """Queue a stream's newest poster in place of one that is queued."""
        if posters.posters:
            self._waiting[stream] = posters
            self._more.set()

    async def run(self) -> None:
        """Store what is offered, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                stream = next(iter(self._waiting))
                await self.store(stream, self._waiting.pop(stream))

    async def store(self, stream: PublicHash, posters: Posters) -> None:
        """Store a stream's poster; log the first failure in a row."""
        try:
            await self._store(stream, posters)
        except (StorageError, TimeoutError) as error:
            if stream not in self._failing:
                self._failing.add(stream)
                log.warning("poster not stored", extra={"stream": stream, "cause": str(error)})
        else:
            self._failing.discard(stream)

    async def _store(self, stream: PublicHash, posters: Posters) -> None:
        folder = live_posters(stream)
        old_addresses = await self._objects.addresses(folder)
        if posters.poor:
            if old_addresses and stream not in self._replaceable:
                return  # the poster of an earlier run shows more
            self._replaceable.add(stream)
        else:
            self._replaceable.discard(stream)
        for poster in posters.posters:
            await self._objects.put(live_poster(stream, poster.label), poster.data)
        largest = posters.posters[0]
        # Smallest first, as for videos.
        labels = [poster.label for poster in reversed(posters.posters)]
        async with asyncio.timeout(_RECORD_SECONDS):
            exists = await self._record(stream, labels, (largest.width, largest.height))
        if not exists:
            # The stream was deleted since the engine made the poster.
            self._replaceable.discard(stream)
            await self._objects.delete_tree(folder)
            return
        new_addresses = {live_poster(stream, label) for label in labels}
        for address in old_addresses:
            if address not in new_addresses:  # a label of another ladder
                await self._objects.delete(address)
