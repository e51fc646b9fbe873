"""Deletes copies for a CDN of what not everyone may see any more (`storage.objects.cdn_copies`).

Every ten seconds the catalog is asked which folders of copies to withdraw, and those that were
withdrawn are deleted. The rows are the only memory: whatever process goes on after another was
killed finds there what is left to delete, and several may do the same. A row goes last, after so
long that no process can still add a copy to its folder.

Once a day the folders themselves are listed, for those without a row: a database that was restored
from a backup does not know newer ones.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from media.ticks import MICROSECONDS
from storage.catalog.maintenance.cdn_folders import CdnFolder, CdnFolders
from storage.errors import StorageError
from storage.objects.addresses import CDN, cdn_folder, cdn_folders, is_address
from storage.objects.at_once import do_each
from storage.objects.base import Objects

log = logging.getLogger(__name__)

# Copies stay for as long as caches keep redirects to them (`api.origin.redirects`), or viewers in
# the countries that a film is restricted to would be sent to what is gone.
GRACE_SECONDS: Final = 60
# A process whose catalog fails goes by its last answer for five minutes, and a copy takes seconds.
FORGET_US: Final = 900 * MICROSECONDS
_INTERVAL_SECONDS: Final = 10.0
_UNKNOWN_EVERY: Final = 86_400.0  # seconds
_AT_ONCE: Final = 500
_MOST_DUE: Final = 10_000  # folders; more wait until the oldest are gone
_FOLDERS_AT_ONCE: Final = 4


class CopyWithdrawal:
    """Deletes the copies of one installation; what it has deleted it deletes once more at the end.

    `all_folders`: no folder is in use any more.
    """

    def __init__(self, objects: Objects, folders: CdnFolders, *, all_folders: bool = False) -> None:
        self._objects = objects
        self._folders = folders
        self._all_folders = all_folders
        self._deleted: set[str] = set()  # tokens

    async def run(self, now_us: int) -> int:
        """Withdraw folders, and delete those whose time has come; return how many were withdrawn.

        Raises:
            StorageError: the catalog failed, or a folder could not be deleted; the rest remains.
        """
        withdrawn = await self._folders.withdraw(now_us, all_folders=self._all_folders)
        grace_us = GRACE_SECONDS * MICROSECONDS
        due = await self._folders.find_withdrawn(now_us - grace_us, _MOST_DUE)
        # What was deleted before may have got copies since, but gets none after this long.
        old = await self._folders.find_withdrawn(now_us - FORGET_US, _MOST_DUE)
        forgettable = {each.token for each in old}
        self._deleted.intersection_update([each.token for each in due])
        await do_each(
            [each for each in due if each.token in forgettable or each.token not in self._deleted],
            self._delete,
            at_once=_FOLDERS_AT_ONCE,
        )
        for start in range(0, len(old), _AT_ONCE):
            await self._folders.forget(old[start : start + _AT_ONCE])
        return withdrawn

    async def _delete(self, folder: CdnFolder) -> None:
        await self._objects.delete_tree(cdn_folder(folder.hash, folder.token))
        self._deleted.add(folder.token)


async def delete_unknown_copies(objects: Objects, folders: CdnFolders) -> int:
    """Delete the folders that no row names, and return how many.

    They are listed before the catalog is asked: a folder gets its row before its first copy.

    Raises:
        StorageError: the catalog or the store failed.
    """
    listed = {
        token: cdn_folder(hash_, token)
        for hash_ in await objects.folder_names(CDN)
        for token in await objects.folder_names(cdn_folders(hash_))
    }
    tokens = sorted(listed)
    deleted = 0
    for start in range(0, len(tokens), _AT_ONCE):
        batch = tokens[start : start + _AT_ONCE]
        known = await folders.find_known(batch)
        for token in batch:
            if token not in known and is_address(listed[token]):
                await objects.delete_tree(listed[token])
                deleted += 1
    return deleted


async def keep_deleting_withdrawn_copies(
    objects: Objects,
    folders: CdnFolders,
    now_us: Callable[[], int],
    verify: Callable[[], Awaitable[None]],
    *,
    is_in_use: bool,
) -> None:
    """Delete withdrawn copies every ten seconds, until cancelled.

    Without `is_in_use` no viewer is sent to a CDN any more: all folders are withdrawn, and this
    returns once all are gone. `verify` raises `StorageError` unless objects and catalog belong
    together; then no unknown copy is deleted.
    """
    clock = asyncio.get_running_loop().time
    withdrawal = CopyWithdrawal(objects, folders, all_folders=not is_in_use)
    swept: float | None = None
    while is_in_use or await folders.count():
        try:
            count = await withdrawal.run(now_us())
            if count:
                log.info("copies for the CDN withdrawn", extra={"folders": count})
            if is_in_use and (swept is None or clock() - swept >= _UNKNOWN_EVERY):
                await verify()
                await delete_unknown_copies(objects, folders)
                swept = clock()
        except StorageError as error:
            log.warning("copies for the CDN not deleted", extra={"cause": str(error)})
        await asyncio.sleep(_INTERVAL_SECONDS)
