"""Moves the former files of videos to the trash once they cannot be taken back any more."""

from typing import Final, Protocol

from storage.catalog.queries.due import Due
from storage.cleanup.confirmation import require_usual
from storage.objects.base import Objects
from storage.objects.trash import discard

__all__ = ["FORMER_FILES", "FormerFileCatalog", "remove_former_files"]

FORMER_FILES: Final = "former files"


class FormerFileCatalog(Protocol):
    """The rows of former files (see `storage.catalog.videos.former_files`)."""

    async def count_expired(self, now_us: int) -> Due:
        """Return of how many former files the time is over."""
        ...

    async def expire(self, now_us: int) -> str | None:
        """Forget the former file that was replaced first, if its time is over."""
        ...


async def remove_former_files(
    objects: Objects, former: FormerFileCatalog, now_us: int, *, confirmed: bool = False
) -> int:
    """Remove the former files whose time is over, and return their number.

    What cannot be moved is left to the cleanup of orphans, since no row names it any more.

    Raises:
        TooMuchDue: they are so many that an operator must confirm it.
        StorageError: the catalog or the store failed; the rest remains.
    """
    require_usual(FORMER_FILES, await former.count_expired(now_us), confirmed=confirmed)
    count = 0
    while (address := await former.expire(now_us)) is not None:
        await discard(objects, address, now_us)
        count += 1
    return count
