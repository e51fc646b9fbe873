"""The queue of a run's packets and orders for its engine, with a bound and a drop policy.

Pure: times are seconds of a monotonic clock. An engine that cannot keep up must not make the
publisher wait, so packets that exceed the bound are dropped until there is room again. After the
gap the source starts anew: players get a discontinuity instead of one segment that spans the gap.

The packets since the newest keyframe are kept after an engine got them (see `recent_packets`), so a
source can go on in the middle of a GOP: after the gap, after a slate, in another engine.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from itertools import takewhile
from typing import Final

import msgspec

from media.loop_lag import LoopLag
from media.packet import PACKET_OVERHEAD, MediaPacket
from media.preroll import leads_up_soon
from media.source_mark import FindMarks, ProgrammePlace, no_marks
from media.ticks import MICROSECONDS
from media.track import AudioTrack, Track, VideoTrack
from transcode.live.recent_packets import RECENT_BYTES, RecentPackets
from transcode.live.resumption import resume
from transcode.protocol.messages import Finish, LeaveOut, Packet, ReuseSource

# A backup's GOP buffer (24 MiB at most), which comes in at once, and 4 s at 32 Mbit/s: far more
# than comes in during an engine's start.
QUEUE_BYTES: Final = 40 << 20
# Older media are better skipped than shown: players are 12 s behind the live edge at most.
QUEUE_SECONDS: Final = 10.0
# How much an engine is given at once: what one read of a publisher brings.
_BATCH_BYTES: Final = 64 << 10
# What waited on its way (for the tracks of its source, for the run, in a GOP buffer) comes in right
# after the beginning, at once; this covers a machine that is busy meanwhile.
_BURST_SECONDS: Final = 1.0


class Joint(Enum):
    """How the start of a source relates to the packets before it."""

    NEW = auto()  # another source, or this one from a keyframe on
    SOUND = auto()  # its pictures go on, with other sound
    CLOCK = auto()  # its pictures go on, on a clock that has restarted
    GROUP = auto()  # it goes on in the middle of a GOP, after the slate or after dropped packets
    ENGINE = auto()  # it goes on in another engine


class SourceStart(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a source; `wall_us` is when the first packet that is shown came, in us since the
    epoch. Viewers may get a later packet first: each has the time of its own.

    `splice` is True if it replaces a source that did not finish. `preroll` are the packets that
    lead up to the first one that is shown, from a keyframe on. `dropped` are those that no engine
    got: they belong to the preroll, which is complete once the start is taken from the queue.
    `show_from` and `show_until` are as in `Begin`, and `marks` as in `PacketSink.begin`.
    """

    video: VideoTrack | None
    audio: AudioTrack | None
    wall_us: int
    splice: bool = False
    joint: Joint = Joint.NEW
    preroll: tuple[Packet, ...] = ()
    dropped: tuple[Packet, ...] = ()
    show_from: int | None = None
    show_until: int | None = None
    marks: FindMarks = no_marks

    @classmethod
    def from_tracks(
        cls,
        tracks: tuple[Track, ...],
        wall_us: int,
        *,
        splice: bool = False,
        joint: Joint = Joint.NEW,
        show_from: int | None = None,
        show_until: int | None = None,
        marks: FindMarks = no_marks,
    ) -> "SourceStart":
        """Return the start of a source with these tracks, at most one of each kind."""
        return cls(
            video=next((track for track in tracks if isinstance(track, VideoTrack)), None),
            audio=next((track for track in tracks if isinstance(track, AudioTrack)), None),
            wall_us=wall_us,
            splice=splice,
            joint=joint,
            show_from=show_from,
            show_until=show_until,
            marks=marks,
        )

    @property
    def without_packets(self) -> "SourceStart":
        """The start alone."""
        return msgspec.structs.replace(self, preroll=(), dropped=())


class NoSource(msgspec.Struct, frozen=True, kw_only=True):
    """The source ended at `since`, and none is on air: viewers get the slate."""

    since: float


QueueItem = SourceStart | NoSource | Packet | LeaveOut | ReuseSource | Finish


class _Burst:
    """The first packets of a source, of which the first one came `late` seconds before `began`.

    Those that waited with it follow at once, though they came one after the other.
    """

    def __init__(self, began: float, late: float) -> None:
        self._began = began
        self._late = late
        self._first: dict[type[Track], int] = {}  # the time stamps of the first packets

    def late(self, packet: MediaPacket, now: float) -> float:
        """Return how many seconds ago a packet came that is offered now."""
        waited = now - self._began
        if waited > _BURST_SECONDS:
            return 0.0
        first = self._first.setdefault(type(packet.track), packet.dts)
        behind = self._late + waited - (packet.dts - first) / packet.track.scale
        return min(max(behind, 0.0), self._late)


class Backlog:
    """The queue of one run; `wall_us` returns the time of day in us since the epoch.

    `bytes` is what the queued packets take in memory; `dropping` is True while packets are dropped.
    `lag` is that of the loop that feeds the engine: packets do not age by it.
    """

    def __init__(self, wall_us: Callable[[], int], lag: LoopLag | None = None) -> None:
        self.bytes = 0
        self.dropping = False
        self._wall_us = wall_us
        self._lag = LoopLag() if lag is None else lag
        self._queue: deque[tuple[QueueItem, float]] = deque()
        self._source: SourceStart | None = None  # the source that packets belong to
        self._burst: _Burst | None = None  # that the source begins with
        self._on_slate = False  # no source is on air
        self._recent = RecentPackets()  # what was taken from the queue
        self._dropped: list[Packet] = []  # since the newest keyframe, if a preroll can use them
        # The size of the present group of pictures; None while none has begun.
        self._group_bytes: int | None = None

    def __bool__(self) -> bool:
        return bool(self._queue)

    def age(self, now: float) -> float:
        """Return for how many seconds the oldest item has waited."""
        return self._lag.elapsed(self._queue[0][1], now) if self._queue else 0.0

    def begin(
        self,
        tracks: tuple[Track, ...],
        now: float,
        late: float = 0.0,
        *,
        splice: bool = False,
        joint: Joint = Joint.NEW,
        show_from: int | None = None,
        show_until: int | None = None,
        marks: FindMarks = no_marks,
    ) -> None:
        """Queue the start of a source whose first packet came `late` seconds ago.

        If it goes on with the packets that were offered last, `joint` says what has changed.
        `show_from` and `show_until` are as in `Begin`.
        """
        if self._source is None and joint is not Joint.NEW:
            joint = Joint.GROUP if self._on_slate and self._can_lead_up() else Joint.NEW
        self._burst = None if joint in (Joint.SOUND, Joint.CLOCK) else _Burst(now, late)
        wall_us = self._wall_us() - round(late * MICROSECONDS)
        start = SourceStart.from_tracks(
            tracks,
            wall_us,
            splice=splice or self._on_slate,
            joint=joint,
            # The slate belongs to no moment of a programme.
            show_from=None if self._on_slate else show_from,
            show_until=show_until if splice else None,
            marks=marks,
        )
        self._source, self._on_slate = start, False
        if self.dropping and joint in (Joint.SOUND, Joint.CLOCK):
            self._dropped = [packet for packet in self._dropped if packet.video]
            return  # there is no room yet
        self.dropping = False
        if joint is Joint.GROUP:
            start = msgspec.structs.replace(start, dropped=tuple(self._dropped))
        if joint is Joint.NEW:
            self._group_bytes = None
        self._dropped.clear()
        self._queue.append((start, now))

    def offer(self, packets: Sequence[MediaPacket], now: float) -> int:
        """Queue packets that came together; return how many were dropped."""
        wall_us, is_old, dropped = self._wall_us(), self.age(now) > QUEUE_SECONDS, 0
        for packet in packets:
            late = self._burst.late(packet, now) if self._burst is not None else 0.0
            order = Packet(
                video=isinstance(packet.track, VideoTrack),
                dts=packet.dts,
                pts=packet.pts,
                key=packet.key,
                data=packet.data,
                came_us=wall_us - round(late * MICROSECONDS),
            )
            size_bytes = packet.memory_bytes
            self._count_group(order, size_bytes)
            if is_old or self.bytes + size_bytes > QUEUE_BYTES:
                self.dropping = True
            if self.dropping:
                if not self._resumes(order, now):
                    self._drop(order)
                    dropped += 1
                    continue
                begins = self._can_begin(order)
                self.restart_source(now, joint=Joint.NEW if begins else Joint.GROUP)
            self.bytes += size_bytes
            self._queue.append((order, now))
        return dropped

    def restart_source(self, now: float, joint: Joint = Joint.NEW) -> None:
        """Restart the source with the next packet, which is a keyframe if it is `NEW`."""
        dropped, self._dropped, self.dropping = tuple(self._dropped), [], False
        self._burst = None
        if self._source is None:
            return
        self._source = msgspec.structs.replace(
            self._source,
            wall_us=self._wall_us(),
            splice=False,
            joint=joint,
            show_from=None,
            show_until=None,
        )
        start = self._source
        if joint is Joint.GROUP:
            start = msgspec.structs.replace(start, dropped=dropped)
        self._queue += ((Finish(), now), (start, now))

    def reuse_source(self, now: float) -> None:
        """Queue that the source's own packets make the top rung again (see `ReuseSource`)."""
        self._queue.append((ReuseSource(), now))

    def begin_slate(self, now: float, late: float = 0.0) -> None:
        """Queue the end of the source, `late` seconds ago, and the slate after it."""
        if self._on_slate:
            return
        self.dropping, self._source, self._on_slate = False, None, True
        self._queue.append((NoSource(since=now - late), now))

    def finish(self, now: float) -> None:
        """Queue the end of the source."""
        self.dropping, self._source, self._on_slate = False, None, False
        self._queue.append((Finish(), now))

    def put_first(self, order: LeaveOut, now: float) -> None:
        """Queue an order before everything else; the queue is as old as before."""
        oldest = self._queue[0][1] if self._queue else now
        self._queue.appendleft((order, oldest))

    @property
    def next_start(self) -> SourceStart | None:
        """The start of a source, if that is the oldest item."""
        item = self._queue[0][0] if self._queue else None
        return item if isinstance(item, SourceStart) else None

    def go_on_from(self, end: int, place: ProgrammePlace) -> bool:
        """Let the next source begin where the media end that another process has made.

        They end at `end` on the output clock. If that is not known by its own clock, it begins as
        it would have, and False is returned.
        """
        start = self.next_start
        if start is None or start.video is None or start.show_from is not None:
            return False
        item, (_, arrived) = start, self._queue.popleft()
        packets = [packet for packet, _ in self._following()]
        resumed = resume(packets, start.video, start.audio, place, end)
        if resumed is not None:
            dropped = set(map(id, resumed.dropped))
            self._queue = deque(each for each in self._queue if id(each[0]) not in dropped)
            self.bytes -= sum(len(each.data) + PACKET_OVERHEAD for each in resumed.dropped)
            item = msgspec.structs.replace(start, show_from=resumed.show_from)
        self._queue.appendleft((item, arrived))
        return resumed is not None

    def pop_packets(self) -> list[Packet]:
        """Remove and return the packets that are next, some of them: up to `_BATCH_BYTES`."""
        packets: list[Packet] = []
        size_bytes = 0
        while self._queue and size_bytes < _BATCH_BYTES:
            packet, arrived = self._queue[0]
            if not isinstance(packet, Packet):
                break
            self._queue.popleft()
            size_bytes += len(packet.data) + PACKET_OVERHEAD
            self._recent.add(packet, arrived)
            packets.append(packet)
        self.bytes -= size_bytes
        return packets

    def pop(self) -> QueueItem:
        """Remove and return the oldest item."""
        order, arrived = self._queue.popleft()
        if isinstance(order, Packet):
            self.bytes -= len(order.data) + PACKET_OVERHEAD
            self._recent.add(order, arrived)
        elif isinstance(order, SourceStart):
            return self._with_cut(self._with_preroll(order, arrived))
        return order

    def resume_source(
        self, source: SourceStart, now: float, published: int | None = None, *, again: bool = True
    ) -> None:
        """Start `source` again in a new engine, after the media that were published.

        `published` is where those end, by the clock of the source's leading track in ticks of
        90 000 a second; None if none were. What is too old, and what no preroll can lead up to, is
        left out. The wall clock is that of the arrival of the first packet that is shown. Unless
        `again`, no packet is sent that another engine got: it begins at the next queued keyframe.
        """
        if not again:
            self._recent.begin(source.video, source.audio)
        preroll, sent = self._recent.split(published, arrived_since=now - QUEUE_SECONDS)
        self._recent.begin(source.video, source.audio)
        for packet in preroll:
            self._recent.add(packet, now, is_shown=False)
        for each in reversed(sent):
            self._queue.appendleft((each.packet, each.arrived))
            self.bytes += len(each.packet.data) + PACKET_OVERHEAD
        if not preroll and not sent:
            self._drop_to_keyframe(source)
        if not preroll and not sent and self._queue and self._begins_at_once(self._queue[0][0]):
            return
        arrived = self._queue[0][1] if self._queue else now
        start = msgspec.structs.replace(
            source,
            wall_us=self._wall_us() - round((now - arrived) * MICROSECONDS),
            joint=Joint.ENGINE,
            preroll=preroll,
            # What leads up to it had not been shown yet.
            show_from=source.show_from if published is None and again else None,
            show_until=None,
        )
        self._queue.appendleft((start, arrived))

    def _drop_to_keyframe(self, source: SourceStart) -> None:
        while self._queue and not isinstance(
            head := self._queue[0][0], SourceStart | NoSource | Finish
        ):
            if isinstance(head, Packet) and head.key and (head.video or source.video is None):
                break
            self.pop()
        self._recent.begin(source.video, source.audio)

    def resume_slate(self, source: SourceStart, now: float) -> None:
        """Continue the slate in a new engine, in the renditions of `source`."""
        if not (self._queue and isinstance(self._queue[0][0], SourceStart | Finish)):
            source = msgspec.structs.replace(source, wall_us=self._wall_us(), joint=Joint.ENGINE)
            self._queue.extendleft(((NoSource(since=now), now), (source, now)))

    def _with_preroll(self, start: SourceStart, arrived: float) -> SourceStart:
        """Return a start with its preroll: all packets before it have been taken."""
        recent = self._recent
        match start.joint:
            case Joint.NEW:
                recent.begin(start.video, start.audio)
            case Joint.SOUND:
                recent.change_sound(start.audio)
            case Joint.CLOCK:
                recent.hide()
                recent.change_sound(None)
                recent.change_sound(start.audio)
            case Joint.GROUP:
                recent.hide()
                recent.change_sound(start.audio)
                for packet in start.dropped:
                    recent.add(packet, arrived, is_shown=False)
            case Joint.ENGINE:
                pass
        if start.joint is not Joint.GROUP:
            return start
        following = (each for each, _ in self._queue if isinstance(each, Packet) and each.video)
        first = next(following, None)
        begins = first is not None and first.key
        preroll = () if begins else recent.preroll()
        return msgspec.structs.replace(start, preroll=preroll, dropped=())

    def _with_cut(self, start: SourceStart) -> SourceStart:
        """Return a start that is shown from a picture after its keyframe only if that is possible.

        It is not if decoding what leads up to that picture would take too long.
        """
        if start.show_from is None or start.video is None:
            return start
        pictures = [each for each, _ in self._following() if each.video]
        before = list(takewhile(lambda each: each.pts < (start.show_from or 0), pictures))
        if not pictures or (not before and start.show_until is not None):
            # None has come yet, or what was sent of the source before is not followed by them.
            return start
        if not before:  # it is shown from its keyframe on
            return msgspec.structs.replace(start, show_from=None)
        if start.preroll or not before[0].key or not leads_up_soon(start.video, len(before)):
            return msgspec.structs.replace(start, show_from=None, show_until=None)
        shown = pictures[len(before) :]
        came_us = shown[0].came_us if shown else start.wall_us
        return msgspec.structs.replace(start, wall_us=max(start.wall_us, came_us))

    def _following(self) -> Iterator[tuple[Packet, float]]:
        """Return the packets of the source whose start is taken from the queue."""
        for item, arrived in self._queue:
            if isinstance(item, SourceStart | NoSource | Finish):
                return
            if isinstance(item, Packet):
                yield item, arrived

    def _begins_at_once(self, item: QueueItem) -> bool:
        """Return whether an item starts a source without the one before it."""
        return isinstance(item, SourceStart) and item.joint in (Joint.NEW, Joint.GROUP)

    def _can_begin(self, packet: Packet) -> bool:
        has_picture = self._source is not None and self._source.video is not None
        return packet.key and packet.video is has_picture

    def _count_group(self, packet: Packet, size_bytes: int) -> None:
        if packet.video and packet.key:
            self._group_bytes = 0
            self._dropped.clear()
        if self._group_bytes is not None:
            self._group_bytes += size_bytes

    def _drop(self, packet: Packet) -> None:
        if self._can_lead_up():
            self._dropped.append(packet)
        else:
            self._dropped.clear()

    def _can_lead_up(self) -> bool:
        """Return whether the present group of pictures is complete and not too large."""
        return self._group_bytes is not None and self._group_bytes <= RECENT_BYTES

    def _resumes(self, packet: Packet, now: float) -> bool:
        """Return whether there is room again and decoding can begin at this packet."""
        begins = self._can_begin(packet) or (packet.video and self._can_lead_up())
        return begins and self.bytes < QUEUE_BYTES // 2 and self.age(now) < QUEUE_SECONDS / 2
