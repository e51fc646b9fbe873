"""Resets stale live states in the catalog while no process runs ingest.

An ingest process that was killed leaves its streams on air in the catalog, which the API and the
pages show. The next ingest resets them when it starts; until then an API process does.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from headend.install.locks import DataFolderError, writer_vacancy
from storage.catalog import Catalog
from storage.errors import StorageError
from storage.wall_clock import wall_clock_us

__all__ = ["keep_resetting_stale_streams"]

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 2.0
# A restart takes 1 to 3 s, and encoders reconnect at once: viewers need not notice it.
GRACE_SECONDS: Final = 8.0
# Less than a starting writer waits for the lock.
_WRITE_SECONDS: Final = 1.0


async def keep_resetting_stale_streams(
    catalog: Catalog,
    folder: Path,
    *,
    interval: float = INTERVAL_SECONDS,
    grace: float = GRACE_SECONDS,
) -> None:
    """Set all streams off air once no process wrote runs for `grace` seconds, until cancelled.

    `interval` is the time between two checks, in seconds.
    """
    clock = asyncio.get_running_loop().time
    since: float | None = None  # when the absence was noticed
    reset = False
    while True:
        await asyncio.sleep(interval)
        try:
            with writer_vacancy(folder) as vacant:
                since = (since or clock()) if vacant else None
                absent = since is not None and clock() - since >= grace
                reset = absent and (reset or await _reset_streams(catalog))
        except DataFolderError as error:  # such as no free descriptor
            log.warning("no look at the folder's writer", extra={"cause": str(error)})


async def _reset_streams(catalog: Catalog) -> bool:
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await catalog.live_state.reset(wall_clock_us())
    except (StorageError, TimeoutError) as error:
        log.warning("streams not taken off the air", extra={"cause": repr(error)})
        return False
    log.warning("no ingest: all streams are off the air")
    return True
