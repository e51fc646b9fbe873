"""Deletes the objects whose removal a transaction recorded (`storage.catalog.queries.removals`).

The rows are the only memory: whatever process goes on after another was killed, or once the store
is there again, finds in them what is left to delete, and several may do the same. What owners have
deleted does not go through the trash: they rely on its removal. What has expired by a clock does.

A folder is deleted once more later, since a worker or a run that was just ending may have added to
it. What comes even later is an orphan.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from media.ticks import MICROSECONDS
from storage.catalog.queries.removals import Removal, Removals
from storage.errors import StorageError
from storage.objects.at_once import do_each
from storage.objects.base import ObjectError, Objects
from storage.objects.trash import discard

log = logging.getLogger(__name__)

# A worker that has lost its job notices it within a lease (a minute by default), and ends.
LAST_US: Final = 900 * MICROSECONDS
_INTERVAL_SECONDS: Final = 10.0
# What failed is tried again after as long as it has waited so far, and at most after an hour.
_LEAST_WAIT_US: Final = 60 * MICROSECONDS
_LONGEST_WAIT_US: Final = 3600 * MICROSECONDS
_AT_ONCE: Final = 4
# Rows that are read, and changed, in one go. A store that is away costs 20 s for four of them.
_BATCH: Final = 40

# Makes processes forget what they hold of a folder in memory.
DropFolder = Callable[[str], Awaitable[None]]


class RemovalPass:
    """The deletion of some objects; `done` are deleted, `failed` are not, and why.

    `error` is one of those. `now_us` dates what goes to the trash.
    """

    def __init__(self, objects: Objects, drop_folder: DropFolder, now_us: int) -> None:
        self._objects = objects
        self._drop_folder = drop_folder
        self._now_us = now_us
        self.done: list[Removal] = []
        self.failed: list[tuple[Removal, str]] = []
        self.error: ObjectError | None = None

    async def remove(self, removal: Removal) -> None:
        """Delete an object or a folder, or move it to the trash."""
        try:
            if removal.to_trash:
                await discard(self._objects, removal.address, self._now_us)
            elif removal.is_folder:
                await self._objects.delete_tree(removal.address)
                await self._drop_folder(removal.address)
            else:
                await self._objects.delete(removal.address)
        except ObjectError as error:
            self.failed.append((removal, error.reason))
            self.error = error
        else:
            self.done.append(removal)


async def remove_due(
    objects: Objects, drop_folder: DropFolder, removals: Removals, now_us: int
) -> int:
    """Delete what is due, and return the number of objects and folders whose rows are gone.

    What cannot be deleted becomes due again; the first pass with a failure is the last.

    Raises:
        StorageError: the catalog failed, or some objects could not be deleted; the rest remains.
    """
    count = 0
    while due := await removals.find_due(now_us, _BATCH):
        this_pass = RemovalPass(objects, drop_folder, now_us)
        await do_each(due, this_pass.remove, at_once=_AT_ONCE)
        gone: list[str] = []
        for each in this_pass.done:
            last_us = each.recorded_us + LAST_US
            if each.is_folder and now_us < last_us:
                await removals.postpone([each.address], last_us)
            else:
                gone.append(each.address)
        await removals.forget(gone)
        count += len(gone)
        for each, cause in this_pass.failed:
            waited_us = max(now_us - each.recorded_us, _LEAST_WAIT_US)
            due_us = now_us + min(waited_us, _LONGEST_WAIT_US)
            await removals.postpone([each.address], due_us, cause=cause)
        if this_pass.error is not None:
            raise this_pass.error
    return count


async def keep_removing(
    objects: Objects,
    drop_folder: DropFolder,
    removals: Removals,
    now_us: Callable[[], int],
    verify: Callable[[], Awaitable[None]],
) -> None:
    """Delete what is due every ten seconds, until cancelled.

    `verify` raises `StorageError` unless objects and catalog belong together; then nothing is done.
    """
    while True:
        try:
            if await removals.find_due(now_us(), 1):
                await verify()
                await remove_due(objects, drop_folder, removals, now_us())
        except StorageError as error:
            log.warning("media not removed", extra={"cause": str(error)})
        await asyncio.sleep(_INTERVAL_SECONDS)
