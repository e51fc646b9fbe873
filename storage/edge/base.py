"""What keeps the newest parts and playlists close to viewers: in memory, by address.

Nothing here is kept for good: what is not at the edge is looked up in the object store.
"""

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

__all__ = ["CachedPlaylist", "Edge"]


class CachedPlaylist(msgspec.Struct, frozen=True):
    """A playlist ready to be sent: as it is, compressed, and the name of its state (no quotes)."""

    body: bytes
    compressed: bytes
    tag: str

    @classmethod
    def from_text(cls, text: str) -> "CachedPlaylist":
        """Return the text with its compressed copy; equal texts are equal in all bytes."""
        body = text.encode()
        # Level 6 halves level 1's size on playlists at about 0.1 ms; no time stamp inside.
        packed = gzip.compress(body, 6, mtime=0)
        return cls(body, packed, hashlib.blake2b(body, digest_size=12).hexdigest())


class Edge(Protocol):
    """The newest media."""

    async def put_part(self, address: str, data: bytes) -> None:
        """Keep a part until newer ones push it out."""
        ...

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Put playlists in the place of older ones, all in one step."""
        ...

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, or None where it is not here (any more)."""
        ...

    async def get_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist, or None where it is not here."""
        ...

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts that nobody will ask for any more."""
        ...

    async def drop_folder(self, prefix: str) -> None:
        """Drop all that stands below `prefix`."""
        ...

    def local_part(self, address: str) -> bytes | None:
        """Return a part that is in this process's memory; `part` may still find it elsewhere."""
        ...

    def local_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist that is in this process's memory; `text` may still find it."""
        ...
