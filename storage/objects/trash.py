"""The trash of the store: objects that a cleanup took away, kept so that they can be put back.

`trash/20261122T161357Z/videos/HASH` is what was at `videos/HASH` until the cleanup of that second
(UTC). A database that was restored from a backup has no rows of newer media, and a cleanup cannot
distinguish these from orphans; an operator can, for some days. Neither can it tell what has expired
from what a wrong clock makes look so. What owners delete is in the trash of the catalog
(`storage.catalog.trash`), and from there it is deleted: owners rely on its removal.
"""

import re
from typing import Final

from media.ticks import utc
from storage.objects.addresses import TRASH, trash, trashed
from storage.objects.base import ObjectError, Objects, ReadableObjects

_TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")


async def discard(objects: Objects, address: str, now_us: int) -> None:
    """Move an object, or all objects below a folder, to the trash; do nothing if there is none.

    Raises:
        ObjectError: the store failed; the objects are where they were.
    """
    await objects.move(address, trashed(_name(now_us), address))


async def find_trash(objects: ReadableObjects) -> list[str]:
    """Return the folders of cleanups in the trash, oldest first; other folders are left out.

    Raises:
        ObjectError: the store failed.
    """
    names = [name for name in await objects.folder_names(TRASH) if _NAME.fullmatch(name)]
    return [trash(name) for name in sorted(names)]


def is_from(folder: str, until_us: int) -> bool:
    """Return whether a folder of the trash is that of a cleanup at a time or before it."""
    return folder <= trash(_name(until_us))


async def empty_trash(objects: Objects, until_us: int) -> int:
    """Delete what was moved to the trash up to a time; return the number of deleted folders.

    What cannot be deleted does not stop the rest.

    Raises:
        ObjectError: something could not be deleted, or the store cannot be listed.
    """
    emptied = 0
    failed: ObjectError | None = None
    for folder in await find_trash(objects):
        if not is_from(folder, until_us):
            break
        try:
            await objects.delete_tree(folder)
        except ObjectError as error:
            failed = failed or error
        else:
            emptied += 1
    if failed is not None:
        raise failed
    return emptied


def _name(at_us: int) -> str:
    return utc(at_us).strftime(_TIME)
