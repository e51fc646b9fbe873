"""How tests wait for what raises no event: a file, a row, another process."""

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

__all__ = ["SCALE", "poll", "until"]

# Slow machines scale every deadline at once.
SCALE: Final = float(os.environ.get("HEADEND_TEST_SCALE", "1"))

T = TypeVar("T")


async def until(question: Callable[[], bool | Awaitable[bool]], *, within: float = 10) -> None:
    """Ask until the answer is yes.

    The longer it takes, the more seldom it asks: each question takes processor time from what is
    waited for.

    Raises:
        TimeoutError: it is not within so many seconds, scaled on slow machines.
    """
    began = time.monotonic()
    async with asyncio.timeout(within * SCALE):
        while True:
            answer = question()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(min(0.01 + (time.monotonic() - began) / 20, 0.1))


def poll(question: Callable[[], T | None], *, within: float = 20, what: str = "") -> T:
    """Ask until there is an answer, and return it; without an event loop.

    Like `until`, it asks more and more seldom.
    """
    began = time.monotonic()
    while True:
        answer = question()
        if answer:
            return answer
        waited = time.monotonic() - began
        assert waited < within * SCALE, f"not within {within} s: {what}"
        time.sleep(min(0.02 + waited / 20, 0.2))
