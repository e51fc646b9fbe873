"""When the media of a source was due, whatever held its packets up on their way.

Two encoders of the same scene are set side by side by when their media came. A packet that a busy
encoder or network held up came late, and what it shows is older than that. So media counts as due
when the quickest packet of late would have come in its place. Pure; times are seconds.
"""

from math import inf
from typing import Final

from media.packet import MediaPacket

__all__ = ["Pace"]

# As long as a window lasts, of which the newest two count: an encoder that is later for good is
# taken as it is after at most twice as long, and its clock may run wrong by 1000 ppm meanwhile.
_WINDOW_SECONDS: Final = 20.0
# Nobody is held up for longer and sends it all the same: then its clock went back.
_MOST_SECONDS: Final = 30.0


class Pace:
    """The least delay between a source's clock and ours, of its newest packets."""

    def __init__(self) -> None:
        self.again()

    def again(self) -> None:
        """Its clock starts anew."""
        self._least = self._before = inf
        self._turns = -inf

    def came(self, packet: MediaPacket, now: float) -> None:
        """Take note of when a packet came."""
        delay = now - packet.dts / packet.track.scale
        if delay > self._delay + _MOST_SECONDS:
            self.again()
        if now >= self._turns:
            self._before, self._least = self._least, inf
            self._turns = now + _WINDOW_SECONDS
        self._least = min(self._least, delay)

    def due(self, packet: MediaPacket, now: float) -> float:
        """Return when a packet was due that has come by now."""
        return min(now, packet.dts / packet.track.scale + self._delay)

    @property
    def _delay(self) -> float:
        return min(self._least, self._before)
