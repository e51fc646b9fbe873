"""Shares one call among concurrent callers that need the same result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """The calls under way, by key. Results are not kept: later callers make a new call."""

    def __init__(self) -> None:
        self._calls: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call under way, or make one; waiting callers get its error, too.

        If the caller that makes the call is cancelled, a waiting caller makes another.
        """
        while (under_way := self._calls.get(key)) is not None:
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
        future = self._calls[key] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(await call())
        except Exception as error:
            future.set_exception(error)
            future.exception()  # counts as retrieved: there may be no other caller
            raise
        finally:
            del self._calls[key]
            future.cancel()  # has no effect if it is done
        return future.result()
