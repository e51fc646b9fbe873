"""Deletes the former files of videos once they cannot be taken back any more.

They do not go through the trash: owners rely on their removal.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from storage.errors import StorageError
from storage.objects.base import Objects

__all__ = ["FormerFileCatalog", "keep_removing_former_files", "remove_former_files"]

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 3600.0


class FormerFileCatalog(Protocol):
    """The rows of former files (see `storage.catalog.videos.former_files`)."""

    async def expire(self, now_us: int) -> str | None:
        """Forget the former file that was replaced first, if its time is over."""
        ...


async def remove_former_files(objects: Objects, former: FormerFileCatalog, now_us: int) -> int:
    """Delete the former files whose time is over, and return their number.

    What cannot be deleted now is due soon (`storage.cleanup.removals`).

    Raises:
        StorageError: the catalog or the store failed; the rest remains.
    """
    count = 0
    while (address := await former.expire(now_us)) is not None:
        await objects.delete(address)
        count += 1
    return count


async def keep_removing_former_files(
    objects: Objects,
    former: FormerFileCatalog,
    now_us: Callable[[], int],
    verify: Callable[[], Awaitable[None]],
) -> None:
    """Delete former files whose time is over now and every hour, until cancelled.

    `verify` raises `StorageError` unless media and catalog belong together; then nothing is done.
    """
    while True:
        try:
            await verify()
            count = await remove_former_files(objects, former, now_us())
        except StorageError as error:
            log.warning("former files not removed", extra={"cause": str(error)})
        else:
            if count:
                log.info("former files removed", extra={"files": count})
        await asyncio.sleep(_AGAIN_SECONDS)
