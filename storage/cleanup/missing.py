"""Finds what rows name and a store, or a backup, does not have."""

from typing import Final, Protocol

import msgspec

from media.stream_keys import PublicHash
from storage.catalog import Catalog
from storage.catalog.maintenance.references import VideoReferences
from storage.objects import addresses
from storage.objects.base import ObjectStat

_BATCH: Final = 500


class FileList(Protocol):
    """What may have the files; a store is one. Each call may raise `ObjectError`."""

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        ...

    async def addresses(self, prefix: str) -> list[str]:
        """Return addresses of objects below a folder; none if there are none."""
        ...


class MissingFile(msgspec.Struct, frozen=True, kw_only=True):
    """An object or a folder that is missing; `what` describes it, `video` is whose it is, or ""."""

    address: str
    what: str
    video: PublicHash


async def find_missing(catalog: Catalog, files: FileList) -> list[MissingFile]:
    """Return what rows name and `files` do not have.

    Raises:
        StorageError: the catalog or the store failed.
    """
    lost: list[MissingFile] = []
    after = ""
    while rows := await catalog.references.page(after, _BATCH):
        after = rows[-1].hash
        for row in rows:
            missing = await _missing_of(files, row)
            # It may have been deleted or transcoded again between the two queries.
            if missing and await catalog.references.find_references([row.hash]) == (row,):
                lost += missing
    for address in await catalog.health.find_slates():
        if await files.stat(address) is None and address in await catalog.health.find_slates():
            lost.append(MissingFile(address=address, what="picture of a slate", video=""))
    return lost


async def _missing_of(files: FileList, row: VideoReferences) -> list[MissingFile]:
    """Return the files that a row names and `files` do not have."""
    expected: list[tuple[str, str]] = []
    if row.source:
        expected.append((row.source, "uploaded file"))
    if row.media is not None:
        expected.append((addresses.video_variants(row.hash, row.media), "playlist"))
    missing = [each for each in expected if await files.stat(each[0]) is None]
    for folder, what in ((row.posters, "posters"), (row.previews, "previews")):
        if folder is not None:
            place = addresses.video_folder(row.hash, folder)
            if not await files.addresses(place):
                missing.append((place, what))
    return [MissingFile(address=address, what=what, video=row.hash) for address, what in missing]
