"""The newest media of one source, kept so that it can go on air from slightly before now.

The buffer consists of whole groups of pictures, so what it returns can be decoded from its first
packet on. Pure; `now` is a packet's time of arrival in seconds.
"""

from collections import deque
from collections.abc import Sequence
from itertools import dropwhile, takewhile
from math import inf
from typing import Final, NamedTuple

from ingest.stream.track_finder import has_picture
from media.codecs.sei import recovery_pictures
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.preroll import leads_up_soon
from media.track import AudioTrack, Track, VideoCodec, VideoTrack

# 9 s at 20 Mbit/s, the highest average rate that an encoder may send at.
BUFFER_BYTES: Final = 24 << 20
# A stall is noticed on the stream's next tick, not at once.
_MARGIN_SECONDS: Final = 0.5
# A picture is shown after it is decoded by at most so much, or it is not looked for.
_MOST_REORDERED: Final = 1.0
# Audio can be cut anywhere; this is fine enough.
_AUDIO_GROUP_SECONDS: Final = 0.5


class _Group:
    """A keyframe and what follows it, up to the next one; `moment` is its presentation time.

    The first `wrong` of its pictures are decoded wrongly without those before it.
    """

    __slots__ = ("arrived", "due", "moment", "packets", "size_bytes", "wrong")

    def __init__(self, moment: float, due: float, arrived: float, wrong: int) -> None:
        self.moment = moment
        self.wrong = wrong
        self.due = due
        self.arrived = arrived
        self.packets: list[MediaPacket] = []
        self.size_bytes = 0


class Entry(NamedTuple):
    """Where a source can go on air: with a picture that is shown at `moment` by its clock.

    `due` and `arrived` are when that picture was due, and came. The packets begin with the keyframe
    before it, `preroll` seconds earlier, and `show_from` is its `pts`; None if it is the keyframe.
    """

    moment: float
    due: float
    arrived: float
    packets: list[MediaPacket]
    show_from: int | None = None
    preroll: float = 0.0

    @property
    def first_shown(self) -> int:
        """The `pts` of that picture."""
        return self.packets[0].pts if self.show_from is None else self.show_from


class GopBuffer:
    """The media of the last `seconds`, and of a `lead` before that, from a keyframe on.

    It holds the group that was current then and all that came after it: at most these seconds
    and two groups of pictures. A source that sends nothing for `seconds` has stalled. `tracks` are
    the tracks of its packets, empty before `begin`. `lag` is that of the loop that reads the
    source; it does not count as a stall.
    """

    def __init__(self, seconds: float, lag: LoopLag | None = None, *, lead: float = 0.0) -> None:
        self._lag = LoopLag() if lag is None else lag
        self.tracks: tuple[Track, ...] = ()
        self.set_duration(seconds, lead)
        self._has_picture = False
        self._groups: deque[_Group] = deque()
        self._size_bytes = 0
        self._last_arrival = 0.0
        self._newest_due = -inf
        self._keyframes: deque[float] = deque(maxlen=2)  # when the newest two were due

    def set_duration(self, seconds: float, lead: float = 0.0) -> None:
        """Keep that many seconds from now on; what was dropped before does not return."""
        self._keep_seconds = seconds + lead + _MARGIN_SECONDS
        self._stall_seconds = seconds

    @property
    def has_picture(self) -> bool:
        """True if the source has a video track."""
        return self._has_picture

    @property
    def has_keyframe(self) -> bool:
        """True once the buffer holds a keyframe."""
        return bool(self._groups)

    @property
    def size_bytes(self) -> int:
        """The memory that the buffered packets take, in bytes."""
        return self._size_bytes

    def begin(self, tracks: tuple[Track, ...]) -> None:
        """Begin a source, or begin it anew; packets of the previous tracks are dropped."""
        self.tracks = tracks
        self._has_picture = has_picture(tracks)
        self._forget_source()

    def change_sound(self, tracks: tuple[Track, ...]) -> None:
        """Go on with the same pictures and other sound; the sound so far is dropped."""
        if any(isinstance(track, AudioTrack) and track in tracks for track in self.tracks):
            return
        self.tracks = tracks
        for group in self._groups:
            group.packets = [each for each in group.packets if isinstance(each.track, VideoTrack)]
            size_bytes = sum(packet.memory_bytes for packet in group.packets)
            self._size_bytes += size_bytes - group.size_bytes
            group.size_bytes = size_bytes

    def clear(self) -> None:
        """Drop all packets."""
        self._newest_due = -inf
        self._groups.clear()
        self._size_bytes = 0

    def _forget_source(self) -> None:
        self.clear()
        self._keyframes.clear()

    def _detect_stall(self, now: float) -> None:
        if self._lag.elapsed(self._last_arrival, now) >= self._stall_seconds:
            # After a stall the packets before it are outdated.
            self._forget_source()
        self._last_arrival = now

    def observe(self, packets: Sequence[MediaPacket], now: float, dues: Sequence[float]) -> None:
        """Record when packets were due without keeping them."""
        self._detect_stall(now)
        if self._has_picture:
            for packet, due in zip(packets, dues, strict=True):
                if packet.key and isinstance(packet.track, VideoTrack):
                    self._keyframes.append(due)

    def append(self, packet: MediaPacket, now: float, due: float | None = None) -> bool:
        """Append a packet; return True if decoding can begin with it.

        `due` is when the packet should have arrived if it was delayed; it counts from then on.
        """
        self._detect_stall(now)
        due = now if due is None else due
        self._newest_due = max(self._newest_due, due)
        begins = self._starts_group(packet, now)
        if begins:
            moment = packet.pts / packet.track.scale
            self._groups.append(_Group(moment, due, now, _wrong_pictures(packet)))
            self._keyframes.append(due)
            while len(self._groups) > 1 and self._groups[1].arrived <= now - self._keep_seconds:
                self._drop_oldest()
        elif not self._groups:
            return False
        newest = self._groups[-1]
        newest.packets.append(packet)
        newest.size_bytes += packet.memory_bytes
        self._size_bytes += packet.memory_bytes
        while self._size_bytes > BUFFER_BYTES:
            self._drop_oldest()
        return begins and self.has_keyframe

    @property
    def next_keyframe_due(self) -> float | None:
        """When the next keyframe is due, extrapolated from the newest two; None before these."""
        if len(self._keyframes) < 2:
            return None
        before, newest = self._keyframes
        return 2 * newest - before

    @property
    def newest_due(self) -> float:
        """When the newest packet was due."""
        return self._newest_due

    @property
    def newest_keyframe(self) -> float | None:
        """The moment of the newest keyframe; None if the buffer holds none."""
        return self._groups[-1].moment if self._groups else None

    def due_at(self, moment: float) -> float:
        """Return when a keyframe that is shown at that moment, by the source's clock, is due.

        Raises:
            LookupError: the buffer holds no keyframe.
        """
        if not self._groups:
            raise LookupError("no keyframe")
        newest = self._groups[-1]
        return newest.due + moment - newest.moment

    def nearest_keyframe(self, moment: float) -> float:
        """Return the due time of the keyframe nearest to a moment.

        Raises:
            LookupError: the buffer holds no keyframe.
        """
        if not self._groups:
            raise LookupError("no keyframe")
        # Of two at the same distance, the later one: the picture before it still lasts a while.
        dues = (group.due for group in reversed(self._groups))
        return min(dues, key=lambda due: round(abs(due - moment), 3))

    def enter_near(self, due: float) -> Entry:
        """Return where the keyframe is that was due nearest to a time.

        Raises:
            LookupError: the buffer holds no keyframe.
        """
        nearest = self.nearest_keyframe(due)
        return self._enter(next(group for group in self._groups if group.due == nearest))

    def keyframe_from(self, moment: float) -> float | None:
        """Return the moment of the first keyframe that is shown at a moment or later, if any."""
        return next((group.moment for group in self._groups if group.moment >= moment), None)

    def reaches(self, moment: float, tolerance: float) -> bool:
        """Return whether the picture of a moment has come, and those before it."""
        first = moment - tolerance
        for group in reversed(self._groups):
            for packet in reversed(group.packets):
                if self._leads(packet):
                    if packet.dts >= moment * packet.track.scale:
                        return True
                    if first <= packet.pts / packet.track.scale <= moment + tolerance:
                        return True
                    if packet.dts < (moment - _MOST_REORDERED) * packet.track.scale:
                        return False
        return False

    @property
    def newest_moment(self) -> float:
        """The moment of the newest picture of which all before it have come; -inf if there is none.

        Pictures are shown when they are decoded, or later.
        """
        newest = -inf
        for packet in reversed(self._groups[-1].packets if self._groups else []):
            if self._leads(packet):
                return packet.dts / packet.track.scale
        return newest

    def enter_at(self, moment: float, tolerance: float) -> Entry | None:
        """Return where the picture of a moment is, or the first one after it.

        None if it has not come, or it takes too long to decode what leads up to it.
        """
        since = moment - tolerance
        groups = [each for each in self._groups if each.moment <= moment + tolerance]
        while groups and not self._is_right(since, groups[-1]):
            groups.pop()
        if not groups:
            return None
        keyframe = self._enter(groups[-1])
        pictures = [packet for packet in keyframe.packets if self._leads(packet)]
        shown = [each for each in pictures if each.pts / each.track.scale >= since]
        first = min(shown, key=lambda packet: packet.pts, default=None)
        if first is None:
            return None
        if first is pictures[0]:
            return keyframe
        at = first.pts / first.track.scale
        packets, show_from = keyframe.packets, first.pts
        if isinstance(first.track, VideoTrack):
            before = sum(each.pts < first.pts for each in pictures)
            if not leads_up_soon(first.track, before):
                return None
        else:  # sound needs nothing before it
            packets, show_from = [each for each in packets if each.pts >= first.pts], None
        later = at - keyframe.moment
        due, arrived = keyframe.due + later, keyframe.arrived + later
        return Entry(at, due, arrived, packets, show_from, later if show_from is not None else 0.0)

    def _is_right(self, moment: float, group: _Group) -> bool:
        """Return whether a picture of a moment is right if decoding begins with a group."""
        if not group.wrong:
            return True
        groups = dropwhile(lambda each: each is not group, self._groups)
        pictures = (each for of in groups for each in of.packets if self._leads(each))
        return sum(each.pts / each.track.scale < moment for each in pictures) >= group.wrong

    def _leads(self, packet: MediaPacket) -> bool:
        return not self._has_picture or isinstance(packet.track, VideoTrack)

    def _enter(self, first: _Group) -> Entry:
        groups = dropwhile(lambda group: group is not first, self._groups)
        keyframe, *packets = (packet for group in groups for packet in group.packets)
        packets = [keyframe, *self._sound_before(first), *packets]
        return Entry(first.moment, first.due, first.arrived, packets)

    def _sound_before(self, first: _Group) -> list[MediaPacket]:
        """Return the sound that belongs to a group and came before its keyframe."""
        before = list(takewhile(lambda group: group is not first, self._groups))
        if not before or not self._has_picture:
            return []
        return [
            each
            for each in before[-1].packets
            if not self._leads(each) and each.pts >= first.moment * each.track.scale
        ]

    def _starts_group(self, packet: MediaPacket, now: float) -> bool:
        if self._has_picture:
            return packet.key and isinstance(packet.track, VideoTrack)
        return not self._groups or now - self._groups[-1].due >= _AUDIO_GROUP_SECONDS

    def _drop_oldest(self) -> None:
        self._size_bytes -= self._groups.popleft().size_bytes


def _wrong_pictures(keyframe: MediaPacket) -> int:
    """Return how many pictures from a keyframe on are decoded wrongly without those before it."""
    track = keyframe.track
    if not isinstance(track, VideoTrack) or track.codec is not VideoCodec.AVC:
        return 0
    return recovery_pictures(keyframe.data, 1 + (track.config[4] & 3 if track.config[4:] else 3))
