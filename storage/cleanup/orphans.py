"""Finds and removes orphans: objects that no row of the catalog names.

An upload stores its file before it adds the video's row, and a deletion removes the row before the
files. So a crash in between leaves files without a row, but never a row without its files. Objects
younger than `AGE_US` are kept, since their rows may be about to be written. Unfinished uploads are
handled by `storage.cleanup.expired_uploads`.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from typing import Final, Literal, Protocol, TypeVar

import msgspec

from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS
from storage.catalog.maintenance.references import VideoReferences
from storage.errors import StorageError
from storage.objects.addresses import video_media, video_pages, video_sources
from storage.objects.base import ObjectError, ObjectMissing, ObjectStat

__all__ = [
    "AGE_US",
    "Orphan",
    "ReadableObjects",
    "ReferenceCatalog",
    "find_orphans",
    "keep_removing_orphans",
    "remove_orphans",
]

log = logging.getLogger(__name__)

# Even on the slowest disks only minutes pass between a file and its row.
AGE_US: Final = 3600 * MICROSECONDS
_AGAIN_SECONDS: Final = 6 * 3600.0
_AT_ONCE: Final = 500
_MAX_ERRORS: Final = 20  # errors: such a disk fails altogether, and takes 20 s each time
# Other folders belong to the operator or to the file system (`lost+found`).
_HASH: Final = re.compile(r"[0-9A-Za-z]{12}")
_OWNER: Final = re.compile(r"[ps]-[0-9A-Za-z]{12}")
# The folders that transcoding creates below that of a video: media and posters by file and attempt,
# spans by job, and posters that the owner uploaded.
_TRANSCODED: Final = re.compile(
    r"(?:poster-|previews-)?[0-9]+-[0-9]+|[0-9]+-s[0-9]+-[0-9]+-[0-9]+|own-[0-9A-Za-z]{1,64}"
)
# How a playlist over spans names files in other folders of the video.
_OTHER_FOLDER: Final = re.compile(r"\.\./\.\./([0-9A-Za-z_.-]+)/")
_INDEX: Final = "index.m3u8"

T = TypeVar("T")


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """An object or folder that no row names; `what` describes it to people."""

    address: str
    kind: Literal["folder", "object"]
    what: str


class ReadableObjects(Protocol):
    """Read access to the objects."""

    async def folders(self, prefix: str) -> dict[str, int]:
        """Return the names of the folders below `prefix` with their last change."""
        ...

    async def addresses(self, prefix: str) -> list[str]:
        """Return the addresses of all objects below `prefix`."""
        ...

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        ...

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""
        ...


class RemovableObjects(ReadableObjects, Protocol):
    """Read and delete access to the objects."""

    async def delete(self, address: str) -> None:
        """Delete an object, if it exists."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`."""
        ...


class ReferenceCatalog(Protocol):
    """The references from rows to objects (see `storage.catalog.maintenance.references`)."""

    async def videos(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes that belong to videos or recordings."""
        ...

    async def streams(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes that belong to streams, or to runs still being recorded."""
        ...

    async def slates(self, owners: Sequence[str]) -> Collection[str]:
        """Return the addresses of the slate pictures of some owners."""
        ...

    async def standing(self, hashes: Sequence[PublicHash]) -> Sequence[VideoReferences]:
        """Return the references of some videos."""
        ...


async def find_orphans(
    files: ReadableObjects, known: ReferenceCatalog, now_us: int
) -> AsyncGenerator[Orphan]:
    """Yield all orphans. Objects are listed before the catalog is queried, so new rows count.

    Raises:
        StorageError: the catalog or the disk failed.
    """
    before_us = now_us - AGE_US
    for folder, existing, what in (
        ("sources", known.videos, "file of no video"),
        ("videos", known.videos, "media of no video"),
        ("live", known.streams, "media of no stream"),
    ):
        for batch in _batches(_old(await files.folders(folder), before_us, _HASH)):
            there = await existing(batch)
            for name in batch:
                if name not in there:
                    yield Orphan(address=f"{folder}/{name}", kind="folder", what=what)
    async for each in _pictures(files, known, before_us):
        yield each
    async for each in _of_videos(files, known, before_us):
        yield each


async def _pictures(
    files: ReadableObjects, known: ReferenceCatalog, before_us: int
) -> AsyncGenerator[Orphan]:
    """Yield slate pictures that are not in use."""
    owners = [name for name in await files.folders("slates") if _OWNER.fullmatch(name)]
    for batch in _batches(owners):
        found = [each for owner in batch for each in await files.addresses(f"slates/{owner}")]
        named = await known.slates(batch)
        for address in found:
            if address in named:
                continue
            stat = await files.stat(address)
            if stat is not None and stat.modified_us < before_us:
                yield Orphan(address=address, kind="object", what="picture of no slate")


async def _of_videos(
    files: ReadableObjects, known: ReferenceCatalog, before_us: int
) -> AsyncGenerator[Orphan]:
    """Yield files and folders that older attempts left in the folders of finished videos."""
    # A video that was only uploaded has no folder below `videos` yet.
    found = {*await files.folders("videos"), *await files.folders("sources")}
    hashes = sorted(name for name in found if _HASH.fullmatch(name))
    for batch in _batches(hashes):
        listed = {name: await files.folders(f"videos/{name}") for name in batch}
        # A recording in progress is not a video yet, so it is not among these rows.
        for row in await known.standing(batch):
            async for each in _files(files, row, before_us):
                yield each
            if row.at_work:
                continue
            for name in await _unnamed(files, row, _old(listed[row.hash], before_us, _TRANSCODED)):
                address = video_media(row.hash, name)
                yield Orphan(address=address, kind="folder", what="media of an older attempt")
            if row.media is not None and row.media in listed[row.hash]:
                below = await files.folders(video_media(row.hash, row.media))
                if below.get("record", before_us) < before_us:
                    address = video_pages(row.hash, row.media)
                    yield Orphan(address=address, kind="folder", what="pages of a recording")


async def _files(
    files: ReadableObjects, row: VideoReferences, before_us: int
) -> AsyncGenerator[Orphan]:
    """Yield uploaded files of a video that were replaced, or whose video failed without one."""
    if row.source is None and (row.at_work or row.state != "failed"):
        return  # the row may be about to name its first file
    for address in await files.addresses(video_sources(row.hash)):
        stat = None if address == row.source else await files.stat(address)
        if stat is not None and stat.modified_us < before_us:
            yield Orphan(address=address, kind="object", what="file of a video that has another")


async def _unnamed(files: ReadableObjects, row: VideoReferences, old: Sequence[str]) -> list[str]:
    """Return those of a video's folders that neither its row nor its playlists name."""
    named = (row.media, row.posters, row.previews)
    left = [name for name in old if name not in named and name not in row.subtitles]
    if not left or row.media is None:
        return left
    playing = await _playing(files, row.hash, row.media)
    return [] if playing is None else [name for name in left if name not in playing]


async def _playing(files: ReadableObjects, hash_: PublicHash, media: str) -> frozenset[str] | None:
    """Return the folders that the playlists of `media` name; None if one cannot be read."""
    folder = video_media(hash_, media)
    renditions = [name for name in await files.folders(folder) if name != "record"]
    found: set[str] = set()
    for rendition in renditions:
        try:
            text = await files.get(f"{folder}/{rendition}/{_INDEX}")
        except ObjectMissing:
            return None
        found.update(_OTHER_FOLDER.findall(text.decode(errors="replace")))
    return frozenset(found) if renditions else None


def _old(found: dict[str, int], before_us: int, form: re.Pattern[str]) -> list[str]:
    return [name for name, at_us in found.items() if at_us < before_us and form.fullmatch(name)]


def _batches(names: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]


async def remove_orphans(objects: RemovableObjects, known: ReferenceCatalog, now_us: int) -> int:
    """Remove all orphans and return how many folders and objects were removed.

    An orphan that cannot be removed does not stop the others, up to `_MAX_ERRORS`.

    Raises:
        StorageError: the catalog failed, or some orphans could not be removed.
    """
    removed = 0
    errors: list[ObjectError] = []
    async with aclosing(find_orphans(objects, known, now_us)) as found:
        async for each in found:
            try:
                await _remove(objects, each)
            except ObjectError as error:
                log.warning("leftover stays", extra={"address": each.address, "cause": str(error)})
                errors.append(error)
                if len(errors) >= _MAX_ERRORS:
                    break
            else:
                log.debug("leftover removed", extra={"address": each.address, "what": each.what})
                removed += 1
    if errors:
        raise errors[0]
    return removed


async def _remove(objects: RemovableObjects, orphan: Orphan) -> None:
    if orphan.kind == "folder":
        await objects.delete_tree(orphan.address)
    else:
        await objects.delete(orphan.address)


async def keep_removing_orphans(
    objects: RemovableObjects, known: ReferenceCatalog, now_us: Callable[[], int]
) -> None:
    """Remove orphans now and every six hours, until cancelled."""
    while True:
        try:
            removed = await remove_orphans(objects, known, now_us())
        except StorageError as error:
            log.warning("leftovers not removed", extra={"cause": str(error)})
        else:
            if removed:
                log.info("leftovers removed", extra={"leftovers": removed})
        await asyncio.sleep(_AGAIN_SECONDS)
