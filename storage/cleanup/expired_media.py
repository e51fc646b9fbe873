"""Removes recordings whose time is over: their rows, and their media to the trash of the store.

What cannot be moved is recorded with the removal of its row, so that `storage.cleanup.removals`
tries it again.
"""

from typing import Final, Protocol

from storage.catalog.queries.due import Due
from storage.cleanup.cleanup_pass import begin_pass
from storage.cleanup.confirmation import require_usual
from storage.objects.base import Objects
from storage.objects.trash import discard

RECORDINGS: Final = "recordings"


class ExpiringMedia(Protocol):
    """The rows of what expires (see `storage.catalog.videos.recordings`)."""

    async def count_expired(self, now_us: int) -> Due:
        """Return of how many the time is over, of those that will expire."""
        ...

    async def expire(self, now_us: int) -> str | None:
        """Delete the row that expired first, if any; return the address of its media."""
        ...


async def remove_expired_media(
    objects: Objects, rows: ExpiringMedia, now_us: int, *, what: str, confirmed: bool = False
) -> int:
    """Remove what has expired, and return its number; `what` names it to the operator.

    Media that cannot be moved stop nothing; after `MAX_FAILURES` of them the rest remains for the
    next call.

    Raises:
        TooMuchDue: so much has expired that an operator must confirm it.
        StorageError: the catalog failed; the rest remains.
    """
    require_usual(what, await rows.count_expired(now_us), confirmed=confirmed)
    with begin_pass(f"media of {what}") as this_pass:
        while (address := await rows.expire(now_us)) is not None:
            this_pass.removed += 1
            with this_pass.failing():
                await discard(objects, address, now_us)
    return this_pass.removed
