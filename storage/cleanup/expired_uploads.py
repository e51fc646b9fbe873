"""Removes resumable uploads that have expired.

It removes their rows and the videos that they were meant for, and moves their bytes to the trash;
so it does with bytes without a row, which a process that died in between left behind. The bytes of
an upload whose video was deleted are deleted.
"""

from typing import Final

from media.ticks import MICROSECONDS
from storage.catalog.events.kinds import UploadExpiredEvent
from storage.catalog.records.common import Change
from storage.catalog.uploads.links import UploadLinks
from storage.catalog.uploads.repository import Uploads
from storage.cleanup.cleanup_pass import CleanupPass, begin_pass
from storage.cleanup.confirmation import TooMuchDue, is_unusual, require_usual
from storage.objects import addresses
from storage.objects.base import Objects
from storage.objects.trash import discard
from storage.objects.upload_pieces import remove_upload

# An upload's row and its first byte are milliseconds apart, never an hour.
AGE_US: Final = 3600 * MICROSECONDS
_AT_ONCE: Final = 200
LINKS: Final = "upload links"
UPLOADS: Final = "uploads"


async def remove_old_links(links: UploadLinks, now_us: int, *, confirmed: bool = False) -> int:
    """Remove the links that expired some time ago, and return their number.

    Raises:
        TooMuchDue: they are so many that an operator must confirm it.
        StorageError: the catalog failed.
    """
    require_usual(LINKS, await links.count_expired(now_us), confirmed=confirmed)
    return await links.remove_expired(now_us)


async def remove_expired_uploads(
    files: Objects,
    uploads: Uploads,
    now_us: int,
    *,
    store_us: int | None = None,
    confirmed: bool = False,
) -> int:
    """Remove expired uploads and bytes of no upload; return how many uploads were removed.

    `store_us` is the time by which the ages of bytes are judged (`storage.cleanup.store_clock`).

    If an object cannot be removed, its upload's row is still deleted, and the next calls try the
    object again as one of no upload. After `MAX_FAILURES` such objects the rest remains for the
    next call.

    Raises:
        TooMuchDue: so many have expired that an operator must confirm it; the rest was done.
        StorageError: the catalog failed, or the disk cannot be listed.
    """
    due = await uploads.count_expired(now_us)
    stops = is_unusual(due.count, due.total) and not confirmed
    old_us = (now_us if store_us is None else store_us) - AGE_US
    with begin_pass("upload files") as this_pass:
        await _remove_deleted(files, uploads, now_us, this_pass)
        if not stops:
            await _remove_expired(files, uploads, now_us, this_pass)
        await _discard_unknown(files, uploads, now_us, old_us, this_pass)
    if stops:
        raise TooMuchDue(UPLOADS, due)
    return this_pass.removed


async def _remove_deleted(
    files: Objects, uploads: Uploads, now_us: int, this_pass: CleanupPass
) -> None:
    """Remove uploads whose video was deleted."""
    while names := await uploads.find_expired(None, _AT_ONCE):
        for name in names:
            if await uploads.remove(name, UploadExpiredEvent, Change(now_us), expired=True):
                this_pass.removed += 1
                with this_pass.failing():
                    await remove_upload(files, name)


async def _remove_expired(
    files: Objects, uploads: Uploads, now_us: int, this_pass: CleanupPass
) -> None:
    while names := await uploads.find_expired(now_us, _AT_ONCE):
        for name in names:
            # Another process may have removed it, or a byte may have arrived meanwhile.
            if await uploads.remove(name, UploadExpiredEvent, Change(now_us), expired=True):
                this_pass.removed += 1
                with this_pass.failing():
                    await discard(files, addresses.upload(name), now_us)
                    await discard(files, addresses.upload_pieces(name), now_us)


async def _discard_unknown(
    files: Objects, uploads: Uploads, now_us: int, old_us: int, this_pass: CleanupPass
) -> None:
    """Move bytes of no open upload to the trash that have not changed since `old_us`."""
    stored = [place.rpartition("/")[2] for place in await files.addresses(addresses.UPLOADS)]
    for start in range(0, len(stored), _AT_ONCE):
        batch = stored[start : start + _AT_ONCE]
        kept = await uploads.find_kept(batch)
        for name in batch:
            if name not in kept:
                with this_pass.failing():
                    await _discard_old(files, addresses.upload(name), now_us, old_us)
    await _discard_pieces(files, uploads, now_us, old_us, this_pass)


async def _discard_pieces(
    files: Objects, uploads: Uploads, now_us: int, old_us: int, this_pass: CleanupPass
) -> None:
    unknown = set(await files.folder_names(addresses.PIECES))
    names = sorted(unknown)
    for start in range(0, len(names), _AT_ONCE):
        unknown -= set(await uploads.find_kept(names[start : start + _AT_ONCE]))
    for address in map(addresses.upload_pieces, sorted(unknown)):
        with this_pass.failing():
            if not await files.has_changed(address, old_us):
                await discard(files, address, now_us)


async def _discard_old(files: Objects, address: str, now_us: int, old_us: int) -> None:
    stat = await files.stat(address)
    if stat is not None and stat.modified_us < old_us:
        await discard(files, address, now_us)
