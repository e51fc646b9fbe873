"""One beat for the reads of all publishers on air: what came since the last one is read at once.

A live encoder sends some hundred small pieces a second. Read as they come, each of them wakes the
process, and waking costs more than what there is to read. So a publisher that has just been read
from rests until the beat; all rest until the same one, and the process wakes once for all of them.
The kernel holds what comes in between: 40 KB of a 6 Mbit/s stream.

Times are seconds. A connection that ends while it rests is told of it on the beat.
"""

import asyncio
from typing import Final

__all__ = ["Beat"]


class Beat:
    """Pauses the reading of transports until the next beat; none comes while nobody rests."""

    def __init__(self, seconds: float) -> None:
        """`seconds` lie between two beats; 0 lets nobody rest."""
        self._seconds: Final = seconds
        self._resting: list[asyncio.Transport] = []

    @property
    def resting(self) -> int:
        """How many rest now."""
        return len(self._resting)

    def rest(self, transport: asyncio.Transport) -> None:
        """Read no more from a transport until the beat."""
        if not self._seconds or not transport.is_reading():
            return
        transport.pause_reading()
        if not self._resting:
            asyncio.get_running_loop().call_later(self._seconds, self._come)
        self._resting.append(transport)

    def _come(self) -> None:
        resting, self._resting = self._resting, []
        for transport in resting:
            if not transport.is_closing():
                transport.resume_reading()
