"""How many strangers' files are looked at together: who comes later waits for a turn."""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["MOST_LOOKS", "turn"]

# Each look may take 1 GiB of memory, and hostile files do; one at a good file takes 0.3 s.
MOST_LOOKS: Final = 4
_turns: WeakKeyDictionary[AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@asynccontextmanager
async def turn() -> AsyncGenerator[None, None]:
    """Be one of the `MOST_LOOKS` of this event loop for the length of the block."""
    places = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MOST_LOOKS))
    async with places:
        yield
