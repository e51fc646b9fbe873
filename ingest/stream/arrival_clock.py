"""Estimates when a source's packets were due, however long each was delayed on its way.

To compare two encoders of the same scene, their media are aligned by time of arrival. A packet that
a busy encoder or network held up arrives late, and its content is older than its arrival suggests.
So a packet counts as due when it would have arrived with the least delay of recent packets. Pure;
times are seconds.
"""

from math import inf
from typing import Final

from media.packet import MediaPacket

__all__ = ["ArrivalClock"]

# The length of a window; the newest two count. An encoder that is delayed for good counts as such
# after at most two windows, and its clock may be wrong by 1000 ppm in the meantime.
_WINDOW_SECONDS: Final = 20.0
# No encoder is held up for longer and still sends: its clock went back instead.
_MOST_SECONDS: Final = 30.0


class ArrivalClock:
    """Tracks the least delay between a source's clock and the local one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all delays, because the source's clock restarted."""
        self._window_least = self._previous_least = inf
        self._window_ends = -inf

    def record(self, packet: MediaPacket, now: float) -> None:
        """Record a packet's arrival."""
        delay = now - packet.dts / packet.track.scale
        if delay > self._least_delay + _MOST_SECONDS:
            self.reset()
        if now >= self._window_ends:
            self._previous_least, self._window_least = self._window_least, inf
            self._window_ends = now + _WINDOW_SECONDS
        self._window_least = min(self._window_least, delay)

    def due_at(self, packet: MediaPacket, now: float) -> float:
        """Return when a packet that has arrived by `now` was due."""
        return min(now, packet.dts / packet.track.scale + self._least_delay)

    @property
    def _least_delay(self) -> float:
        return min(self._window_least, self._previous_least)
