"""Bounds how many uploaded files are probed at once; the others wait."""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

# Each probe may use 1 GiB of memory, and hostile files do; a good file takes 0.3 s.
MAX_PROBES: Final = 4
_places: WeakKeyDictionary[AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@asynccontextmanager
async def probe_place() -> AsyncGenerator[None, None]:
    """Wait for one of this event loop's `MAX_PROBES` places and hold it within the block."""
    places = _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_PROBES))
    async with places:
        yield
