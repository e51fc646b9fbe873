"""Waits for the server of a database that is not available when a role starts.

After a power cut machines come back in any order. An error that an operator must solve still ends
the start: a wrong password, tables of another version.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from headend.systemd import notify
from storage.catalog import open_catalog
from storage.errors import CatalogAway, CatalogError

__all__ = ["wait_for_catalog"]

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
# How long the service manager waits for the next notification: more than an attempt may take.
_PATIENCE_SECONDS: Final = 90


async def wait_for_catalog(place: Path | str) -> None:
    """Wait until the server of a catalog's database answers, even if with an error.

    Return at once if the catalog is a file.
    """
    if isinstance(place, Path):
        return
    logged = False
    while True:
        try:
            async with open_catalog(place, migrate=False):
                break
        except CatalogAway as error:
            if not logged:
                log.warning("waiting for the database", extra={"cause": str(error)})
            logged = True
            notify(f"STATUS=waiting: {error}\nEXTEND_TIMEOUT_USEC={_PATIENCE_SECONDS * 1_000_000}")
        except CatalogError:
            return
        await asyncio.sleep(_RETRY_SECONDS)
    if logged:
        log.info("the database answers")
