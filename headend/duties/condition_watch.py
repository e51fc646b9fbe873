"""Tells the catalog what is wrong with this machine, so that operators get mail of it.

Each process looks after its own: the disk of its data folder, and the certificates that it serves
with. The catalog knows the conditions of all by the names of their hosts
(`storage.catalog.alerts.conditions`).
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from headend.config.settings import ServiceSettings
from headend.install.certificate_check import check_certificates
from headend.install.findings import size_text
from media.alerts import AlertKind
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.errors import StorageError
from storage.wall_clock import wall_clock_us

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 60.0
# A host that does not look any more for this long is gone, and its conditions with it.
_LAPSE_US: Final = 3600 * MICROSECONDS
# A disk with a twentieth left is nearly full; of a large one, with what a busy day takes.
_SHARE: Final = 20
_MOST_SPARE: Final = 50 << 30
# Below `storage.min_free_bytes` new media are refused: this is said well before.
_TIMES_LEAST: Final = 2


def disk_problem(total: int, free: int, least: int) -> str | None:
    """Return why a disk is nearly full, in a sentence; None if it is not.

    With less than `least` bytes free, new media are refused.
    """
    enough = max(_TIMES_LEAST * least, min(total // _SHARE, _MOST_SPARE))
    if free >= enough:
        return None
    if free < least:
        return f"{size_text(free)} are free: new media are refused."
    return f"{size_text(free)} are free; new media are refused below {size_text(least)}."


async def watch_conditions(
    settings: ServiceSettings,
    catalog: Catalog,
    folder: Path,
    *,
    host: str | None = None,
    now_us: Callable[[], int] = wall_clock_us,
) -> None:
    """Look once, and record what is wrong, or is not any more.

    `folder` is the data folder, `now_us` the clock by which certificates end.

    Raises:
        StorageError: the catalog does not answer.
        OSError: the disk does not answer.
    """
    name = host or socket.gethostname()
    usage = await asyncio.to_thread(shutil.disk_usage, folder)
    problem = disk_problem(usage.total, usage.free, settings.storage.min_free_bytes)
    await _record(catalog, AlertKind.DISK, f"{name} {folder}", problem, name)
    check = partial(check_certificates, settings, folder / "tls", now_us())
    for finding in await asyncio.to_thread(check):
        wrong = f"{finding.topic}: {finding.text}." if finding.verdict == "act" else None
        await _record(catalog, AlertKind.CERTIFICATE, f"{name} {finding.topic}", wrong, name)


async def _record(
    catalog: Catalog, kind: AlertKind, key: str, problem: str | None, host: str
) -> None:
    if problem is None:
        await catalog.conditions.end(kind, key)
        return
    now_us = catalog.clock.now_us()
    text = f"On {host}: {problem}"
    await catalog.conditions.begin(kind, key, text, now_us, lapses_us=now_us + _LAPSE_US)


async def keep_watching_conditions(
    settings: ServiceSettings, catalog: Catalog, folder: Path
) -> None:
    """Look every minute, until cancelled."""
    failed = False
    while True:
        try:
            await watch_conditions(settings, catalog, folder)
            failed = False
        except (StorageError, OSError) as error:
            if not failed:  # logged once per outage
                log.warning("machine not looked after", extra={"cause": str(error)})
            failed = True
        await asyncio.sleep(_INTERVAL_SECONDS)
