"""Removes the media of streams and videos that are deleted, from disk and from the edge."""

import logging
from collections.abc import Sequence
from typing import Final

from media.stream_keys import PublicHash
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.objects.base import Objects

__all__ = ["StoredMedia"]

log = logging.getLogger(__name__)

# What is kept of a stream (its run and posters, its slate's picture), of a video, and of a video's
# uploaded file.
_ROOMS: Final = ("live/{}", "slates/s-{}", "videos/{}", "sources/{}")
_OF_PROJECT: Final = "slates/p-{}"


class StoredMedia:
    """The media of all streams and videos (see `api.ports.MediaRemover`)."""

    def __init__(self, objects: Objects, edge: Edge) -> None:
        self._objects = objects
        self._edge = edge

    async def remove(self, hashes: Sequence[PublicHash]) -> None:
        """Remove all there is under these hashes; what will not go is told to the log."""
        for hash_ in hashes:
            for room in _ROOMS:
                await self._remove(room.format(hash_))

    async def remove_project(self, key: str) -> None:
        """Remove what a project has itself: the picture that stands in for its streams."""
        await self._remove(_OF_PROJECT.format(key))

    async def _remove(self, folder: str) -> None:
        try:
            await self._objects.delete_tree(folder)
        except StorageError as error:
            log.warning("media not removed", extra={"folder": folder, "cause": str(error)})
        await self._edge.drop_folder(folder)
