"""Files of videos that there are not: found beside the catalog, and removed.

An upload puts its file at its address before it writes the video down, and a video that is deleted
is taken from the catalog before its files go: so a crash between the two leaves files of no video,
never a video without its file. What is younger than `AGE_US` stays: it may be about to be written
down.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from media.keys import PublicHash
from storage.errors import StorageError

__all__ = ["AGE_US", "Folders", "Known", "keep_clean", "remove_leftovers"]

log = logging.getLogger(__name__)

# Minutes lie between a file and its row on the slowest of disks, never an hour.
AGE_US: Final = 3600 * 1_000_000
_AGAIN_SECONDS: Final = 6 * 3600.0
_ROOMS: Final = ("sources", "videos")
_AT_ONCE: Final = 500


class Folders(Protocol):
    """The objects, as folders."""

    async def folders(self, prefix: str) -> dict[str, int]:
        """Return the names of the folders below an address, and when each was changed last."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """Remove all objects below an address."""
        ...


class Known(Protocol):
    """Knows the videos that there are."""

    async def known(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes that videos have."""
        ...


async def remove_leftovers(objects: Folders, videos: Known, now_us: int) -> int:
    """Remove the files of videos that there are not; returns how many folders that were.

    Raises:
        StorageError: the catalog or the disk did not answer; what is left is left.
    """
    removed = 0
    for room in _ROOMS:
        found = await objects.folders(room)
        old = [name for name, changed_us in found.items() if changed_us < now_us - AGE_US]
        for start in range(0, len(old), _AT_ONCE):
            some = old[start : start + _AT_ONCE]
            known = await videos.known(some)
            for name in some:
                if name not in known:
                    await objects.delete_tree(f"{room}/{name}")
                    removed += 1
    return removed


async def keep_clean(objects: Folders, videos: Known, now_us: Callable[[], int]) -> None:
    """Remove leftovers now and every few hours, until cancelled."""
    while True:
        try:
            removed = await remove_leftovers(objects, videos, now_us())
        except StorageError as error:
            log.warning("leftovers not removed", extra={"cause": str(error)})
        else:
            if removed:
                log.info("leftovers removed", extra={"folders": removed})
        await asyncio.sleep(_AGAIN_SECONDS)
