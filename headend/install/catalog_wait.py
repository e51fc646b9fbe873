"""The wait for a database whose server is away when a role starts.

After a power cut, machines come back in any order. An error that an operator must correct, such as
a wrong password or tables of another version, still ends the start.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from headend.systemd import notify
from storage.catalog import open_catalog
from storage.errors import CatalogAway, CatalogError

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
# Longer than an attempt takes: the service manager waits this long for the next notification.
_EXTEND_SECONDS: Final = 90


async def wait_for_catalog(location: Path | str) -> None:
    """Wait until the server of a catalog's database answers, even if with an error.

    A catalog in a file is not waited for.
    """
    if isinstance(location, Path):
        return
    logged = False
    while True:
        try:
            async with open_catalog(location, migrate=False):
                break
        except CatalogAway as error:
            if not logged:
                log.warning("waiting for the database", extra={"cause": str(error)})
            logged = True
            notify(f"STATUS=waiting: {error}\nEXTEND_TIMEOUT_USEC={_EXTEND_SECONDS * 1_000_000}")
        except CatalogError:
            return
        await asyncio.sleep(_RETRY_SECONDS)
    if logged:
        log.info("the database answers")
