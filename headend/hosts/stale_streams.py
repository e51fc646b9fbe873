"""Resets stale live states in the catalog, which a killed ingest process left on air.

The API and the pages show these states. With SQLite the next ingest resets them when it starts;
until then an API process does, if the lock of the data folder shows that no ingest runs. Several
hosts that share a catalog may have no folder in common: there each ingest and each API process
resets the streams of dead hosts.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from headend.install.locks import DataFolderError, writer_vacancy
from storage.catalog import Catalog
from storage.errors import StorageError

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 2.0
# A restart takes 1 to 3 s, and encoders reconnect at once: viewers need not notice it.
GRACE_SECONDS: Final = 8.0
# Less than a starting writer waits for the lock.
_WRITE_SECONDS: Final = 1.0
_READ_SECONDS: Final = 5.0


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
            log.warning("folder's writer not checked", extra={"cause": str(error)})


async def _reset_streams(catalog: Catalog) -> bool:
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await catalog.live_state.reset(catalog.clock.now_us())
    except (StorageError, TimeoutError) as error:
        log.warning("streams not taken off the air", extra={"cause": repr(error)})
        return False
    log.warning("no ingest: all streams are off the air")
    return True


async def keep_resetting_unowned_streams(
    catalog: Catalog,
    dead_seconds: float,
    *,
    interval: float = INTERVAL_SECONDS,
    grace: float = GRACE_SECONDS,
) -> None:
    """Set streams off air whose owner has been dead for `grace` seconds, until cancelled.

    `interval` is the time between two reads of the hosts, in seconds. Streams are checked once
    after the start, and when a host is gone.
    """
    clock = asyncio.get_running_loop().time
    living_before: frozenset[int] = frozenset()
    due: float | None = clock() + grace
    read_failed = False
    while True:
        await asyncio.sleep(interval)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                hosts = await catalog.hosts.find_all(dead_seconds)
        except (StorageError, TimeoutError) as error:
            if not read_failed:  # logged once per outage
                log.warning("hosts not read", extra={"cause": repr(error)})
            read_failed, due = True, clock() + grace  # hosts could not renew their rows, either
            continue
        read_failed = False
        living = frozenset(host.id for host in hosts if host.alive)
        if living_before - living:
            due = clock() + grace
        living_before = living
        if due is not None and clock() >= due and await _reset_unowned(catalog, dead_seconds):
            due = None


async def _reset_unowned(catalog: Catalog, dead_seconds: float) -> bool:
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            count = await catalog.live_state.reset_unowned(
                catalog.clock.now_us(), dead_seconds=dead_seconds
            )
    except (StorageError, TimeoutError) as error:
        log.warning("streams not taken off the air", extra={"cause": repr(error)})
        return False
    if count:
        log.warning("hosts gone: their streams are off the air", extra={"streams": count})
    return True
