"""How playlists come before viewers: on disk, then at the edge, all of a step in one go.

The edge is told even where the disk fails, for all the media that the playlists name are stored.
On disk, where other processes read, the multivariant playlist waits until all that it leads to is
there.
"""

from collections.abc import Mapping

import msgspec

from storage.edge.base import Edge
from storage.errors import StorageError
from storage.objects.base import Objects

__all__ = ["Told", "tell"]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the disk has taken: all media playlists, all; `failed` is why not."""

    media: bool
    all: bool
    failed: StorageError | None


async def tell(
    objects: Objects, edge: Edge, media: Mapping[str, str], variants: Mapping[str, str]
) -> Told:
    """Put media playlists and the multivariant playlist, by address, in the place of older ones."""
    failed = await _write(objects, media)
    written = failed is None
    if written:
        failed = await _write(objects, variants)
    await edge.put_playlists(media)
    await edge.put_playlists(variants)
    return Told(media=written, all=failed is None, failed=failed)


async def _write(objects: Objects, playlists: Mapping[str, str]) -> StorageError | None:
    """Write as many as can be; return what stood in the way of one."""
    failed: StorageError | None = None
    for address, text in playlists.items():
        try:
            await objects.put(address, text.encode(), vital=True)
        except StorageError as error:
            failed = error
    return failed
