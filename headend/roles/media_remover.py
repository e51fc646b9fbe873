"""Removes media from disk and edge: of deleted streams and videos, and of expired recordings.

Their rows are gone then. What cannot be removed now is due soon (`storage.cleanup.removals`), since
the transaction that removed the rows recorded it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from media.stream_keys import PublicHash
from storage.catalog.videos.recordings import Recordings
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.objects.base import Objects
from storage.objects.upload_pieces import remove_upload

__all__ = ["StoredMedia", "delete_expired_recordings", "keep_deleting_expired_recordings"]

log = logging.getLogger(__name__)

# The folders of a stream (runs and posters, slate pictures), of a video, and of its uploaded file.
_FOLDERS: Final = ("live/{}", "slates/s-{}", "videos/{}", "sources/{}")
_OF_PROJECT: Final = "slates/p-{}"


class StoredMedia:
    """The media of all streams and videos (see `api.ports.MediaRemover`)."""

    def __init__(self, objects: Objects, edge: Edge) -> None:
        self._objects = objects
        self._edge = edge

    async def remove(self, hashes: Sequence[PublicHash]) -> None:
        """Delete all media of streams or videos by hash; failures are logged, and retried later."""
        for hash_ in hashes:
            for folder in _FOLDERS:
                await self._remove_folder(folder.format(hash_))

    async def remove_uploads(self, names: Sequence[str]) -> None:
        """Delete the bytes of unfinished uploads by name; failures are only logged."""
        for name in names:
            await self._remove(name, partial(remove_upload, self._objects))

    async def remove_project(self, key: str) -> None:
        """Delete a project's own slate picture."""
        await self._remove_folder(_OF_PROJECT.format(key))

    async def _remove_folder(self, folder: str) -> None:
        await self._remove(folder, self._objects.delete_tree)
        await self._edge.drop_folder(folder)

    async def _remove(self, address: str, delete: Callable[[str], Awaitable[None]]) -> None:
        try:
            await delete(address)
        except StorageError as error:
            log.warning("media not removed", extra={"address": address, "cause": str(error)})


_INTERVAL_SECONDS: Final = 3600.0


async def delete_expired_recordings(recordings: Recordings, media: StoredMedia, now_us: int) -> int:
    """Delete the recordings that have expired and return their number.

    Raises:
        StorageError: the catalog failed; the rest remains.
    """
    count = 0
    while (hash_ := await recordings.expire(now_us)) is not None:
        await media.remove([hash_])
        count += 1
    return count


async def keep_deleting_expired_recordings(
    recordings: Recordings,
    media: StoredMedia,
    now_us: Callable[[], int],
    verify: Callable[[], Awaitable[None]],
) -> None:
    """Delete expired recordings now and every hour, until cancelled.

    `verify` raises `StorageError` unless media and catalog belong together; then nothing is done.
    """
    while True:
        try:
            await verify()
            count = await delete_expired_recordings(recordings, media, now_us())
        except StorageError as error:
            log.warning("recordings not expired", extra={"cause": str(error)})
        else:
            if count:
                log.info("recordings expired", extra={"videos": count})
        await asyncio.sleep(_INTERVAL_SECONDS)
