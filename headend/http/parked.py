"""The connections whose request waits for a `PendingResponse`, and how long each may wait.

A parked request has no task and no timer of its own: one timer serves all of them, so that
thousands of viewers can wait for the next part of a stream (RFC 8216bis, section 6.2.5.2).
"""

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

# The origin answers a blocking request after three target durations, 12 s, at the latest.
PARKED_SECONDS: Final = 15.0
# Connections that were parked within this time of each other may end at the same moment.
_GRAIN_SECONDS: Final = 1.0


class ParkedConnection(Protocol):
    """A connection with a parked request."""

    def give_up(self) -> None:
        """Send an error in place of the answer that did not come; never raises."""
        ...


class ParkedConnections:
    """The parked connections of a server, oldest first; each is ended after some seconds."""

    def __init__(self, seconds: float = PARKED_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[ParkedConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def add(self, connection: ParkedConnection, loop: asyncio.AbstractEventLoop) -> None:
        """Add a connection that is not parked."""
        self._since[connection] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._end_oldest, loop)

    def remove(self, connection: ParkedConnection) -> None:
        """Remove a connection, if it is parked."""
        self._since.pop(connection, None)

    def _end_oldest(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        begun = loop.time() - self._seconds
        late = [connection for connection, since in self._since.items() if since <= begun]
        if late:
            log.warning("parked requests not answered", extra={"requests": len(late)})
        for connection in late:
            self.remove(connection)
            connection.give_up()
        if self._since:
            oldest = next(iter(self._since.values()))
            pause = max(oldest - begun, _GRAIN_SECONDS)
            self._timer = loop.call_later(pause, self._end_oldest, loop)
