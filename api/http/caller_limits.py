"""How many requests one caller may send in a minute.

A token bucket, by token and by address, holds the requests of a minute and refills evenly, so
bursts are served and steady traffic is limited to the rate. Requests without a valid token are
counted by address, with a low limit: they can only guess. Each token is looked up before anything
is refused, so that others behind the same address cannot lock an owner out. A browser whose session
has ended guesses nothing and is not counted. Playback is not limited here.

Each process counts by itself: with n processes a caller gets up to n times the rate.
"""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from api.http.errors import ApiError
from media.networks import client_network

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
