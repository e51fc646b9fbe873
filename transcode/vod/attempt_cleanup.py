"""What attempts at a video left behind, and nothing names: found by its folders, and removed.

Folders carry generation and attempt, those of stretches the job, the stretch and its attempt: so
what another attempt is about to use is never taken for a leftover.
"""

import logging
import re
from collections.abc import Collection, Sequence
from typing import Final

from storage.objects.addresses import video, video_replaced_mark
from storage.objects.base import ObjectError, Objects

__all__ = ["remove_folders", "retire", "sweep"]

log = logging.getLogger(__name__)

_OF_ATTEMPT: Final = re.compile(r"(?:poster-|previews-)?([0-9]+)-([0-9]+)")
_OF_STRETCH: Final = re.compile(r"([0-9]+)-s([0-9]+)-[0-9]+-[0-9]+")


async def sweep(
    objects: Objects,
    hash_: str,
    *,
    keep: Collection[str | None],
    generations: range,
    attempt: int,
    job: int,
) -> None:
    """Remove what attempts up to `attempt`, and stretches of jobs up to `job`, left of a video.

    Only what was made of the files `generations` goes; what is in `keep` stays. What cannot be
    removed takes room, and is named by nothing.
    """
    try:
        found = await objects.addresses(video(hash_))
    except ObjectError as error:
        log.warning("leftovers not found", extra={"video": hash_, "cause": str(error)})
        return
    folders = {address.split("/")[2] for address in found if address.count("/") > 1}
    older: list[str] = []
    for name in sorted(folders.difference(keep)):
        for form, last in ((_OF_ATTEMPT, attempt), (_OF_STRETCH, job)):
            of = form.fullmatch(name)
            if of and int(of[1]) in generations and int(of[2]) <= last:
                older.append(name)
    await remove_folders(objects, hash_, older)


async def retire(objects: Objects, hash_: str, media: str | None, generation: int) -> None:
    """Mark what plays in the folder `media` as replaced, where an older file was made into it.

    Who watches it goes on; `storage.cleanup.orphans` removes it once the marks are old, and the
    sooner where they cannot be made. A folder is as old as what was last put into it.
    """
    older = (media or "").partition("-")[0]
    if not older.isdecimal() or int(older) >= generation:
        return
    try:
        found = await objects.addresses(video(hash_))
        folders = {address.split("/")[2] for address in found if address.count("/") > 1}
        for name in sorted(folders):
            of = _OF_ATTEMPT.fullmatch(name) or _OF_STRETCH.fullmatch(name)
            if of and of[1] == older:
                await objects.put(video_replaced_mark(hash_, name), b"")
    except ObjectError as error:
        log.warning("replaced media not marked", extra={"video": hash_, "cause": str(error)})


async def remove_folders(objects: Objects, hash_: str, folders: Sequence[str]) -> None:
    """Remove folders of a video, as far as the store lets us."""
    for folder in folders:
        try:
            await objects.delete_tree(f"{video(hash_)}/{folder}")
        except ObjectError as error:
            log.warning("leftovers stay", extra={"video": hash_, "cause": str(error)})
