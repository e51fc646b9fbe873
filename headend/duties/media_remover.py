"""Removes the media of deleted streams and videos from disk and edge.

Their rows are gone then. What cannot be removed now is due soon (`storage.cleanup.removals`), since
the transaction that removed the rows recorded it; so is all, while a backup is being made.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from media.stream_keys import PublicHash
from storage.cleanup.removals import DropFolder
from storage.errors import StorageError
from storage.objects.addresses import cdn_folders
from storage.objects.base import Objects
from storage.objects.upload_pieces import remove_upload

log = logging.getLogger(__name__)

# The folders of a stream (runs and posters, slate pictures), of a video, and of its uploaded file.
_FOLDERS: Final = ("live/{}", "slates/s-{}", "videos/{}", "sources/{}")
_OF_PROJECT: Final = "slates/p-{}"


async def never_held() -> bool:
    """Return False: no backup is made of media that no catalog names."""
    return False


class StoredMedia:
    """The media of all streams and videos (see `api.ports.MediaRemover`).

    `drop_folder` makes the edge forget what it holds of a folder; `are_held` returns whether
    nothing may be deleted now.
    """

    def __init__(
        self,
        objects: Objects,
        drop_folder: DropFolder,
        are_held: Callable[[], Awaitable[bool]] = never_held,
    ) -> None:
        self._objects = objects
        self._drop_folder = drop_folder
        self._are_held = are_held

    async def remove(self, hashes: Sequence[PublicHash]) -> None:
        """Delete all media of streams or videos by hash; failures are logged, and retried later."""
        for hash_ in hashes:
            for folder in _FOLDERS:
                await self._remove_folder(folder.format(hash_))

    async def withdraw(self, hashes: Sequence[PublicHash]) -> None:
        """Have no process answer with media of streams or videos in the trash, which stay.

        The origin finds no record of them; this is for what could be reached without it. Failures
        are logged: folders of copies are withdrawn later in any case
        (`storage.cleanup.withdrawn_copies`).
        """
        for hash_ in hashes:
            await self._remove(cdn_folders(hash_), self._objects.delete_tree)
            for folder in _FOLDERS:
                await self._drop_folder(folder.format(hash_))

    async def remove_uploads(self, names: Sequence[str]) -> None:
        """Delete the bytes of unfinished uploads by name; failures are only logged."""
        for name in names:
            await self._remove(name, partial(remove_upload, self._objects))

    async def remove_project(self, key: str) -> None:
        """Delete a project's own slate picture."""
        await self._remove_folder(_OF_PROJECT.format(key))

    async def _remove_folder(self, folder: str) -> None:
        await self._remove(folder, self._objects.delete_tree)
        await self._drop_folder(folder)

    async def _remove(self, address: str, delete: Callable[[str], Awaitable[None]]) -> None:
        try:
            if not await self._are_held():
                await delete(address)
        except StorageError as error:
            log.warning("media not removed", extra={"address": address, "cause": str(error)})
