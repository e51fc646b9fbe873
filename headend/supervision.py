"""Background tasks of a role that fail independently: one that fails is logged and restarted.

A fault in the cleanup of old files must not end the live streams. So only what the service cannot
do without may end the process; everything else runs here.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from storage.cancellation import uncancelled

log = logging.getLogger(__name__)

# Before the second start; twice as long before each further one.
FIRST_PAUSE_SECONDS: Final = 1.0
# A lasting cause gets a log line a minute. A task that ran for this long has recovered.
LONGEST_PAUSE_SECONDS: Final = 60.0


class BackgroundTask(msgspec.Struct, frozen=True):
    """Work that runs until it is cancelled, or returns when it is done.

    `start` begins it, and again after a fault; `name` is for the log.
    """

    name: str
    start: Callable[[], Awaitable[None]]


@asynccontextmanager
async def run_in_background(*tasks: BackgroundTask) -> AsyncGenerator[None, None]:
    """Run tasks for the length of the block (see `keep_running`)."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(keep_running(task)) for task in tasks]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


async def keep_running(task: BackgroundTask) -> None:
    """Run a task until it returns; after a fault, start it again, each time after a longer pause.

    The first of several equal faults is logged with its traceback.
    """
    clock = asyncio.get_running_loop().time
    pause, logged = FIRST_PAUSE_SECONDS, ""
    while True:
        began = clock()
        try:
            with uncancelled():
                return await task.start()
        except Exception as error:  # its fault must not end the others
            if clock() - began >= LONGEST_PAUSE_SECONDS:
                pause, logged = FIRST_PAUSE_SECONDS, ""
            cause = repr(error)
            about = {"task": task.name, "cause": cause, "again_in": pause}
            if cause != logged:
                log.exception("background task failed", extra=about)
            else:
                log.error("background task failed", extra=about)  # noqa: TRY400  # one line
            logged = cause
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
