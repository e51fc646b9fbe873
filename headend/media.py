"""Removes the media of streams and videos that are deleted, from disk and from the edge."""

import logging
from collections.abc import Sequence
from typing import Final

from media.keys import PublicHash
from storage.edge.base import Edge
from storage.errors import StorageError
from storage.objects.base import Objects

__all__ = ["StoredMedia"]

log = logging.getLogger(__name__)

# What is kept of a stream, of a video, and of a video's uploaded file.
_ROOMS: Final = ("live", "videos", "sources")


class StoredMedia:
    """The media of all streams and videos (see `api.ports.MediaRemover`)."""

    def __init__(self, objects: Objects, edge: Edge) -> None:
        self._objects = objects
        self._edge = edge

    async def remove(self, hashes: Sequence[PublicHash]) -> None:
        """Remove all there is under these hashes; what will not go is told to the log."""
        for hash_ in hashes:
            for room in _ROOMS:
                folder = f"{room}/{hash_}"
                try:
                    await self._objects.delete_tree(folder)
                except StorageError as error:
                    about = {"folder": folder, "cause": str(error)}
                    log.warning("media not removed", extra=about)
                await self._edge.forget(folder)
