"""Whether a process can do its work: the database, the store of the media, the room on its disk.

What `/readyz` answers, and what decides whether jobs are leased, is found by the same check.
"""

import asyncio
import logging
import time
from functools import partial
from pathlib import Path
from typing import Final

from storage.catalog import Catalog
from storage.catalog.projects.installation import PAUSE_NOTED_SECONDS
from storage.errors import StorageError
from storage.objects.base import ObjectError, StoreClaimed, StoreFull
from storage.objects.disk_check import room_problem
from storage.objects.disk_threads import VIEWERS
from storage.objects.store import MediaStore
from storage.workers.store_health import StoreHealth

log = logging.getLogger(__name__)

# A disk or a bucket that does not answer for this long makes the service not ready.
_SECONDS: Final = 5.0
# How often a pause is looked for.
_LOOK_SECONDS: Final = 2.0


def create_store_health(
    catalog: Catalog, objects: MediaStore, min_free_bytes: int = 0
) -> StoreHealth:
    """Return the health of a process's store; `min_free_bytes` of its disk stay free."""
    # Uploads may fill the threads of files for longer than a load balancer waits.
    store = objects.using(VIEWERS)

    async def check(*, thorough: bool) -> None:
        await catalog.clock.synchronize()
        await store.check(min_free_bytes=min_free_bytes, thorough=thorough)

    return StoreHealth(check)


async def find_problems(
    catalog: Catalog,
    health: StoreHealth,
    folder: Path,
    *,
    store: str,
    min_free_bytes: int,
) -> list[str]:
    """Return sentences about what a process cannot do.

    `folder` is the data folder, `store` what holds the media: a disk or a bucket.
    """
    causes: list[str] = []
    try:
        await catalog.ping()
    except StorageError as error:
        causes.append(str(error))
    try:
        async with asyncio.timeout(_SECONDS):
            room = await VIEWERS.run(partial(room_problem, folder, min_free_bytes))
    except (OSError, TimeoutError):
        room = "the disk of the data folder does not answer"
    if room is not None:
        causes.append(room)
    try:
        async with asyncio.timeout(_SECONDS):
            problem = await health.problem()
    except TimeoutError:
        causes.append(f"{store} does not answer")
    else:
        if problem is not None and not _is_said(problem, room):
            causes.append(str(problem))
    return causes


def _is_said(problem: ObjectError, room: str | None) -> bool:
    """Return whether a problem of the store need not be said; `room` is that of the data folder.

    Files are received in the data folder, and media are most often on the same disk. Whose the
    media are is no fault of the store: viewers are served, and the lease itself says it.
    """
    return isinstance(problem, StoreClaimed) or (
        room is not None and isinstance(problem, StoreFull)
    )


async def keep_noting_pauses(
    catalog: Catalog, health: StoreHealth, look_seconds: float = _LOOK_SECONDS
) -> None:
    """Record in the catalog, for `headend doctor`, while this process's workers pause."""
    noted, noted_at = None, time.monotonic()
    while True:
        await asyncio.sleep(look_seconds)
        pause, now = health.pause, time.monotonic()
        is_old = now - noted_at >= PAUSE_NOTED_SECONDS / 2
        if pause == noted and (pause is None or not is_old):
            continue
        try:
            await catalog.installation.note_pause(pause)
        except StorageError as error:
            log.info("pause not recorded", extra={"cause": str(error)})
        else:
            noted, noted_at = pause, now
