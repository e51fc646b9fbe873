"""The protocol of the edge: the newest parts and playlists in memory, by address.

The edge is a cache. What it does not hold is read from the object store.
"""

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

__all__ = ["CachedPlaylist", "Edge"]


class CachedPlaylist(msgspec.Struct, frozen=True):
    """A playlist ready to be sent: plain, gzipped, and its entity tag without quotes."""

    body: bytes
    compressed: bytes
    tag: str

    @classmethod
    def from_text(cls, text: str) -> "CachedPlaylist":
        """Compress a text; equal texts give equal bytes."""
        body = text.encode()
        # On playlists level 6 halves the size of level 1, at about 0.1 ms.
        packed = gzip.compress(body, 6, mtime=0)
        return cls(body, packed, hashlib.blake2b(body, digest_size=12).hexdigest())


class Edge(Protocol):
    """The newest parts and playlists."""

    async def put_part(self, address: str, data: bytes) -> None:
        """Store a part until newer ones displace it."""
        ...

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Store playlists, replacing older ones all at once."""
        ...

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, or None if it is not cached."""
        ...

    async def get_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist, or None if it is not cached."""
        ...

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts that will not be requested any more."""
        ...

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix`."""
        ...

    def local_part(self, address: str) -> bytes | None:
        """Return a part from this process's memory; `get_part` may still find it elsewhere."""
        ...

    def local_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist from this process's memory; `get_playlist` may still find it."""
        ...
