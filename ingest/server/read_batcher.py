"""Batches the reads of all publishers on air: what came since the last batch is read at once.

A live encoder sends some hundred small pieces a second. Read as they come, each of them wakes the
process, and a wake-up costs more than the read. So reading from a publisher pauses after each read
until the next batch; all share the same one, and the process wakes once for all of them. The kernel
holds what arrives in between: 40 KB of a 6 Mbit/s stream.

Times are seconds. The end of a connection is noticed with the next batch too.
"""

import asyncio
from typing import Final


class ReadBatcher:
    """Pauses transports until the next batch; no timer runs while none is paused."""

    def __init__(self, seconds: float) -> None:
        """Make a batcher with an interval of `seconds`; 0 pauses nothing."""
        self._seconds: Final = seconds
        self._deferred: list[asyncio.Transport] = []

    @property
    def deferred(self) -> int:
        """The number of transports that are paused."""
        return len(self._deferred)

    def defer(self, transport: asyncio.Transport) -> None:
        """Pause reading from a transport until the next batch."""
        if not self._seconds or not transport.is_reading():
            return
        transport.pause_reading()
        if not self._deferred:
            asyncio.get_running_loop().call_later(self._seconds, self._resume_all)
        self._deferred.append(transport)

    def _resume_all(self) -> None:
        deferred, self._deferred = self._deferred, []
        for transport in deferred:
            if not transport.is_closing():
                transport.resume_reading()
