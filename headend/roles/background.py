"""What a service does beside its main work, for as long as that lasts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

__all__ = ["while_running"]


@asynccontextmanager
async def while_running(*chores: Awaitable[None]) -> AsyncGenerator[None, None]:
    """Do chores beside the block, and stop them with it."""

    async def do(chore: Awaitable[None]) -> None:
        await chore

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(do(chore)) for chore in chores]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
