"""Limits the number of HTTP connections: in total, and of each client.

Web-sockets are counted too. A connection from a trusted proxy counts in total; while it serves a
request it is charged to the client that the proxy forwards it for, so that the viewers of a CDN are
not one client. Between two requests it counts as free: proxies keep many that they may not need
again, and when a newcomer needs the place, the one that has been idle for longest is closed.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from api.http.client_address import TrustedProxies, parse_address
from media.fair_share import FairShare, Holder, Refusal, client_holders

log = logging.getLogger(__name__)

# A connection takes 4 KB, 10 KB during a request, so these take 200 MB at most; each viewer has
# one or two.
CONNECTIONS: Final = 20_000
_LOG_SECONDS: Final = 60.0  # between two lines about refusals, however many there are


class IdleConnection(Protocol):
    """A connection that waits for its next request."""

    def give_way(self) -> None:
        """Release its place and close it."""
        ...


class ConnectionLimiter:
    """Counts the connections of a server; `clock` is monotonic, in seconds."""

    def __init__(
        self,
        total: int = CONNECTIONS,
        proxies: TrustedProxies | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = FairShare(total)
        self._proxies = proxies or TrustedProxies()
        self._clock = clock
        self._idle: dict[IdleConnection, None] = {}  # of proxies, in the order of their last answer
        self._refused = 0
        self._logged = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._share)

    def is_proxy(self, peer: str | None) -> bool:
        """Return True if the peer of a connection is a trusted proxy."""
        return peer is not None and self._proxies.is_proxy(parse_address(peer))

    def accept(self, peer: str | None) -> tuple[Holder, ...] | None:
        """Accept a connection, or return None; what is returned must be given to `release`."""
        holders = () if peer is None or self.is_proxy(peer) else client_holders(peer)
        refusal = self._share.acquire(holders)
        if refusal is not None:
            self._log(peer or "", refusal)
            return None
        if self._share.is_exceeded:
            next(iter(self._idle)).give_way()
        return holders

    def release(self, holders: tuple[Holder, ...]) -> None:
        """Count the end of a connection."""
        self._share.release(holders)

    def add_idle(self, connection: IdleConnection) -> None:
        """Count a proxy's connection as one that can be closed for a newcomer."""
        self._idle[connection] = None
        self._share.spare = len(self._idle)

    def remove_idle(self, connection: IdleConnection) -> None:
        """Count a connection as one that is in use again, or is gone."""
        self._idle.pop(connection, None)
        self._share.spare = len(self._idle)

    def charge(
        self, peer: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[Holder, ...] | None:
        """Charge a proxy's connection to the client of its request, or return None.

        What is returned must be given to `discharge` when the request is answered.
        """
        client = self._proxies.client_of(peer, headers)
        holders = () if client is None else client_holders(str(client))
        if not self._share.charge(holders):
            self._log(str(client), Refusal.SHARE)
            return None
        return holders

    def discharge(self, holders: tuple[Holder, ...]) -> None:
        """Undo a charge."""
        self._share.discharge(holders)

    def _log(self, peer: str, refusal: Refusal) -> None:
        self._refused += 1
        now = self._clock()
        if now - self._logged >= _LOG_SECONDS:
            fields = {"peer": peer, "cause": refusal.value, "refused": self._refused}
            log.warning("connections refused", extra={**fields, "open": len(self)})
            self._refused, self._logged = 0, now
