"""A limit of concurrent operations, in total and per caller.

An operation that takes long and holds a file, a child process and memory needs a limit in total;
a lower limit per caller keeps one caller from using all of it.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from api.http.errors import ApiError

__all__ = ["ConcurrencyLimit"]

_RETRY_SECONDS: Final = 10


class ConcurrencyLimit:
    """Allows `total` operations at once, `per_caller` of them for one caller."""

    def __init__(self, *, total: int, per_caller: int) -> None:
        self._most = total
        self._each = per_caller
        self._inside: Counter[int] = Counter()

    def __len__(self) -> int:
        return self._inside.total()

    @contextmanager
    def acquire(self, caller: int) -> Generator[None]:
        """Hold one slot for the length of the block.

        Raises:
            ApiError: 429 if the caller has reached its limit, 503 if all slots are in use.
        """
        if self._inside[caller] >= self._each:
            status, whose = HTTPStatus.TOO_MANY_REQUESTS, "this token"
        elif len(self) >= self._most:
            status, whose = HTTPStatus.SERVICE_UNAVAILABLE, "the service"
        else:
            self._inside[caller] += 1
            try:
                yield
            finally:
                self._inside[caller] -= 1
                if not self._inside[caller]:
                    del self._inside[caller]
            return
        raise ApiError(
            status,
            f"Too many files are coming in through {whose} at once; try again in a moment.",
            headers={"Retry-After": str(_RETRY_SECONDS)},
        )
