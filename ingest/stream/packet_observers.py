"""Observers of packets: of what one slot's encoder sends, or of what is on air.

Each observer takes what came out of a queue of its own, in a task of its own. The queue is bounded:
what a slow observer does not take in time is dropped up to a keyframe, so neither it nor one that
fails costs the stream anything.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import dropwhile
from typing import Final

from ingest.stream.ports import ObservedItem, PacketObserver, SourceEnded, SourceObserved
from ingest.stream.track_finder import has_picture
from media.packet import MediaPacket
from media.track import Track, VideoTrack

log = logging.getLogger(__name__)

# Of one observer: 13 s at 20 Mbit/s, the highest average rate that an encoder may send at.
QUEUE_BYTES: Final = 32 << 20


class PacketQueue:
    """What one observer has not taken yet; an asynchronous iterator.

    While more than `most_bytes` wait, packets are dropped; the source begins anew at the next
    keyframe for which there is room again.
    """

    def __init__(self, about: dict[str, object], most_bytes: int = QUEUE_BYTES) -> None:
        self._about = about
        self._most_bytes = most_bytes
        self._items: deque[ObservedItem] = deque()
        self._bytes = 0
        self._tracks: tuple[Track, ...] = ()
        self._dropping = False
        self._sound_alone = False  # until there is a keyframe
        self._has_told = False
        self._is_closed = False
        self._wake = asyncio.Event()

    def begin(self, tracks: tuple[Track, ...]) -> None:
        """Add the beginning of a source."""
        self._tracks, self._sound_alone = tracks, False
        if not self._dropping:
            self._put(SourceObserved(tracks))

    def join(self, tracks: tuple[Track, ...], *, sound_at_once: bool = False) -> None:
        """Observe a source that has begun already, from its next keyframe on.

        Its sound comes `sound_at_once` if that is wanted: it has no keyframes.
        """
        self._tracks, self._dropping = tracks, not sound_at_once
        if sound_at_once:
            self._sound_alone = has_picture(tracks)
            self._put(SourceObserved(tracks))

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        """Add packets, or drop them."""
        if self._dropping and self._bytes <= self._most_bytes // 2:
            packets = list(dropwhile(lambda packet: not self._can_begin(packet), packets))
            if packets:
                self._dropping = False
                self._sound_alone = False
                self._put(SourceObserved(self._tracks))
        if self._sound_alone:
            packets = self._without_early_pictures(packets)
        size_bytes = _memory_bytes(packets)
        if not self._dropping and self._bytes + size_bytes > self._most_bytes:
            self._drop()
        if not self._dropping:
            self._bytes += size_bytes
            self._put(packets)

    def finish(self) -> None:
        """Add the end of the source."""
        self._dropping, self._tracks = False, ()
        self._put(SourceEnded())

    def close(self) -> None:
        """End the iteration after what waits."""
        self._is_closed = True
        self._wake.set()

    def __aiter__(self) -> "PacketQueue":
        return self

    async def __anext__(self) -> ObservedItem:
        while not self._items:
            if self._is_closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        item = self._items.popleft()
        if isinstance(item, Sequence):
            self._bytes -= _memory_bytes(item)
        return item

    def _put(self, item: ObservedItem) -> None:
        self._items.append(item)
        self._wake.set()

    def _drop(self) -> None:
        self._dropping = True
        if not self._has_told:
            self._has_told = True
            log.warning("observer too slow: packets dropped", extra=self._about)

    def _without_early_pictures(self, packets: Sequence[MediaPacket]) -> Sequence[MediaPacket]:
        """Leave out the pictures before the first keyframe."""
        kept: list[MediaPacket] = []
        for packet in packets:
            self._sound_alone = self._sound_alone and not self._can_begin(packet)
            if not self._sound_alone or not isinstance(packet.track, VideoTrack):
                kept.append(packet)
        return kept

    def _can_begin(self, packet: MediaPacket) -> bool:
        is_picture = isinstance(packet.track, VideoTrack)
        return packet.key and is_picture is has_picture(self._tracks)


class PacketObservers:
    """The observers of one place; without any, each call costs a look at an empty list.

    `about` is what the log says of the place.
    """

    def __init__(self, **about: object) -> None:
        self._about = about
        self._queues: list[PacketQueue] = []
        self._tracks: tuple[Track, ...] | None = None  # of the present source

    async def run(self, observer: PacketObserver, *, sound_at_once: bool = False) -> None:
        """Let an observer observe until it returns; if it fails, that is logged.

        Of a source that has begun before, it gets the tracks and the packets from the next keyframe
        on, and if it wants `sound_at_once`, the sound before that.
        """
        about = {**self._about, "observer": type(observer).__name__}
        queue = PacketQueue(about)
        if self._tracks is not None:
            queue.join(self._tracks, sound_at_once=sound_at_once)
        self._queues.append(queue)
        try:
            await observer.observe(queue)
        except Exception:  # it must not end the stream
            log.exception("observer failed", extra=about)
        finally:
            self._queues.remove(queue)

    def begin(self, tracks: tuple[Track, ...]) -> None:
        """Report the beginning of a source."""
        self._tracks = tracks
        for queue in self._queues:
            queue.begin(tracks)

    def offer(self, packets: Sequence[MediaPacket]) -> None:
        """Report packets of the source."""
        for queue in self._queues:
            queue.offer(packets)

    def finish(self) -> None:
        """Report the end of the source, if there is one."""
        if self._tracks is not None:
            self._tracks = None
            for queue in self._queues:
                queue.finish()

    def close(self) -> None:
        """End all observations after what has been reported."""
        for queue in self._queues:
            queue.close()


def _memory_bytes(packets: Sequence[MediaPacket]) -> int:
    return sum(packet.memory_bytes for packet in packets)
