"""How much of the service one caller may take: requests in a minute, and places at once.

A token bucket, by token and by address, holds the requests of a minute and refills evenly, so
bursts are served and steady traffic is limited to the rate. Requests without a valid token are
counted by address, with a low limit: they can only guess. Each token is looked up before anything
is refused, so that others behind the same address cannot lock an owner out. A browser whose session
has ended guesses nothing and is not counted. Playback is not limited here.

Places, such as connections, are shared among clients so that none of them can hold all. A client
may hold as many as would still be free. One alone gets half of them, a second one half of the rest,
and so on: a crowd behind one address gets many places while many are free, and however many a few
clients hold, a newcomer that needs few gets them. A fixed limit per client could do only one of the
two.

Each process counts by itself: with n processes a caller gets up to n times the rate.
"""

import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import msgspec

from api.http.errors import ApiError
from media.networks import client_network, site_network

security = logging.getLogger("security")

_MINUTE: Final = 60.0  # seconds
# An entry is about 200 bytes. Clients choose their addresses, so the table must be bounded.
_MOST: Final = 10_000


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits per minute; 0 means unlimited.

    `requests` is per token, `attempts` without a valid token per address. `sign_ins` is per token:
    each writes to the database, which a token that may only read does nowhere else. The default is
    more than share a token, and as a flood costs one write in two seconds.
    """

    requests: int
    attempts: int
    sign_ins: int = 30


UNLIMITED: Final = RateLimits(requests=0, attempts=0, sign_ins=0)


def peer_address(scope: Mapping[str, Any]) -> str:  # Any: ASGI's own map
    """Return the address at the other end of the connection, or ""."""
    client = scope.get("client")
    return str(client[0]) if client else ""


class TokenBuckets:
    """Token buckets by name; an unknown bucket is full.

    At most `most` are kept; the least recently used is dropped first, and would be full again
    after a minute anyway.
    """

    def __init__(self, per_minute: int, *, most: int = _MOST) -> None:
        self._size = float(per_minute)
        self._rate = per_minute / _MINUTE
        self._most = most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until the bucket has a token; 0.0 if it has one."""
        if not self._size:
            return 0.0
        level = self._level(name, now)
        return 0.0 if level >= 1.0 else (1.0 - level) / self._rate

    def acquire(self, name: str, now: float) -> float:
        """Remove a token and return 0.0, or return the seconds until there is one."""
        wait = self.wait(name, now)
        if self._size and not wait:
            self._levels[name] = (self._level(name, now) - 1.0, now)
            self._levels.move_to_end(name)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)
        return wait

    def _level(self, name: str, now: float) -> float:
        level, then = self._levels.get(name, (self._size, now))
        return min(self._size, level + max(0.0, now - then) * self._rate)


class CallerRateLimiter:
    """Counts the requests of callers and rejects those above the limits.

    `address_of` returns the client address of a scope; `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        rates: RateLimits,
        *,
        address_of: Callable[[Any], str] = peer_address,  # of ASGI's own map
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address_of = address_of
        self._clock = clock
        self._tokens = TokenBuckets(rates.requests)
        self._addresses = TokenBuckets(rates.attempts)
        self._sign_ins = TokenBuckets(rates.sign_ins)

    def count_unauthenticated(self, address: str) -> None:
        """Count a request without a valid token.

        Raises:
            ApiError: 429, there were too many.
        """
        wait = self._addresses.acquire(client_network(address), self._clock())
        security.info("rate limited" if wait else "token refused", extra={"peer": address})
        _refuse_for(wait)

    def count(self, number: int) -> None:
        """Count a request with a valid token, whose id is `number`; links have negative numbers.

        Raises:
            ApiError: 429, there were too many.
        """
        self._count_in(self._tokens, number)

    def count_sign_in(self, number: int) -> None:
        """Count a request that signs a browser in with the valid token of that number.

        Raises:
            ApiError: 429, there were too many.
        """
        self.count(number)
        self._count_in(self._sign_ins, number)

    def _count_in(self, buckets: TokenBuckets, number: int) -> None:
        wait = buckets.acquire(str(number), self._clock())
        if wait:
            security.info("rate limited", extra={"token": number})
        _refuse_for(wait)


def _refuse_for(seconds: float) -> None:
    if seconds > 0:
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            "There were too many requests; try again later.",
            headers={"Retry-After": str(max(1, math.ceil(seconds)))},
        )


# A /48 may hold twice the free places: it is one site with many networks, or many customers.
_SITE_SHARE: Final = 2


class Refusal(Enum):
    """Why a place is refused; the value is for the log."""

    ALL = "all places are taken"
    SHARE = "one client holds its share"


class Holder(msgspec.Struct, frozen=True):
    """A client, or a group of clients, that may hold `share` times the free places.

    At most `most` places if that is fewer.
    """

    name: str
    share: int = 1
    most: int | None = None


def client_holders(address: str) -> tuple[Holder, ...]:
    """Return the holders that a client's address counts for; none if it has no address."""
    if not address:
        return ()
    site = site_network(address)
    client = Holder(client_network(address))
    return (client,) if site is None else (client, Holder(site, _SITE_SHARE))


class FairShare:
    """Counts the places that are held, in total and by holder.

    `spare` is how many held places their holders would give up for others: they count as free.
    """

    def __init__(self, total: int) -> None:
        self.spare = 0
        self._total = total
        self._total_held = 0
        self._held_by: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._total_held

    @property
    def is_exceeded(self) -> bool:
        """True if more places are held than there are, of which one must be given up at once."""
        return self._total_held > self._total

    def acquire(self, holders: tuple[Holder, ...]) -> Refusal | None:
        """Acquire a place that counts for all `holders`, or return why it is refused.

        Each place must be given to `release` with the same holders.
        """
        if self._free() <= 0:
            return Refusal.ALL
        if not self.charge(holders):
            return Refusal.SHARE
        self._total_held += 1
        return None

    def release(self, holders: tuple[Holder, ...]) -> None:
        """Release a place."""
        self._total_held -= 1
        self.discharge(holders)

    def charge(self, holders: tuple[Holder, ...]) -> bool:
        """Count a held place for `holders` too; return False if that exceeds a holder's bound.

        What was charged must be given to `discharge`.
        """
        free = self._free()
        if any(self._is_at_bound(holder, free) for holder in holders):
            return False
        for holder in holders:
            self._held_by[holder.name] += 1
        return True

    def discharge(self, holders: tuple[Holder, ...]) -> None:
        """Undo a charge."""
        for holder in holders:
            self._held_by[holder.name] -= 1
            if not self._held_by[holder.name]:
                del self._held_by[holder.name]

    def _free(self) -> int:
        return self._total - self._total_held + self.spare

    def _is_at_bound(self, holder: Holder, free: int) -> bool:
        count = self._held_by[holder.name]
        # While a place is free, every holder gets its first one.
        return count > 0 and (
            count >= holder.share * free or (holder.most is not None and count >= holder.most)
        )
