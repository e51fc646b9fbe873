"""Which connections may begin a handshake at the address that hosts relay to.

Before a handshake anybody may be at the other end, and each takes a descriptor and a deadline's
time. So one network has few of them at once, and strangers together have no more than `AT_ONCE`:
the place of a host that has authenticated before cannot be taken by them. Pure.
"""

from collections import Counter
from typing import Final

from media.networks import client_network

__all__ = ["AT_ONCE", "OF_ONE_NETWORK", "Handshakes"]

# More hosts than one installation has, which start together.
AT_ONCE: Final = 256
# Hosts behind one address; each has one handshake at a time.
OF_ONE_NETWORK: Final = 16


class Handshakes:
    """The handshakes under way, by the networks of their addresses."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._known: dict[str, None] = {}  # networks of hosts, the newest last

    def __len__(self) -> int:
        return self._running.total()

    def begin(self, address: str) -> bool:
        """Begin a handshake with an address; return False if it must not begin."""
        network = client_network(address)
        if self._running[network] >= OF_ONE_NETWORK:
            return False
        if network not in self._known and self._strangers >= AT_ONCE:
            return False
        self._running[network] += 1
        return True

    def end(self, address: str, *, authenticated: bool) -> None:
        """End a handshake that has begun."""
        network = client_network(address)
        self._running -= Counter([network])
        if authenticated:
            self._known.pop(network, None)
            self._known[network] = None
            if len(self._known) > AT_ONCE:
                del self._known[next(iter(self._known))]

    @property
    def _strangers(self) -> int:
        return sum(count for each, count in self._running.items() if each not in self._known)
