"""Resumable uploads that nobody goes on with: taken away when their time is over.

Their rows go, the videos that they were to be, and their bytes; and bytes of which no row tells,
which a process left that died between the two.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from media.ticks import MICROSECONDS
from storage.errors import StorageError
from storage.objects import addresses
from storage.objects.base import ObjectStat

__all__ = ["AGE_US", "Files", "Known", "Links", "keep_finishing", "remove_unfinished"]

log = logging.getLogger(__name__)

# Between an upload's row and its first byte lie milliseconds, never an hour.
AGE_US: Final = 3600 * MICROSECONDS
_AGAIN_SECONDS: Final = 600.0
_AT_ONCE: Final = 200
_EXPIRED: Final = "upload expired"


class Files(Protocol):
    """The objects, one by one."""

    async def addresses(self, prefix: str) -> list[str]:
        """Return the addresses of all objects below `prefix`."""
        ...

    async def stat(self, address: str) -> ObjectStat | None:
        """Return what is known of an object, or None where there is none."""
        ...

    async def delete(self, address: str) -> None:
        """Remove an object; one that is not there is gone already."""
        ...


class Known(Protocol):
    """Knows the uploads that there are."""

    async def spent(self, now_us: int, most: int) -> tuple[str, ...]:
        """Return the names of up to `most` uploads whose time is over, or whose video is gone."""
        ...

    async def remove(
        self, name: str, kind: str, now_us: int, *, by: int | None, expired: bool = False
    ) -> bool:
        """Take an upload away, with its video where that has no file."""
        ...

    async def known(self, names: Sequence[str]) -> Collection[str]:
        """Return those of some names whose uploads are under way."""
        ...


class Links(Protocol):
    """Knows the upload links that there are."""

    async def forget(self, now_us: int) -> int:
        """Remove those whose time has been over for a while."""
        ...


async def remove_unfinished(files: Files, uploads: Known, now_us: int) -> int:
    """Remove uploads whose time is over, and bytes of none; returns how many uploads that were.

    Raises:
        StorageError: the catalog or the disk did not answer; what is left is left.
    """
    removed = 0
    while names := await uploads.spent(now_us, _AT_ONCE):
        for name in names:
            # Another process may be at it, or a byte came at last.
            if await uploads.remove(name, _EXPIRED, now_us, by=None, expired=True):
                await files.delete(addresses.upload(name))
                removed += 1
    found = [place.rpartition("/")[2] for place in await files.addresses(addresses.UPLOADS)]
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        known = await uploads.known(some)
        for name in some:
            if name not in known:
                await _remove_old(files, addresses.upload(name), now_us)
    return removed


async def _remove_old(files: Files, address: str, now_us: int) -> None:
    stat = await files.stat(address)
    if stat is not None and stat.modified_us < now_us - AGE_US:
        await files.delete(address)


async def keep_finishing(
    files: Files, uploads: Known, links: Links, now_us: Callable[[], int]
) -> None:
    """Remove what nobody goes on with, now and every ten minutes, until cancelled."""
    while True:
        try:
            removed = await remove_unfinished(files, uploads, now_us())
            await links.forget(now_us())
        except StorageError as error:
            log.warning("uploads not removed", extra={"cause": str(error)})
        else:
            if removed:
                log.info("uploads expired", extra={"uploads": removed})
        await asyncio.sleep(_AGAIN_SECONDS)
