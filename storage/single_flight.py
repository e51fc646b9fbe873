"""Shares one call among concurrent callers that need the same result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["SingleFlight"]

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """The calls under way, by key. No result is kept: after a call has ended, it is made anew."""

    def __init__(self) -> None:
        self._calls: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call under way, or make one; all its callers get its error.

        If the caller that makes it is cancelled, one of the others makes another.
        """
        while (under_way := self._calls.get(key)) is not None:
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
        made = self._calls[key] = asyncio.get_running_loop().create_future()
        try:
            made.set_result(await call())
        except Exception as error:
            made.set_exception(error)
            made.exception()  # counts as retrieved: there may be no other caller
            raise
        finally:
            del self._calls[key]
            made.cancel()  # has no effect on one that is done
        return made.result()
