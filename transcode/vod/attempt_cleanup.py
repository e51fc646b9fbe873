"""Removes the folders of a video's older attempts, which nothing references any more.

A folder's name holds the generation of the file and the attempt; that of a span holds the
generation, the job, the span's number and its attempt. So a folder that another attempt is about to
use is never removed.
"""

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from storage.objects.addresses import video, video_folder, video_replaced_mark
from storage.objects.base import ObjectError, Objects

log = logging.getLogger(__name__)

_ATTEMPT_FOLDER: Final = re.compile(r"(?:poster-|previews-)?([0-9]+)-([0-9]+)")
_INDEX: Final = "index.m3u8"
_SPAN_FOLDER: Final = re.compile(r"([0-9]+)-s([0-9]+)-[0-9]+-[0-9]+")


async def remove_old_attempts(
    objects: Objects,
    hash_: str,
    *,
    keep: Collection[str | None],
    generations: range,
    attempt: int,
    job: int,
) -> None:
    """Remove the folders of attempts up to `attempt`, and of spans of jobs up to `job`.

    Only folders of the files `generations` are removed, none in `keep`, and none that is marked as
    replaced. A folder that cannot be removed only takes up space.
    """
    try:
        addresses = set(await objects.addresses(video(hash_)))
    except ObjectError as error:
        log.warning("old attempts not listed", extra={"video": hash_, "cause": str(error)})
        return
    folders = _folders(addresses)
    older: list[str] = []
    marked = {name for name in folders if video_replaced_mark(hash_, name) in addresses}
    for name in sorted(folders.difference(keep, marked)):
        for pattern, last in ((_ATTEMPT_FOLDER, attempt), (_SPAN_FOLDER, job)):
            match = pattern.fullmatch(name)
            if match and int(match[1]) in generations and int(match[2]) <= last:
                older.append(name)
    await remove_folders(objects, hash_, older)


async def mark_replaced(
    objects: Objects, hash_: str, media: str | None, *, generation: int, by: Collection[str]
) -> None:
    """Mark what plays from the folder `media` as replaced by the folders `by` of a generation.

    Media of an older generation may be in all of its folders; those of an older attempt, which
    played early, are in its own. Viewers can continue to watch them: `storage.cleanup.orphans`
    removes a folder once its newest object, the mark, is old. A folder that cannot be marked is
    removed sooner.
    """
    old_generation = (media or "").partition("-")[0]
    if (
        media is None
        or media in by
        or not old_generation.isdecimal()
        or int(old_generation) > generation
    ):
        return
    try:
        folders = {media}
        if int(old_generation) < generation:
            folders = _folders(await objects.addresses(video(hash_)))
        for name in sorted(folders):
            match = _ATTEMPT_FOLDER.fullmatch(name) or _SPAN_FOLDER.fullmatch(name)
            if match and match[1] == old_generation:
                await objects.put(video_replaced_mark(hash_, name), b"")
    except ObjectError as error:
        log.warning("replaced media not marked", extra={"video": hash_, "cause": str(error)})


def _folders(addresses: Iterable[str]) -> set[str]:
    """Return the names of the folders of a video that hold objects."""
    return {address.split("/")[2] for address in addresses if address.count("/") > 1}


async def remove_unlisted(objects: Objects, hash_: str, media: str | None) -> None:
    """Remove the renditions in the folder `media` that no playlist lists.

    An attempt that failed left them there, beside what it had published early.
    """
    if media is None or not _ATTEMPT_FOLDER.fullmatch(media):
        return
    folder = video_folder(hash_, media)
    try:
        names = {each.removeprefix(f"{folder}/") for each in await objects.addresses(folder)}
    except ObjectError as error:
        log.warning("renditions not listed", extra={"video": hash_, "cause": str(error)})
        return
    renditions = {each.partition("/")[0] for each in names if "/" in each}
    unlisted = [name for name in sorted(renditions) if f"{name}/{_INDEX}" not in names]
    await remove_folders(objects, hash_, [f"{media}/{name}" for name in unlisted])


async def remove_attempt(objects: Objects, hash_: str, folders: Sequence[str]) -> None:
    """Remove folders of an attempt that lost its job, except those that are marked as replaced.

    It may have been suspended after its early media played, until another attempt made the video:
    viewers can continue to watch those media.
    """
    try:
        addresses = set(await objects.addresses(video(hash_)))
    except ObjectError as error:
        log.warning("attempt not listed", extra={"video": hash_, "cause": str(error)})
        return
    unmarked = [name for name in folders if video_replaced_mark(hash_, name) not in addresses]
    await remove_folders(objects, hash_, unmarked)


async def remove_folders(objects: Objects, hash_: str, folders: Sequence[str]) -> None:
    """Remove folders of a video; the log names those that cannot be removed."""
    for folder in folders:
        try:
            await objects.delete_tree(f"{video(hash_)}/{folder}")
        except ObjectError as error:
            log.warning("old attempt not removed", extra={"video": hash_, "cause": str(error)})
