"""The survey of a file's sound, packet by packet: where it ends, and whether it can be copied.

Plain AAC-LC without a hole can be copied if every packet can be decoded: browsers abandon a video
at one that cannot. Decoding costs 2 s of CPU for an hour.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from array import array
from typing import Final

import msgspec
from av.audio.stream import AudioStream
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream

from media.codecs.aac import AAC_LC, AudioSpecificConfig
from media.codecs.bits import CodecError
from media.ticks import VIDEO_SCALE
from transcode.engine.input.demux import (
    ConfigWatch,
    PacketTimes,
    has_one_clock,
    packet_length,
    packet_times,
)
from transcode.engine.input.file_decoder import FileAudioDecoder
from transcode.engine.input.joined_clock import ClockWatch
from transcode.engine.input.stray_times import time_line

# Sound at these rates is never the lower half of an undeclared SBR stream.
PLAIN_RATES: Final = (44_100, 48_000)
_AAC_FRAME: Final = 1024
_MOST_RATE: Final = 400_000  # bit/s: more costs viewers more than it is worth
# Some timestamps are rounded to whole milliseconds; a larger error is a hole or an overlap.
_SLACK: Final = VIDEO_SCALE // 50
_LATE: Final = VIDEO_SCALE // 25  # an unnoticeable delay of the beginning
_SHORT: Final = VIDEO_SCALE // 2  # an unnoticeable gap at the end
_JUMP: Final = 20 * VIDEO_SCALE  # a time that jumps further is no reliable end


class OwnAudio(msgspec.Struct, frozen=True, kw_only=True):
    """A file's own sound, to be copied; `first` is its beginning in ticks of its own `rate`."""

    config: bytes
    rate: int
    channels: int
    codecs: str
    first: int


class AudioSurvey:
    """Reads all packets of a sound track; one that is not `alone`, but left or right, is mixed."""

    def __init__(
        self, sound: AudioStream, *, alone: bool = True, times_of: PacketTimes = packet_times
    ) -> None:
        self.times = array("q")
        """The packets' presentation times, in the file's order."""
        self.restarts = False
        """True if the file's clock begins again."""
        self._times_of = times_of
        has_parts = not has_one_clock(sound.container)
        self._clock = ClockWatch(one_clock=False) if has_parts else None
        self._end: int | None = None
        self._length = 0  # of the newest packet
        self._config = _plain_config(sound) if alone else None
        self._watch = ConfigWatch(sound)
        self._extradata = sound.codec_context.extradata or b""
        self._decoder = FileAudioDecoder(sound) if self._config is not None else None
        self._first = self._count = self._size = 0

    def add(self, packet: "Packet[Stream]") -> None:
        """Add a packet; if it leaves a hole or is damaged, the sound cannot be copied.

        Nor can it if the configuration changes.
        """
        times = self._times_of(packet)
        if times is None:
            self._config = None
            return
        pts = times[1]
        if self._clock is not None and self._clock.is_at(*times, key=False):
            self.restarts = True
        if not packet.is_discard:
            self.times.append(pts)
        if not packet.is_discard and (self._end is None or pts - self._end <= _JUMP):
            self._length = packet_length(packet)
            self._end = max(pts + self._length, pts if self._end is None else self._end)
        if self._watch.is_other(packet):
            self._config = None
        if self._config is not None:
            self._check(bytes(packet), pts)

    def end(self) -> int | None:
        """Return where the sound ends, strays left out; None if there was no packet."""
        line = time_line(self.times)
        return line.last + self._length if line is not None and line.strays else self._end

    def _check(self, data: bytes, pts: int) -> None:
        if not self._count:
            self._first = pts
        if abs(pts - self._expected_time()) > _SLACK or not self._decodes(data, pts):
            self._config = None
        self._count += 1
        self._size += len(data)

    def _decodes(self, data: bytes, pts: int) -> bool:
        try:
            if self._decoder is not None:
                self._decoder.decode(data, pts)
        except FFmpegError:
            return False
        return True

    def _expected_time(self) -> int:
        """Return where the next packet belongs."""
        rate = self._config.rate if self._config is not None else PLAIN_RATES[0]
        return self._first + self._count * _AAC_FRAME * VIDEO_SCALE // rate

    def usable(self, offset: int, start: int, last_cut: int, end: int) -> OwnAudio | None:
        """Return the sound if it can be copied for a whole asset from `start` to `end`.

        Times are on the output clock; adding `offset` to the file's times gives them.
        """
        config = self._config
        if config is None or not self._count:
            return None
        first, stop = self._first + offset, self._expected_time() + offset
        rate = self._size * 8 * VIDEO_SCALE // max(1, stop - first)
        if first - start > _LATE or end - stop > _SHORT or rate > _MOST_RATE:
            return None
        if stop <= last_cut + VIDEO_SCALE // 10 or first < 0:
            return None
        return OwnAudio(
            config=self._extradata,
            rate=config.rate,
            channels=config.channels,
            codecs=config.codecs,
            first=first * config.rate // VIDEO_SCALE,
        )


def _plain_config(sound: AudioStream) -> AudioSpecificConfig | None:
    if sound.codec_context.name != "aac":
        return None
    try:
        config = AudioSpecificConfig.parse(sound.codec_context.extradata or b"")
    except CodecError:
        return None
    plain = config.object_type == AAC_LC and not config.sbr and not config.ps and not config.program
    usual = config.rate in PLAIN_RATES and config.channels in (1, 2)
    return config if plain and usual and config.frame_length == _AAC_FRAME else None
