"""Polling, for conditions that raise no event: a file, a row, another process."""

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

# Scales all deadlines on slow machines.
SCALE: Final = float(os.environ.get("HEADEND_TEST_SCALE", "1"))

T = TypeVar("T")


async def until(condition: Callable[[], bool | Awaitable[bool]], *, within: float = 10) -> None:
    """Poll until the condition is true.

    The interval grows, since each poll takes processor time from the awaited process.

    Raises:
        TimeoutError: it is false for `within` seconds, scaled on slow machines.
    """
    began = time.monotonic()
    async with asyncio.timeout(within * SCALE):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(min(0.01 + (time.monotonic() - began) / 20, 0.1))


def poll(condition: Callable[[], T | None], *, within: float = 20, what: str = "") -> T:
    """Poll until the result is true, and return it; without an event loop.

    The interval grows as in `until`.
    """
    began = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - began
        assert waited < within * SCALE, f"not within {within} s: {what}"
        time.sleep(min(0.02 + waited / 20, 0.2))
