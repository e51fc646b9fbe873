"""The edge in this process's memory, bounded.

Parts leave in the order in which they came when the sum of their bytes passes the bound; playlists
leave when there are too many, the longest unchanged one first. A playlist is then read from the
object store; a part is gone, but its segment is there.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from storage.edge.base import CachedPlaylist

__all__ = ["MemoryEdge"]

# 20 s of 100 Mbit/s: all rungs of a dozen streams, several segments each.
MAX_PARTS_BYTES: Final = 256 << 20
MAX_PLAYLISTS: Final = 4096  # 12 kB each with its compressed copy: 50 MB at most


class MemoryEdge:
    """The newest media of all streams that this process carries (see `storage.edge.base.Edge`)."""

    def __init__(
        self, *, max_parts_bytes: int = MAX_PARTS_BYTES, max_playlists: int = MAX_PLAYLISTS
    ) -> None:
        self._parts_bytes = max_parts_bytes
        self._most_texts = max_playlists
        # dicts keep the order of coming.
        self._parts: dict[str, bytes] = {}
        self._texts: dict[str, CachedPlaylist] = {}
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """The bytes of all parts that are kept now."""
        return self._held

    async def put_part(self, address: str, data: bytes) -> None:
        """Keep a part until newer ones push it out."""
        self._held -= len(self._parts.pop(address, b""))
        self._parts[address] = data
        self._held += len(data)
        while self._held > self._parts_bytes:
            oldest = next(iter(self._parts))
            self._held -= len(self._parts.pop(oldest))

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Put playlists in the place of older ones, all in one step."""
        ready = {address: CachedPlaylist.from_text(text) for address, text in playlists.items()}
        for address, text in ready.items():
            self._texts.pop(address, None)
            self._texts[address] = text
        while len(self._texts) > self._most_texts:
            del self._texts[next(iter(self._texts))]

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, or None where it is not here (any more)."""
        return self._parts.get(address)

    async def get_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist, or None where it is not here."""
        return self._texts.get(address)

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts that nobody will ask for any more."""
        for address in addresses:
            self._held -= len(self._parts.pop(address, b""))

    async def drop_folder(self, prefix: str) -> None:
        """Drop all that stands below `prefix`."""
        below = prefix + "/"
        await self.drop_parts([name for name in self._parts if name.startswith(below)])
        for address in [name for name in self._texts if name.startswith(below)]:
            del self._texts[address]

    def local_part(self, address: str) -> bytes | None:
        """Return a part, or None; there is no other place."""
        return self._parts.get(address)

    def local_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist, or None; there is no other place."""
        return self._texts.get(address)
