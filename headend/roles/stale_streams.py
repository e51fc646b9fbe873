"""Keeps the states of streams true on paper while no process takes encoders in.

An ingest that was killed leaves its streams on the air in the catalog, where callers of the API and
pages look. The next ingest takes them off when it starts; until then, or where none starts, an API
process does.
"""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from headend.install.locks import FolderError, vacancy
from storage.catalog import Catalog
from storage.errors import StorageError

__all__ = ["keep_states_true"]

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
# A restart takes 1 to 3 s, and its encoders are back with it: nobody need hear of it.
PATIENCE_SECONDS: Final = 8.0
# Below the time for which a writer that starts waits for its place.
_WRITE_SECONDS: Final = 1.0


async def keep_states_true(
    catalog: Catalog,
    folder: Path,
    *,
    look: float = LOOK_SECONDS,
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Take all streams off the air when nobody wrote runs for `patience` seconds, until cancelled.

    `look` is the time between two looks, in seconds.
    """
    clock = asyncio.get_running_loop().time
    since: float | None = None  # when the absence was noticed
    told = False
    while True:
        await asyncio.sleep(look)
        try:
            with vacancy(folder) as vacant:
                since = (since or clock()) if vacant else None
                absent = since is not None and clock() - since >= patience
                told = absent and (told or await _off_the_air(catalog))
        except FolderError as error:  # as when no descriptor is left: the next look may be able to
            log.warning("no look at the folder's writer", extra={"cause": str(error)})


async def _off_the_air(catalog: Catalog) -> bool:
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await catalog.live_state.reset(time.time_ns() // 1000)
    except (StorageError, TimeoutError) as error:
        log.warning("streams not taken off the air", extra={"cause": repr(error)})
        return False
    log.warning("no ingest: all streams are off the air")
    return True
