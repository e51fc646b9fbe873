"""A check of a remote service, whose result is reused for some seconds.

Monitors and load balancers request `/readyz` of every process every few seconds, several at a time.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from storage.single_flight import SingleFlight

__all__ = ["RememberedCheck"]

# Shorter than the time in which a load balancer detects a host that is gone.
_SECONDS: Final = 3.0


class RememberedCheck:
    """Runs `check`, which returns what is wrong, at most once in 3 s for all callers.

    `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        check: Callable[[], Awaitable[str | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check = check
        self._clock = clock
        self._checking = SingleFlight[str | None]()
        self._checked: float | None = None
        self._problem: str | None = None

    async def problem(self) -> str | None:
        """Return what is wrong, as of now or of the last seconds; None if nothing is."""
        if self._checked is None or self._clock() - self._checked >= _SECONDS:
            await self._checking.run("", self._check_now)
        return self._problem

    async def _check_now(self) -> str | None:
        self._problem = await self._check()
        self._checked = self._clock()
        return self._problem
