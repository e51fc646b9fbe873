"""Limits the handshakes that run at once on the socket that accepts relaying hosts.

An unauthenticated peer holds a descriptor until its handshake's deadline. So each network may have
few handshakes at once, and networks without an authenticated host together at most `AT_ONCE`: they
cannot keep out a host that has authenticated before. It also decides which refusals are logged, so
that strangers cannot fill the disk. Pure: times are seconds of a monotonic clock.
"""

from collections import Counter
from typing import Final

from media.networks import client_network

# More hosts than one installation has, all started at once.
AT_ONCE: Final = 256
# Hosts behind one address; each has one handshake at a time.
OF_ONE_NETWORK: Final = 16
_REFUSAL_SECONDS: Final = 60.0


class Handshakes:
    """The handshakes under way, by the networks of their addresses."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._host_networks: dict[str, None] = {}  # networks of hosts, the newest last
        self._refusals: dict[str, float] = {}  # when they were logged, by network

    def __len__(self) -> int:
        return self._running.total()

    def begin(self, address: str) -> bool:
        """Begin a handshake with an address; return False if it must not begin."""
        network = client_network(address)
        if self._running[network] >= OF_ONE_NETWORK:
            return False
        if network not in self._host_networks and self._of_unknown >= AT_ONCE:
            return False
        self._running[network] += 1
        return True

    def end(self, address: str, *, authenticated: bool) -> None:
        """End a handshake that has begun."""
        network = client_network(address)
        self._running -= Counter([network])
        if authenticated:
            self._host_networks.pop(network, None)
            self._host_networks[network] = None
            if len(self._host_networks) > AT_ONCE:
                del self._host_networks[next(iter(self._host_networks))]

    def should_log_refusal(self, address: str, now: float) -> bool:
        """Return whether to log that a host was refused, which then retries.

        Each network is logged once a minute, and at most `AT_ONCE` networks.
        """
        network = client_network(address)
        self._refusals = {
            each: logged
            for each, logged in self._refusals.items()
            if now - logged < _REFUSAL_SECONDS
        }
        if network in self._refusals or len(self._refusals) >= AT_ONCE:
            return False
        self._refusals[network] = now
        return True

    @property
    def _of_unknown(self) -> int:
        return sum(
            count for each, count in self._running.items() if each not in self._host_networks
        )
