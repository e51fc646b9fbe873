"""Estimates when a source's packets were due, however long each was delayed on its way.

To compare two encoders of the same scene, their media are aligned by time of arrival. A packet that
a busy encoder or network held up arrives late, and its content is older than its arrival suggests.
So a packet counts as due when it would have arrived with the least delay of recent packets of its
kind: encoders may stamp sound and picture by two clocks, or send one of them later for good. Pure;
times are seconds.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

from media.packet import MediaPacket
from media.track import VideoTrack

# The length of a window; the newest two count. An encoder that is delayed for good counts as such
# after at most two windows, and its clock may be wrong by 1000 ppm in the meantime.
_WINDOW_SECONDS: Final = 20.0
# No encoder is held up for longer and still sends: its clock went back instead.
_MOST_SECONDS: Final = 30.0


class _LeastDelay:
    """The least delay between the clock of one track and the local one; inf before any packet."""

    def __init__(self) -> None:
        self._window_least = self._previous_least = self.seconds = inf
        self._window_ends = -inf

    def record(self, delay: float, now: float) -> None:
        if delay > self.seconds + _MOST_SECONDS:
            self._window_least = self._previous_least = inf
            self._window_ends = -inf
        if now >= self._window_ends:
            self._previous_least, self._window_least = self._window_least, inf
            self._window_ends = now + _WINDOW_SECONDS
        self._window_least = min(self._window_least, delay)
        self.seconds = min(self._window_least, self._previous_least)


class ArrivalClock:
    """Tracks the least delays between a source's clocks and the local one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all delays, because the source's clock restarted."""
        self._picture = _LeastDelay()
        self._sound = _LeastDelay()

    @property
    def delay(self) -> float | None:
        """By how much packets are due later than their own time says; None before any came.

        That is of the sound, by which sources are compared, or of a source's picture without sound.
        """
        seconds = self._picture.seconds if self._sound.seconds == inf else self._sound.seconds
        return None if seconds == inf else seconds

    def record(self, packets: Sequence[MediaPacket], now: float) -> list[float]:
        """Record the arrival of packets, and return when each was due."""
        dues: list[float] = []
        for packet in packets:
            least = self._picture if isinstance(packet.track, VideoTrack) else self._sound
            at = packet.dts / packet.track.scale
            least.record(now - at, now)
            dues.append(min(now, at + least.seconds))
        return dues

    def dues(self, packets: Sequence[MediaPacket], now: float) -> list[float]:
        """Return when each of the packets that have arrived by `now` was due."""
        picture, sound = self._picture.seconds, self._sound.seconds
        return [
            min(
                now,
                packet.dts / packet.track.scale
                + (picture if isinstance(packet.track, VideoTrack) else sound),
            )
            for packet in packets
        ]
