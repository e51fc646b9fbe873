"""Deletes for good what has been in the trash for its days (`storage.trash_days`)."""

from typing import Final

from media.ticks import DAY_US
from storage.catalog.queries.due import Due
from storage.cleanup.confirmation import require_usual
from storage.objects.base import Objects, ReadableObjects
from storage.objects.trash import empty_trash, find_trash, is_from

TRASH_FOLDERS: Final = "folders of the trash"


async def count_due(objects: ReadableObjects, now_us: int, *, days: int) -> Due:
    """Return how many folders of the trash have been there for `days`, of all.

    Raises:
        ObjectError: the store cannot be listed.
    """
    folders = await find_trash(objects)
    until_us = now_us - days * DAY_US
    return Due(sum(is_from(folder, until_us) for folder in folders), len(folders))


async def empty_old_trash(
    objects: Objects, now_us: int, *, days: int, confirmed: bool = False
) -> int:
    """Delete what was moved to the trash `days` ago or earlier; return the number of folders.

    With 0 days all of it, whatever the clock says.

    Raises:
        TooMuchDue: it is so much that an operator must confirm it.
        ObjectError: something could not be deleted, or the store cannot be listed.
    """
    due = await count_due(objects, now_us, days=days)
    require_usual(TRASH_FOLDERS, due, confirmed=confirmed or not days)
    return await empty_trash(objects, now_us - days * DAY_US)
