"""The newest media of an encoder whose stream another host owns.

When the owner goes away, another host continues the run, and needs what was received after the
newest media that the old owner stored. The ring consists of whole groups of pictures with the times
at which they arrived. All rings of a host share a bound. Pure; times are seconds.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from media.no_op import do_nothing
from media.packet import PACKET_OVERHEAD, MediaPacket
from media.track import AudioTrack, Track, VideoTrack

# Media are stored at most 8 s after they arrived: a segment of 4 s, and as long for its way to the
# store. A dead owner is replaced within 5 s.
RING_SECONDS: Final = 15.0
# 9 s at 20 Mbit/s, the highest average rate that an encoder may send at.
RING_BYTES: Final = 24 << 20
# Of all rings of a host: 40 encoders of 6 Mbit/s for 15 s. What is stored is not kept for so long.
RINGS_BYTES: Final = 512 << 20
# A keyframe that directly follows the stored media arrives within this time: two pictures.
_JITTER_SECONDS: Final = 0.05
# Sound without a picture can be cut anywhere; this is fine enough.
_AUDIO_GROUP_SECONDS: Final = 0.5


class Jump(Enum):
    """A restart of the encoder's clock."""

    JUMP = "jump"


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """What arrived, and when: a decoder configuration, a packet, or a restart of the clock."""

    at: float
    item: Track | MediaPacket | Jump


class _PictureGroup:
    """A keyframe and what follows it, up to the next one; `tracks` are those before it."""

    __slots__ = ("arrivals", "began", "number", "size_bytes", "tracks")

    def __init__(self, number: int, began: float, tracks: tuple[Track, ...]) -> None:
        self.number = number  # of its first arrival
        self.began = began
        self.tracks = tracks
        self.arrivals: list[Arrival] = []
        self.size_bytes = 0


class RingMemory:
    """Bounds the memory of all rings of a host to `most_bytes`.

    When they exceed it, the largest ring loses its oldest group, and `on_drop` is called: if the
    owner of that encoder's stream goes away then, its viewers miss what was dropped.
    `dropped_groups` counts the groups.
    """

    def __init__(
        self, most_bytes: int = RINGS_BYTES, on_drop: Callable[[], None] = do_nothing
    ) -> None:
        self.size_bytes = 0
        self.dropped_groups = 0
        self._most_bytes = most_bytes
        self._on_drop = on_drop
        self._rings: set[MediaRing] = set()

    def add(self, ring: "MediaRing", size_bytes: int) -> None:
        """Count what a ring has added, and make room for it."""
        self._rings.add(ring)
        self.size_bytes += size_bytes
        while self.size_bytes > self._most_bytes:
            max(self._rings, key=lambda each: each.size_bytes).drop_oldest()
            self.dropped_groups += 1
            self._on_drop()

    def remove(self, ring: "MediaRing", size_bytes: int) -> None:
        """Count what a ring has dropped."""
        self.size_bytes -= size_bytes
        if not ring.has_media:
            self._rings.discard(ring)


class MediaRing:
    """The media of the last `RING_SECONDS`, from a keyframe on, in at most `RING_BYTES`.

    `memory` is shared with the other rings of the host.
    """

    def __init__(self, memory: RingMemory | None = None) -> None:
        self._memory = RingMemory() if memory is None else memory
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._groups: deque[_PictureGroup] = deque()
        self._size_bytes = 0
        self._count = 0  # of all arrivals that were ever kept
        self._stored_until: float | None = None

    @property
    def has_media(self) -> bool:
        """True once the ring holds media that decoding can begin with."""
        return bool(self._groups)

    @property
    def size_bytes(self) -> int:
        """The memory that the ring takes, in bytes."""
        return self._size_bytes

    def add_track(self, track: Track, now: float) -> None:
        """Add a new decoder configuration."""
        if isinstance(track, VideoTrack):
            self._video = track
        else:
            self._audio = track
        self._append(Arrival(now, track), PACKET_OVERHEAD)

    def add_packet(self, packet: MediaPacket, now: float) -> None:
        """Add a packet of the newest track of its kind; dropped while no group has begun."""
        if self._begins_group(packet, now):
            self._groups.append(_PictureGroup(self._count, now, self._tracks()))
            self._drop_groups_before(now - RING_SECONDS)
        self._append(Arrival(now, packet), packet.memory_bytes)

    def clock_jumped(self, now: float) -> None:
        """Add a restart of the encoder's clock."""
        self._append(Arrival(now, Jump.JUMP), PACKET_OVERHEAD)

    def set_stored(self, until: float) -> None:
        """Record that what arrived until then is stored; groups before it are dropped."""
        if self._stored_until is None or until > self._stored_until:
            self._stored_until = until
            self._drop_groups_before(until)

    def clear(self) -> None:
        """Drop all media; the tracks remain known."""
        self._groups.clear()
        self._memory.remove(self, self._size_bytes)
        self._size_bytes = 0

    def drop_oldest(self) -> None:
        """Drop the oldest group."""
        size_bytes = self._groups.popleft().size_bytes
        self._size_bytes -= size_bytes
        self._memory.remove(self, size_bytes)

    def read_lacking(
        self, now: float, received_until: float | None = None
    ) -> tuple[list[Arrival], int]:
        """Return what an owner lacks, and the position after it.

        That is the tracks, then all media from the last keyframe that the owner has. The owner has
        what it received until `received_until`, or what is stored if that is None. If neither is
        known, all media are returned. So viewers miss nothing, and see at most a group of pictures
        again.
        """
        groups = list(self._groups)
        if not groups:
            return [Arrival(now, each) for each in self._tracks()], self._count
        end = self._stored_until if received_until is None else received_until
        if end is not None:
            before = [group for group in groups if group.began <= end + _JITTER_SECONDS]
            groups = groups[max(0, len(before) - 1) :]
        return self._read(groups), self._count

    def read_from(self, position: int) -> tuple[list[Arrival], int]:
        """Return what arrived since a position was returned, and the position after it.

        If that is no longer complete, it begins with the oldest group, as `read_lacking` does.
        """
        if self._groups and position < self._groups[0].number:
            return self._read(list(self._groups)), self._count
        arrivals = [
            arrival
            for group in self._groups
            for number, arrival in enumerate(group.arrivals, group.number)
            if number >= position
        ]
        return arrivals, self._count

    def _read(self, groups: list[_PictureGroup]) -> list[Arrival]:
        first = groups[0]
        tracks = [Arrival(first.began, track) for track in first.tracks]
        return tracks + [arrival for group in groups for arrival in group.arrivals]

    def _tracks(self) -> tuple[Track, ...]:
        return tuple(each for each in (self._video, self._audio) if each is not None)

    def _begins_group(self, packet: MediaPacket, now: float) -> bool:
        if self._video is not None:
            return packet.key and isinstance(packet.track, VideoTrack)
        return not self._groups or now - self._groups[-1].began >= _AUDIO_GROUP_SECONDS

    def _append(self, arrival: Arrival, size_bytes: int) -> None:
        if not self._groups:
            return
        newest = self._groups[-1]
        newest.arrivals.append(arrival)
        newest.size_bytes += size_bytes
        self._size_bytes += size_bytes
        self._count += 1
        self._memory.add(self, size_bytes)
        while self._size_bytes > RING_BYTES:
            self.drop_oldest()

    def _drop_groups_before(self, moment: float) -> None:
        """Drop every group whose successor began by then, so that the ring covers that moment."""
        while len(self._groups) > 1 and self._groups[1].began <= moment:
            self.drop_oldest()
