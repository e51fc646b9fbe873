"""Admission control: connections by address and in total, and what wrong keys cost.

Wrong keys do not shut an address out: the good encoders of a studio share it with one whose key is
mistyped, and a key of 122 bits cannot be guessed. They are answered late instead.

Pure: the time is an argument, seconds of a monotonic clock.
"""

from collections import deque
from typing import Annotated

import msgspec

from media.networks import client_network
from media.setting import describe

_PERIOD = 60.0  # seconds over which wrong keys are counted
# The longest that an answer is held back: less than an encoder's silence may last, and short enough
# that few connections of an address wait.
_LONGEST_DELAY = 12.0


class AdmissionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of all encoders together, and of those of one address."""

    connections: Annotated[
        int,
        describe(
            "open connections", ge=1, reason="more encoders than one machine can transcode for"
        ),
    ] = 1_000
    connections_per_address: Annotated[
        int,
        describe(
            "open connections of one address",
            ge=1,
            reason="a studio behind one address, an office's NAT",
        ),
    ] = 20
    new_per_address_per_second: Annotated[
        int,
        describe(
            "new connections of one address",
            "1/s",
            1,
            reason="a studio's encoders may all come back at once; a flood is more",
        ),
    ] = 10
    wrong_keys_per_minute: Annotated[
        int,
        describe(
            "wrong keys of one address that are answered at once; further ones at this rate",
            "1/min",
            1,
            reason="a mistyped key is tried a few times; right keys are let in beside them",
        ),
    ] = 10


class Admission:
    """Counts connections and wrong keys by the peer's network."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._open: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}
        self._wrong_until: dict[str, float] = {}
        self._total = 0

    def admit(self, address: str, now: float) -> str | None:
        """Admit a connection, or return the cause of a refusal; `release` an admitted one."""
        network = client_network(address)
        limits = self._limits
        if self._total >= limits.connections:
            return "too many connections"
        if self._open.get(network, 0) >= limits.connections_per_address:
            return "too many connections from one address"
        recent = _newest(self._recent, network, now - 1.0)
        if len(recent) >= limits.new_per_address_per_second:
            return "too many new connections from one address"
        recent.append(now)
        self._recent[network] = recent
        self._open[network] = self._open.get(network, 0) + 1
        self._total += 1
        return None

    def release(self, address: str) -> None:
        """Count the end of an admitted connection."""
        network = client_network(address)
        self._total -= 1
        remaining = self._open[network] - 1
        if remaining:
            self._open[network] = remaining
        else:
            del self._open[network]

    def count_wrong_key(self, address: str, now: float) -> float | None:
        """Count a key that matched no stream; return after how many seconds to answer it.

        The first `wrong_keys_per_minute` are answered at once, later ones at that rate. None: do
        not answer, because the delay would exceed `_LONGEST_DELAY`.
        """
        network = client_network(address)
        interval = _PERIOD / self._limits.wrong_keys_per_minute
        until = max(self._wrong_until.get(network, now), now) + interval
        delay = max(0.0, until - now - _PERIOD)
        if delay > _LONGEST_DELAY:
            return None
        self._wrong_until[network] = until
        return delay

    def expire(self, now: float) -> None:
        """Drop what is too old to count; to be called regularly, to bound the memory."""
        for network in list(self._recent):
            if not _newest(self._recent, network, now - 1.0):
                del self._recent[network]
        for network, until in list(self._wrong_until.items()):
            if until <= now:
                del self._wrong_until[network]


def _newest(book: dict[str, deque[float]], network: str, since: float) -> deque[float]:
    """Return the times in `book` after `since`, dropping the others."""
    times = book.get(network)
    if times is None:
        return deque()
    while times and times[0] <= since:
        times.popleft()
    return times
