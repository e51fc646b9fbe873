"""The first packets of an epoch, held back until they show the source's frame rate.

Pure. The part target of an epoch depends on its frame rate, and must be known before its first
part. Not every source declares a rate, and some declare a wrong one, so it is measured: over 0.3 s
of decode times, and two pictures at least. The packets are then handled at once, before a first
part could have been complete, so viewers do not wait for this. A preroll counts, too.
"""

from fractions import Fraction
from itertools import pairwise
from statistics import median
from typing import Final

from media.ticks import VIDEO_SCALE, rescale
from transcode.engine.output.part_lengths import FrameInterval
from transcode.protocol.messages import Begin, Packet

_MEASURED: Final = VIDEO_SCALE * 3 // 10
# Without a second picture the sound decides when to stop waiting: the slowest rate whose parts can
# have whole frames is one a second.
_MOST_SOUND: Final = VIDEO_SCALE * 3 // 2
# For times that do not rise: twice what 60 pictures and 50 packets of sound a second are.
_MOST_PACKETS: Final = 220
# An interval that is further from the median than this is a hole or a fault of the clock.
_TOLERANCE: Final = Fraction(1, 4)
# A declared rate counts if it is so near: its own rounding to ticks, and ours to milliseconds.
_DECLARED_TOLERANCE: Final = Fraction(3, 100)


class FirstPackets:
    """Holds the `packets` of the source that `begin` announced, in the order of their arrival."""

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self.packets: list[Packet] = []
        self._scales = tuple(
            track.scale if track is not None else 1 for track in (begin.audio, begin.video)
        )
        self._times: tuple[list[int], list[int]] = ([], [])  # of sound, of pictures

    def add(self, packet: Packet) -> None:
        """Hold a packet."""
        self.packets.append(packet)
        self._times[packet.video].append(packet.dts)

    @property
    def suffice(self) -> bool:
        """True if no more need be held; without a picture none need."""
        if self.begin.video is None or self.begin.ladder is None:
            return True
        return len(self.packets) >= self.begin.preroll and (
            self._span(pictures=True) >= _MEASURED
            or self._span(pictures=False) >= _MOST_SOUND
            or len(self.packets) >= _MOST_PACKETS
        )

    @property
    def is_reordered(self) -> bool:
        """True if a picture is decoded earlier than it is shown."""
        return any(packet.video and packet.pts != packet.dts for packet in self.packets)

    def frame_interval(self, declared_rate: Fraction | None) -> FrameInterval | None:
        """Return the interval between frames; None if it is neither declared nor measured."""
        declared = VIDEO_SCALE / declared_rate if declared_rate is not None else None
        times = self._times[True]
        steps = [after - before for before, after in pairwise(times) if after > before]
        if not steps:
            return FrameInterval(declared) if declared is not None else None
        middle = median(steps)
        usual = [step for step in steps if abs(step - middle) <= _TOLERANCE * middle] or [
            round(middle)
        ]
        tick = Fraction(VIDEO_SCALE, self._scales[True])
        measured = FrameInterval(tick * sum(usual) / len(usual), tick / len(usual))
        if declared is None:
            return measured
        near = abs(declared - measured.ticks) <= max(
            measured.error, _DECLARED_TOLERANCE * measured.ticks
        )
        return FrameInterval(declared) if near else measured

    def _span(self, *, pictures: bool) -> int:
        times = self._times[pictures]
        span = max(times) - times[0] if len(times) > 1 else 0
        return rescale(span, self._scales[pictures], VIDEO_SCALE)
