"""Finds orphans, objects that no row of the catalog mentions, and moves them to the trash.

An upload stores its file before it adds the video's row. So a crash in between leaves a file
without a row, but never a row without its file. (A deletion removes the row first, and records what
is to be deleted: `storage.cleanup.removals`. Until it is, it is no orphan.) Objects younger than
`AGE_US` are kept, since their rows may be about to be written. Unfinished uploads are handled by
`storage.cleanup.expired_uploads`.

A crash leaves few orphans. Where much of the store is unknown to the catalog, the catalog is more
likely an old or a wrong one: then nothing is removed until an operator confirms it.
"""

import logging
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final, Literal, TypeVar

import msgspec

from media.stream_keys import PublicHash, is_hash
from media.ticks import MICROSECONDS
from storage.catalog.maintenance.references import References, VideoReferences
from storage.cleanup.confirmation import Unconfirmed, is_unusual
from storage.objects.addresses import video, video_folder, video_sources
from storage.objects.base import ObjectError, ObjectMissing, Objects, ReadableObjects
from storage.objects.trash import discard

log = logging.getLogger(__name__)

# Even on the slowest disks only minutes pass between a file and its row.
AGE_US: Final = 3600 * MICROSECONDS
_AT_ONCE: Final = 500
_MAX_ERRORS: Final = 20  # a disk with so many fails as a whole, and takes 20 s each time
# Other folders belong to the operator or to the file system (`lost+found`).
_OWNER: Final = re.compile(r"[ps]-[0-9A-Za-z]{12}")
# The folders that transcoding creates below that of a video: media and posters by file and attempt,
# spans by job, and posters that the owner uploaded.
_TRANSCODED: Final = re.compile(
    r"(?:poster-|previews-)?[0-9]+-[0-9]+|[0-9]+-s[0-9]+-[0-9]+-[0-9]+|own-[0-9A-Za-z]{1,64}"
)
# How a playlist over spans refers to files in other folders of the video.
_OTHER_FOLDER: Final = re.compile(r"\.\./\.\./([0-9A-Za-z_.-]+)/")
_INDEX: Final = "index.m3u8"

T = TypeVar("T")


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """An object or folder that no row references; `what` describes it to people."""

    address: str
    kind: Literal["folder", "object"]
    what: str


class UnknownMedia(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of media whose videos or streams the catalog does not know.

    `unknown` is the number of these videos and streams, `total` that of all that have media.
    """

    orphans: tuple[Orphan, ...]
    unknown: int
    total: int

    @property
    def is_suspicious(self) -> bool:
        """True if they are so many that the catalog is more likely an old or a wrong one."""
        return is_unusual(self.unknown, self.total)


class TooManyUnknown(Unconfirmed):
    """So much of the store is unknown to the catalog that an operator must confirm the cleanup."""

    def __init__(self, media: UnknownMedia) -> None:
        super().__init__(
            f"the database does not know {media.unknown} of the {media.total} videos and streams"
            " that there are media of: if this is the right database, and not an old copy, `headend"
            " doctor --clean --confirm` moves these media to the trash"
        )


async def find_unknown(files: ReadableObjects, references: References, now_us: int) -> UnknownMedia:
    """Find the media of videos and streams that the catalog does not know.

    Names are listed before the catalog is queried, so new rows count. Only the ages of what is
    unknown are determined: in a bucket that takes a list of all its objects.

    Raises:
        StorageError: the catalog or the disk failed.
    """
    before_us = now_us - AGE_US
    orphans: list[Orphan] = []
    total: set[PublicHash] = set()
    unknown: set[PublicHash] = set()
    for folder, existing, what in (
        ("sources", references.videos, "file of no video"),
        ("videos", references.videos, "media of no video"),
        ("live", references.streams, "media of no stream"),
    ):
        names = sorted(name for name in await files.folder_names(folder) if is_hash(name))
        total.update(names)
        for batch in _batches(names):
            present = await existing(batch)
            unnamed = {f"{folder}/{name}": name for name in batch if name not in present}
            # Queried last: the transaction that removed the row of a media folder recorded it.
            removed = await references.find_removed(list(unnamed))
            for address in (each for each in unnamed if each not in removed):
                if not await files.has_changed(address, before_us):
                    unknown.add(unnamed[address])
                    orphans.append(Orphan(address=address, kind="folder", what=what))
    return UnknownMedia(orphans=tuple(orphans), unknown=len(unknown), total=len(total))


async def find_unused(
    files: ReadableObjects, references: References, now_us: int
) -> AsyncGenerator[Orphan]:
    """Yield the orphans of streams and videos that the catalog knows (see `find_unknown`).

    Raises:
        StorageError: the catalog or the disk failed.
    """
    before_us = now_us - AGE_US
    for find in (_unused_pictures, _unused_media):
        async for orphan in find(files, references, before_us):
            if not await references.find_removed([orphan.address]):
                yield orphan


async def _unused_pictures(
    files: ReadableObjects, references: References, before_us: int
) -> AsyncGenerator[Orphan]:
    """Yield slate pictures that are not in use."""
    owners = [name for name in await files.folder_names("slates") if _OWNER.fullmatch(name)]
    for batch in _batches(owners):
        pictures = [each for owner in batch for each in await files.addresses(f"slates/{owner}")]
        named = await references.slates(batch)
        for address in pictures:
            if address in named:
                continue
            stat = await files.stat(address)
            if stat is not None and stat.modified_us < before_us:
                yield Orphan(address=address, kind="object", what="picture of no slate")


async def _unused_media(
    files: ReadableObjects, references: References, before_us: int
) -> AsyncGenerator[Orphan]:
    """Yield files and folders that older attempts left in the folders of finished videos."""
    # A video that was only uploaded has no folder below `videos` yet.
    names = await files.folder_names("videos") | await files.folder_names("sources")
    hashes = sorted(name for name in names if is_hash(name))
    for batch in _batches(hashes):
        listed = {name: await files.folder_names(video(name)) for name in batch}
        # A recording in progress is not a video yet, so it is not among these rows.
        for row in await references.find_references(batch):
            async for orphan in _unused_sources(files, row, before_us):
                yield orphan
            if row.at_work:
                continue
            transcoded = sorted(filter(_TRANSCODED.fullmatch, listed[row.hash]))
            for name in await _unreferenced(files, row, transcoded):
                address = video_folder(row.hash, name)
                if not await files.has_changed(address, before_us):
                    yield Orphan(address=address, kind="folder", what="media of an older attempt")


async def _unused_sources(
    files: ReadableObjects, row: VideoReferences, before_us: int
) -> AsyncGenerator[Orphan]:
    """Yield uploaded files of a video that its row does not name, such as those long replaced."""
    # A recording has none, and an import that failed: what is beside these is of no row.
    if row.source is None and (row.at_work or row.state == "uploading"):
        return  # the row may be about to reference its first file
    for address in await files.addresses(video_sources(row.hash)):
        is_named = address == row.source or address in row.former
        stat = None if is_named else await files.stat(address)
        if stat is not None and stat.modified_us < before_us:
            yield Orphan(address=address, kind="object", what="file of a video that has another")


async def _unreferenced(
    files: ReadableObjects, row: VideoReferences, folders: Sequence[str]
) -> list[str]:
    """Return those of a video's folders that neither its row nor its playlists reference."""
    named = (row.media, row.posters, row.previews)
    unnamed = [name for name in folders if name not in named and name not in row.subtitles]
    if not unnamed or row.media is None:
        return unnamed
    listed = await _listed_folders(files, row.hash, row.media)
    return [] if listed is None else [name for name in unnamed if name not in listed]


async def _listed_folders(
    files: ReadableObjects, hash_: PublicHash, media: str
) -> frozenset[str] | None:
    """Return the folders that the playlists of `media` refer to; None if one cannot be read."""
    folder = video_folder(hash_, media)
    renditions = [name for name in await files.folder_names(folder) if name != "record"]
    folders: set[str] = set()
    for rendition in renditions:
        try:
            text = await files.get(f"{folder}/{rendition}/{_INDEX}")
        except ObjectMissing:
            return None
        folders.update(_OTHER_FOLDER.findall(text.decode(errors="replace")))
    return frozenset(folders) if renditions else None


def _batches(names: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]


async def remove_orphans(
    objects: Objects,
    references: References,
    now_us: int,
    *,
    store_us: int | None = None,
    confirmed: bool = False,
) -> int:
    """Move all orphans to the trash and return the number of folders and objects moved.

    `store_us` is the time by which their ages are judged (`storage.cleanup.store_clock`). An orphan
    that cannot be moved does not stop the others, up to `_MAX_ERRORS`. `confirmed` means that an
    operator knows that many are unknown.

    Raises:
        TooManyUnknown: so many are unknown that an operator must confirm; nothing was moved.
        StorageError: the catalog failed, or some orphans could not be moved.
    """
    aged_us = now_us if store_us is None else store_us
    unknown = await find_unknown(objects, references, aged_us)
    if unknown.is_suspicious and not confirmed:
        raise TooManyUnknown(unknown)
    errors: list[ObjectError] = []
    removed = await _discard(objects, _as_generator(unknown.orphans), now_us, errors)
    removed += await _discard(objects, find_unused(objects, references, aged_us), now_us, errors)
    if errors:
        raise errors[0]
    return removed


async def _as_generator(orphans: Iterable[Orphan]) -> AsyncGenerator[Orphan]:
    for orphan in orphans:
        yield orphan


async def _discard(
    objects: Objects,
    orphans: AsyncGenerator[Orphan],
    now_us: int,
    errors: list[ObjectError],
) -> int:
    """Move orphans to the trash and return how many; add what fails to `errors`."""
    removed = 0
    async with aclosing(orphans):
        async for orphan in orphans:
            if len(errors) >= _MAX_ERRORS:
                break
            try:
                await discard(objects, orphan.address, now_us)
            except ObjectError as error:
                log.warning(
                    "orphan not removed", extra={"address": orphan.address, "cause": str(error)}
                )
                errors.append(error)
            else:
                log.debug("orphan removed", extra={"address": orphan.address, "what": orphan.what})
                removed += 1
    return removed
