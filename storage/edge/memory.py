"""The edge in this process's memory, with bounds.

Once the parts exceed their limit in bytes, the oldest are dropped. Once there are too many
playlists, the one unchanged for longest is dropped. A dropped playlist is read from the object
store; a dropped part is gone, but its segment is there.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from storage.edge.base import CachedPlaylist

__all__ = ["MemoryEdge"]

# 20 s at 100 Mbit/s: all rungs of a dozen streams, several segments each.
MAX_PARTS_BYTES: Final = 256 << 20
MAX_PLAYLISTS: Final = 4096  # 12 kB each with its compressed copy: 50 MB at most


class MemoryEdge:
    """The newest media of all streams of this process (see `storage.edge.base.Edge`)."""

    def __init__(
        self, *, max_parts_bytes: int = MAX_PARTS_BYTES, max_playlists: int = MAX_PLAYLISTS
    ) -> None:
        self._max_parts_bytes = max_parts_bytes
        self._max_playlists = max_playlists
        # Dicts keep the order of insertion.
        self._parts: dict[str, bytes] = {}
        self._playlists: dict[str, CachedPlaylist] = {}
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The size in bytes of all cached parts."""
        return self._held_bytes

    async def put_part(self, address: str, data: bytes) -> None:
        """Store a part until newer ones displace it."""
        self._held_bytes -= len(self._parts.pop(address, b""))
        self._parts[address] = data
        self._held_bytes += len(data)
        while self._held_bytes > self._max_parts_bytes:
            oldest = next(iter(self._parts))
            self._held_bytes -= len(self._parts.pop(oldest))

    async def put_playlists(self, playlists: Mapping[str, str]) -> None:
        """Store playlists, replacing older ones all at once."""
        ready = {address: CachedPlaylist.from_text(text) for address, text in playlists.items()}
        for address, text in ready.items():
            self._playlists.pop(address, None)
            self._playlists[address] = text
        while len(self._playlists) > self._max_playlists:
            del self._playlists[next(iter(self._playlists))]

    async def get_part(self, address: str) -> bytes | None:
        """Return a part, or None if it is not cached."""
        return self._parts.get(address)

    async def get_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist, or None if it is not cached."""
        return self._playlists.get(address)

    async def drop_parts(self, addresses: Iterable[str]) -> None:
        """Drop parts that will not be requested any more."""
        for address in addresses:
            self._held_bytes -= len(self._parts.pop(address, b""))

    async def drop_folder(self, prefix: str) -> None:
        """Drop everything below `prefix`."""
        below = prefix + "/"
        await self.drop_parts([name for name in self._parts if name.startswith(below)])
        for address in [name for name in self._playlists if name.startswith(below)]:
            del self._playlists[address]

    def local_part(self, address: str) -> bytes | None:
        """Return a part, or None; this process's memory is the only cache."""
        return self._parts.get(address)

    def local_playlist(self, address: str) -> CachedPlaylist | None:
        """Return a playlist, or None; this process's memory is the only cache."""
        return self._playlists.get(address)
