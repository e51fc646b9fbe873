"""A limit of concurrent operations, in total and per caller.

An operation that takes long and holds a file, a child process and memory needs a limit in total. A
caller, and each group of callers, gets a fair share of it (see `api.http.caller_limits`).
"""

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from api.http.errors import ApiError
from media.fair_share import FairShare, Holder, Refusal

_RETRY_SECONDS: Final = 10
_REFUSALS: Final = {
    Refusal.SHARE: (HTTPStatus.TOO_MANY_REQUESTS, "this token, link or project"),
    Refusal.ALL: (HTTPStatus.SERVICE_UNAVAILABLE, "the service"),
}


class ConcurrencyLimit:
    """Allows `total` operations at once; refusals name them with `what`, after "Too many"."""

    def __init__(self, total: int, what: str = "files are coming in") -> None:
        self._share = FairShare(total)
        self._what = what

    def __len__(self) -> int:
        return len(self._share)

    @contextmanager
    def acquire(self, holders: tuple[Holder, ...]) -> Generator[None]:
        """Hold one place for the length of the block.

        Raises:
            ApiError: 429 if a holder has its share, 503 if all places are taken.
        """
        refusal = self._share.acquire(holders)
        if refusal is not None:
            status, whose = _REFUSALS[refusal]
            raise ApiError(
                status,
                f"Too many {self._what} through {whose} at once; try again in a moment.",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )
        try:
            yield
        finally:
            self._share.release(holders)
