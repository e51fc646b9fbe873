"""Who may come in: connections per address and in total, and what wrong keys cost.

Pure: the time is an argument, seconds of a clock that never goes back.
"""

import ipaddress
from collections import deque

from ingest.rtmp.limits import Limits

__all__ = ["Doors", "site_of"]

_PERIOD = 60.0  # seconds over which wrong keys are counted


class Doors:
    """Counts connections and wrong keys by peer address."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._inside: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}
        self._wrong: dict[str, deque[float]] = {}
        self._total = 0

    def enter(self, address: str, now: float) -> str | None:
        """Let a connection in, or say why not; who was let in must `leave`."""
        address = site_of(address)
        limits = self._limits
        if self._total >= limits.connections:
            return "too many connections"
        if self._inside.get(address, 0) >= limits.connections_per_address:
            return "too many connections from one address"
        recent = _newest(self._recent, address, now - 1.0)
        if len(recent) >= limits.new_per_address_per_second:
            return "too many new connections from one address"
        if len(_newest(self._wrong, address, now - _PERIOD)) >= limits.wrong_keys_per_minute:
            return "too many wrong keys from one address"
        recent.append(now)
        self._recent[address] = recent
        self._inside[address] = self._inside.get(address, 0) + 1
        self._total += 1
        return None

    def leave(self, address: str) -> None:
        """A connection that was let in has gone."""
        address = site_of(address)
        self._total -= 1
        left = self._inside[address] - 1
        if left:
            self._inside[address] = left
        else:
            del self._inside[address]

    def wrong_key(self, address: str, now: float) -> None:
        """Count a key that opened nothing."""
        address = site_of(address)
        wrong = _newest(self._wrong, address, now - _PERIOD)
        wrong.append(now)
        self._wrong[address] = wrong

    def forget(self, now: float) -> None:
        """Drop what is too old to count: call it now and then, so that memory follows the peers."""
        for book, age in ((self._recent, 1.0), (self._wrong, _PERIOD)):
            for address in list(book):
                if not _newest(book, address, now - age):
                    del book[address]


def site_of(address: str) -> str:
    """Return whom an address stands for: itself, or its /64 network.

    An IPv6 site has 2**64 addresses of its own, and a privacy extension uses many of them.
    """
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


def _newest(book: dict[str, deque[float]], address: str, since: float) -> deque[float]:
    """Return the times in `book` after `since`, forgetting the others."""
    times = book.get(address)
    if times is None:
        return deque()
    while times and times[0] <= since:
        times.popleft()
    return times
