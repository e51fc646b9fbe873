"""Admission control: connections by address and in total, and what wrong keys cost.

Pure: the time is an argument, seconds of a monotonic clock.
"""

from collections import deque

from ingest.rtmp.limits import Limits
from media.networks import client_network

__all__ = ["Admission"]

_PERIOD = 60.0  # seconds over which wrong keys are counted


class Admission:
    """Counts connections and wrong keys by the peer's network."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}
        self._wrong: dict[str, deque[float]] = {}
        self._total = 0

    def admit(self, address: str, now: float) -> str | None:
        """Admit a connection, or return why not; an admitted one must be given to `release`."""
        network = client_network(address)
        limits = self._limits
        if self._total >= limits.connections:
            return "too many connections"
        if self._open.get(network, 0) >= limits.connections_per_address:
            return "too many connections from one address"
        recent = _newest(self._recent, network, now - 1.0)
        if len(recent) >= limits.new_per_address_per_second:
            return "too many new connections from one address"
        if len(_newest(self._wrong, network, now - _PERIOD)) >= limits.wrong_keys_per_minute:
            return "too many wrong keys from one address"
        recent.append(now)
        self._recent[network] = recent
        self._open[network] = self._open.get(network, 0) + 1
        self._total += 1
        return None

    def release(self, address: str) -> None:
        """Count the end of an admitted connection."""
        network = client_network(address)
        self._total -= 1
        rest = self._open[network] - 1
        if rest:
            self._open[network] = rest
        else:
            del self._open[network]

    def count_wrong_key(self, address: str, now: float) -> None:
        """Count a key that matched no stream."""
        network = client_network(address)
        wrong = _newest(self._wrong, network, now - _PERIOD)
        wrong.append(now)
        self._wrong[network] = wrong

    def expire(self, now: float) -> None:
        """Drop what is too old to count; to be called regularly, to bound the memory."""
        for times, age in ((self._recent, 1.0), (self._wrong, _PERIOD)):
            for network in list(times):
                if not _newest(times, network, now - age):
                    del times[network]


def _newest(book: dict[str, deque[float]], network: str, since: float) -> deque[float]:
    """Return the times in `book` after `since`, dropping the others."""
    times = book.get(network)
    if times is None:
        return deque()
    while times and times[0] <= since:
        times.popleft()
    return times
