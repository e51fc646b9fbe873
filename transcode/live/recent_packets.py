"""The newest packets that an engine got of the source on air, from a keyframe on.

With them a beginning in the middle of a GOP loses nothing: they lead up to it as its preroll, and
what an engine had not published when it died is sent to the next one. Pure; arrivals are seconds of
a monotonic clock.
"""

from collections import deque
from itertools import chain
from typing import Final

import msgspec

from media.packet import PACKET_OVERHEAD
from media.ticks import VIDEO_SCALE, rescale
from media.track import AudioTrack, VideoTrack
from transcode.protocol.messages import Packet

# As a slot's GOP buffer: 9 s at 20 Mbit/s. If a GOP is larger, a beginning waits for a keyframe.
RECENT_BYTES: Final = 24 << 20
# An engine publishes what it gets within a second, or two if its encoders look ahead.
_PUBLISHED_SECONDS: Final = 5.0
# Sound can be cut anywhere; this is fine enough.
_AUDIO_GROUP_SECONDS: Final = 0.5
# What a core decodes in a second: 200 pictures of 1080p (measured at 6 Mbit/s: 210 to 290).
_DECODED_PIXELS: Final = 200 * 1920 * 1080
# To decode for so long is better than to lose pictures: 10 s of 1080p30, and no longer than players
# have media. More work is worth it only if the next keyframe is still farther away.
_MOST_WORK_SECONDS: Final = 1.5
_USUAL_GROUP_SECONDS: Final = 10.0


class SentPacket(msgspec.Struct, frozen=True, gc=False):
    """A packet that an engine got, when it had arrived, and whether viewers may get it again."""

    packet: Packet
    arrived: float
    is_shown: bool


class _Group:
    """A keyframe and what follows it, up to the next one."""

    __slots__ = ("sent", "size_bytes")

    def __init__(self) -> None:
        self.sent: list[SentPacket] = []
        self.size_bytes = 0


class RecentPackets:
    """The present group of pictures of one source, and those of the last seconds before it.

    It takes at most `RECENT_BYTES`. `video` and `audio` are the source's tracks.
    """

    def __init__(self) -> None:
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._groups: deque[_Group] = deque()
        self._size_bytes = 0
        self._group_ticks = 0  # the length of the group before the newest

    def begin(self, video: VideoTrack | None, audio: AudioTrack | None) -> None:
        """Begin another source, and forget the one before it."""
        self._video, self._audio = video, audio
        self._groups.clear()
        self._size_bytes = self._group_ticks = 0

    def change_sound(self, audio: AudioTrack | None) -> None:
        """Forget the sound, because another track continues it."""
        if audio != self._audio:
            self._audio = audio
            for group in self._groups:
                group.sent = [each for each in group.sent if each.packet.video]

    def hide(self) -> None:
        """Record that viewers get none of the present packets again."""
        for group in self._groups:
            group.sent = [msgspec.structs.replace(each, is_shown=False) for each in group.sent]

    def add(self, packet: Packet, arrived: float, *, is_shown: bool = True) -> None:
        """Add the source's next packet."""
        if self._begins_group(packet, arrived):
            self._begin_group(packet, arrived)
        if not self._groups:
            return
        size_bytes = len(packet.data) + PACKET_OVERHEAD
        self._groups[-1].sent.append(SentPacket(packet, arrived, is_shown))
        self._groups[-1].size_bytes += size_bytes
        self._size_bytes += size_bytes
        while self._size_bytes > RECENT_BYTES:
            self._drop_oldest()

    def preroll(self) -> tuple[Packet, ...]:
        """Return the present group of pictures; empty if it is better to wait for a keyframe."""
        group = [each.packet for each in self._groups[-1].sent] if self._groups else []
        return tuple(group) if self._is_worth_decoding(group) else ()

    def split(
        self, moment: int | None, *, arrived_since: float
    ) -> tuple[tuple[Packet, ...], list[SentPacket]]:
        """Return a preroll and the packets that viewers get after it, from `moment` on.

        `moment` is a time of the leading track in ticks of 90 000 a second; None is the oldest. If
        there is no preroll, the packets begin with a keyframe. What had arrived before
        `arrived_since` is not shown.
        """
        sent = list(chain.from_iterable(group.sent for group in self._groups))
        first = next(
            (
                index
                for index, each in enumerate(sent)
                if self._leads(each.packet)
                and each.is_shown
                and each.arrived >= arrived_since
                and (moment is None or self._time(each.packet) >= moment)
            ),
            len(sent),
        )
        begins = [index for index, each in enumerate(sent) if self._can_begin(each.packet)]
        key = max((index for index in begins if index <= first), default=first)
        preroll = tuple(each.packet for each in sent[key:first])
        if preroll and not self._is_worth_decoding(preroll):
            preroll, first = (), next((index for index in begins if index >= first), len(sent))
        return preroll, sent[first:]

    def _leads(self, packet: Packet) -> bool:
        return packet.video is (self._video is not None)

    def _can_begin(self, packet: Packet) -> bool:
        return self._leads(packet) and (packet.key or self._video is None)

    def _time(self, packet: Packet) -> int:
        track = self._video if packet.video else self._audio
        return rescale(packet.pts, track.scale if track is not None else 1, VIDEO_SCALE)

    def _begins_group(self, packet: Packet, arrived: float) -> bool:
        if not self._can_begin(packet):
            return False
        if self._video is not None or not self._groups or not self._groups[-1].sent:
            return True
        return arrived - self._groups[-1].sent[0].arrived >= _AUDIO_GROUP_SECONDS

    def _begin_group(self, packet: Packet, arrived: float) -> None:
        if self._groups and self._groups[-1].sent:
            self._group_ticks = packet.dts - self._groups[-1].sent[0].packet.dts
        self._groups.append(_Group())
        while len(self._groups) > 2 and self._is_published(self._groups[1], arrived):
            self._drop_oldest()

    def _is_published(self, group: _Group, now: float) -> bool:
        return not group.sent or group.sent[0].arrived <= now - _PUBLISHED_SECONDS

    def _drop_oldest(self) -> None:
        self._size_bytes -= self._groups.popleft().size_bytes

    def _is_worth_decoding(self, group: list[Packet] | tuple[Packet, ...]) -> bool:
        """Return whether a group's pictures are decoded soon enough to be its preroll."""
        track = self._video
        pictures = [packet for packet in group if packet.video]
        if track is None or not pictures:
            return False
        work = len(pictures) * track.width * track.height / _DECODED_PIXELS
        usual = self._group_ticks / track.scale if self._group_ticks > 0 else _USUAL_GROUP_SECONDS
        passed = (pictures[-1].dts - pictures[0].dts) / track.scale
        return work <= max(_MOST_WORK_SECONDS, usual - passed)
