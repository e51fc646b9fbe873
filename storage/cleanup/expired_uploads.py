"""Removes resumable uploads that have expired.

It removes their rows, the videos that they were meant for, and their bytes. Bytes without a row,
which a process that died in between left behind, are moved to the trash.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, Protocol

from media.ticks import MICROSECONDS
from storage.errors import StorageError
from storage.objects import addresses
from storage.objects.base import ObjectError, Objects
from storage.objects.trash import discard
from storage.objects.upload_pieces import remove_upload

__all__ = [
    "AGE_US",
    "MAX_FAILURES",
    "UploadCatalog",
    "UploadLinkCatalog",
    "keep_removing_expired_uploads",
    "remove_expired_uploads",
]

log = logging.getLogger(__name__)

# An upload's row and its first byte are milliseconds apart, never an hour.
AGE_US: Final = 3600 * MICROSECONDS
_AGAIN_SECONDS: Final = 600.0
_AT_ONCE: Final = 200
# A disk with so many failures fails as a whole, and takes 20 s each time.
MAX_FAILURES: Final = 20
_EXPIRED: Final = "upload expired"


class UploadCatalog(Protocol):
    """The uploads in the catalog."""

    async def find_expired(self, now_us: int, most: int) -> tuple[str, ...]:
        """Return up to `most` uploads that have expired or whose video is gone."""
        ...

    async def remove(
        self, name: str, kind: str, now_us: int, *, by: int | None, expired: bool = False
    ) -> bool:
        """Delete an upload, with its video if that has no file."""
        ...

    async def find_open(self, names: Sequence[str]) -> Collection[str]:
        """Return those of some names whose uploads are in progress."""
        ...


class UploadLinkCatalog(Protocol):
    """The upload links in the catalog."""

    async def remove_expired(self, now_us: int) -> int:
        """Delete the links that expired some time ago."""
        ...


class _TooManyFailures(StorageError):
    """So many objects could not be removed that the disk has failed as a whole."""


class _CleanupPass:
    """How many uploads one pass has removed, how many objects it could not, and why the first."""

    def __init__(self) -> None:
        self.removed = 0
        self._failures = 0
        self._first: ObjectError | None = None

    def fail(self, error: ObjectError) -> None:
        """Note that an object could not be removed.

        Raises:
            _TooManyFailures: too many could not.
        """
        self._failures += 1
        self._first = self._first or error
        if self._failures >= MAX_FAILURES:
            raise _TooManyFailures("too many objects cannot be removed") from error

    def log_failures(self) -> None:
        """Write one line about all of them."""
        if self._first is not None:
            facts = {"objects": self._failures, "cause": str(self._first)}
            log.warning("upload files not removed", extra=facts)


async def remove_expired_uploads(files: Objects, uploads: UploadCatalog, now_us: int) -> int:
    """Remove expired uploads and bytes of no upload; return how many uploads were removed.

    If an object cannot be removed, its upload's row is still deleted, and the next calls try the
    object again as one of no upload. After `MAX_FAILURES` such objects the rest remains for the
    next call.

    Raises:
        StorageError: the catalog failed, or the disk cannot be listed.
    """
    this_pass = _CleanupPass()
    try:
        with suppress(_TooManyFailures):
            await _remove(files, uploads, now_us, this_pass)
    finally:
        this_pass.log_failures()
    return this_pass.removed


async def _remove(
    files: Objects, uploads: UploadCatalog, now_us: int, this_pass: _CleanupPass
) -> None:
    while names := await uploads.find_expired(now_us, _AT_ONCE):
        for name in names:
            # Another process may have removed it, or a byte may have arrived meanwhile.
            if await uploads.remove(name, _EXPIRED, now_us, by=None, expired=True):
                this_pass.removed += 1
                try:
                    await remove_upload(files, name)
                except ObjectError as error:
                    this_pass.fail(error)
    stored = [place.rpartition("/")[2] for place in await files.addresses(addresses.UPLOADS)]
    for start in range(0, len(stored), _AT_ONCE):
        batch = stored[start : start + _AT_ONCE]
        open_names = await uploads.find_open(batch)
        for name in batch:
            if name not in open_names:
                try:
                    await _discard_old(files, addresses.upload(name), now_us)
                except ObjectError as error:
                    this_pass.fail(error)
    await _discard_pieces(files, uploads, now_us, this_pass)


async def _discard_pieces(
    files: Objects, uploads: UploadCatalog, now_us: int, this_pass: _CleanupPass
) -> None:
    """Move pieces of no open upload to the trash."""
    unknown = set(await files.folder_names(addresses.PIECES))
    names = sorted(unknown)
    for start in range(0, len(names), _AT_ONCE):
        unknown -= set(await uploads.find_open(names[start : start + _AT_ONCE]))
    for address in map(addresses.upload_pieces, sorted(unknown)):
        try:
            if not await files.has_changed(address, now_us - AGE_US):
                await discard(files, address, now_us)
        except ObjectError as error:
            this_pass.fail(error)


async def _discard_old(files: Objects, address: str, now_us: int) -> None:
    stat = await files.stat(address)
    if stat is not None and stat.modified_us < now_us - AGE_US:
        await discard(files, address, now_us)


async def keep_removing_expired_uploads(
    files: Objects,
    uploads: UploadCatalog,
    links: UploadLinkCatalog,
    now_us: Callable[[], int],
    verify: Callable[[], Awaitable[None]],
) -> None:
    """Remove expired uploads and links now and every ten minutes, until cancelled.

    `verify` raises `StorageError` unless files and catalog belong together; then nothing is done.
    """
    while True:
        try:
            await verify()
            removed = await remove_expired_uploads(files, uploads, now_us())
            await links.remove_expired(now_us())
        except StorageError as error:
            log.warning("uploads not removed", extra={"cause": str(error)})
        else:
            if removed:
                log.info("uploads expired", extra={"uploads": removed})
        await asyncio.sleep(_AGAIN_SECONDS)
