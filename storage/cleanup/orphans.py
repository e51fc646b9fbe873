"""Objects that nothing names: found beside the catalog, and removed.

An upload puts its file at its address before it writes the video down, and what is deleted is taken
from the catalog before its files go: so a crash between the two leaves files that no row names,
never a row without its files. What is younger than `AGE_US` stays: it may be about to be written
down. Uploads under way are `storage.cleanup.expired_uploads`'s.
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
from storage.catalog.maintenance.references import Standing
from storage.errors import StorageError
from storage.objects.addresses import video_media, video_pages, video_sources
from storage.objects.base import ObjectError, ObjectMissing, ObjectStat

__all__ = ["AGE_US", "Files", "Known", "Leftover", "find", "keep_clean", "remove_leftovers"]

log = logging.getLogger(__name__)

# Minutes lie between a file and its row on the slowest of disks, never an hour.
AGE_US: Final = 3600 * MICROSECONDS
_AGAIN_SECONDS: Final = 6 * 3600.0
_AT_ONCE: Final = 500
_MOST_KEPT: Final = 20  # a disk that fails as often fails altogether, and takes 20 s each time
# Folders of other names are not ours: an operator's, or a file system's own (`lost+found`).
_HASH: Final = re.compile(r"[0-9A-Za-z]{12}")
_OWNER: Final = re.compile(r"[ps]-[0-9A-Za-z]{12}")
# What making a video leaves below its folder: media and posters by file and attempt, stretches by
# job, and pictures that its owner chose.
_MADE: Final = re.compile(
    r"(?:poster-|previews-)?[0-9]+-[0-9]+|[0-9]+-s[0-9]+-[0-9]+-[0-9]+|own-[0-9A-Za-z]{1,64}"
)
# How a playlist of stretches names what stands in another folder of the video.
_ELSEWHERE: Final = re.compile(r"\.\./\.\./([0-9A-Za-z_.-]+)/")
_INDEX: Final = "index.m3u8"

T = TypeVar("T")


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """Something that nothing names; `what` says what it was, for people."""

    address: str
    kind: Literal["folder", "object"]
    what: str


class Files(Protocol):
    """The objects, as they are looked at."""

    async def folders(self, prefix: str) -> dict[str, int]:
        """Return the names of the folders below an address, and when each was changed last."""
        ...

    async def addresses(self, prefix: str) -> list[str]:
        """Return the addresses of all objects below `prefix`."""
        ...

    async def stat(self, address: str) -> ObjectStat | None:
        """Return what is known of an object, or None where there is none."""
        ...

    async def get(self, address: str) -> bytes:
        """Return an object; `ObjectMissing` where there is none."""
        ...


class Removing(Files, Protocol):
    """The objects, as they are taken away."""

    async def delete(self, address: str) -> None:
        """Remove an object; one that is not there is gone already."""
        ...

    async def delete_tree(self, prefix: str) -> None:
        """Remove all objects below an address."""
        ...


class Known(Protocol):
    """Knows what rows name (`catalog.references`)."""

    async def videos(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes that videos have, or are to have."""
        ...

    async def streams(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes whose streams there are, or are still being recorded."""
        ...

    async def slates(self, owners: Sequence[str]) -> Collection[str]:
        """Return the addresses of the pictures of some owners."""
        ...

    async def standing(self, hashes: Sequence[PublicHash]) -> Sequence[Standing]:
        """Return what the rows of some videos name."""
        ...


async def find(files: Files, known: Known, now_us: int) -> AsyncGenerator[Leftover]:
    """Yield what nothing names; what is listed is listed first, the catalog asked after that.

    Raises:
        StorageError: the catalog or the disk did not answer.
    """
    before_us = now_us - AGE_US
    for room, of, what in (
        ("sources", known.videos, "file of no video"),
        ("videos", known.videos, "media of no video"),
        ("live", known.streams, "media of no stream"),
    ):
        for some in _lots(_old(await files.folders(room), before_us, _HASH)):
            there = await of(some)
            for name in some:
                if name not in there:
                    yield Leftover(address=f"{room}/{name}", kind="folder", what=what)
    async for each in _pictures(files, known, before_us):
        yield each
    async for each in _of_videos(files, known, before_us):
        yield each


async def _pictures(files: Files, known: Known, before_us: int) -> AsyncGenerator[Leftover]:
    """Yield pictures that stand in for no stream."""
    owners = [name for name in await files.folders("slates") if _OWNER.fullmatch(name)]
    for some in _lots(owners):
        found = [each for owner in some for each in await files.addresses(f"slates/{owner}")]
        named = await known.slates(some)
        for address in found:
            if address in named:
                continue
            stat = await files.stat(address)
            if stat is not None and stat.modified_us < before_us:
                yield Leftover(address=address, kind="object", what="picture of no slate")


async def _of_videos(files: Files, known: Known, before_us: int) -> AsyncGenerator[Leftover]:
    """Yield what attempts left below the folders of videos at which nobody works."""
    # Of one that has a file, or had, nothing may have been made yet.
    found = {*await files.folders("videos"), *await files.folders("sources")}
    hashes = sorted(name for name in found if _HASH.fullmatch(name))
    for some in _lots(hashes):
        listed = {name: await files.folders(f"videos/{name}") for name in some}
        # A recording under way is none of these, as it is no video yet.
        for row in await known.standing(some):
            async for each in _files(files, row, before_us):
                yield each
            if row.at_work:
                continue
            for name in await _unnamed(files, row, _old(listed[row.hash], before_us, _MADE)):
                address = video_media(row.hash, name)
                yield Leftover(address=address, kind="folder", what="media of an older attempt")
            if row.media is not None and row.media in listed[row.hash]:
                below = await files.folders(video_media(row.hash, row.media))
                if below.get("record", before_us) < before_us:
                    address = video_pages(row.hash, row.media)
                    yield Leftover(address=address, kind="folder", what="pages of a recording")


async def _files(files: Files, row: Standing, before_us: int) -> AsyncGenerator[Leftover]:
    """Yield files that a video was made of before it got another, or was to be made of."""
    if row.source is None and (row.at_work or row.state != "failed"):
        return  # its first one may be about to be written down
    for address in await files.addresses(video_sources(row.hash)):
        stat = None if address == row.source else await files.stat(address)
        if stat is not None and stat.modified_us < before_us:
            yield Leftover(address=address, kind="object", what="file of a video that has another")


async def _unnamed(files: Files, row: Standing, old: Sequence[str]) -> list[str]:
    """Return those of a video's folders that neither its row nor what plays of it names."""
    named = (row.media, row.posters, row.previews)
    left = [name for name in old if name not in named and name not in row.subtitles]
    if not left or row.media is None:
        return left
    playing = await _playing(files, row.hash, row.media)
    return [] if playing is None else [name for name in left if name not in playing]


async def _playing(files: Files, hash_: PublicHash, media: str) -> frozenset[str] | None:
    """Return the folders that the playlists of `media` name; None where that cannot be told."""
    folder = video_media(hash_, media)
    renditions = [name for name in await files.folders(folder) if name != "record"]
    found: set[str] = set()
    for rendition in renditions:
        try:
            text = await files.get(f"{folder}/{rendition}/{_INDEX}")
        except ObjectMissing:
            return None
        found.update(_ELSEWHERE.findall(text.decode(errors="replace")))
    return frozenset(found) if renditions else None


def _old(found: dict[str, int], before_us: int, form: re.Pattern[str]) -> list[str]:
    return [name for name, at_us in found.items() if at_us < before_us and form.fullmatch(name)]


def _lots(names: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]


async def remove_leftovers(objects: Removing, known: Known, now_us: int) -> int:
    """Remove what nothing names; returns how many folders and objects that were.

    What cannot be removed keeps nothing else from going, but where nothing is let go of.

    Raises:
        StorageError: the catalog or the disk did not answer, or not for all; what is left is left.
    """
    removed = 0
    kept: list[ObjectError] = []
    async with aclosing(find(objects, known, now_us)) as found:
        async for each in found:
            try:
                await _remove(objects, each)
            except ObjectError as error:
                log.warning("leftover stays", extra={"address": each.address, "cause": str(error)})
                kept.append(error)
                if len(kept) >= _MOST_KEPT:
                    break
            else:
                log.debug("leftover removed", extra={"address": each.address, "what": each.what})
                removed += 1
    if kept:
        raise kept[0]
    return removed


async def _remove(objects: Removing, leftover: Leftover) -> None:
    if leftover.kind == "folder":
        await objects.delete_tree(leftover.address)
    else:
        await objects.delete(leftover.address)


async def keep_clean(objects: Removing, known: Known, now_us: Callable[[], int]) -> None:
    """Remove leftovers now and every few hours, until cancelled."""
    while True:
        try:
            removed = await remove_leftovers(objects, known, now_us())
        except StorageError as error:
            log.warning("leftovers not removed", extra={"cause": str(error)})
        else:
            if removed:
                log.info("leftovers removed", extra={"leftovers": removed})
        await asyncio.sleep(_AGAIN_SECONDS)
