"""A short-lived cache of playlists that were read from the store.

Pure. Two playlists written within one tick of a file system's clock may have the same timestamp, so
an entry is valid for a second only. In that second, one read serves all viewers of the playlist.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from delivery.edge.base import CachedPlaylist
from storage.objects.base import ObjectStat

_TRUSTED_SECONDS: Final = 1.0
# 3,000 playlists of 12 kB, or 20 with a window of 12 h.
_MOST_BYTES: Final = 32 << 20


class _Remembered(msgspec.Struct, frozen=True, gc=False):
    since: float
    stat: ObjectStat
    playlist: CachedPlaylist


class PlaylistCache:
    """Playlists by address, with at most `most_bytes` of text, but always the newest one."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._entries: OrderedDict[str, _Remembered] = OrderedDict()  # the oldest first
        self._bytes = 0

    def get(self, address: str, now: float) -> tuple[ObjectStat, CachedPlaylist] | None:
        """Return a playlist and its object's stat before the read, if the entry is still valid."""
        entry = self._entries.get(address)
        if entry is None or now - entry.since >= _TRUSTED_SECONDS:
            return None
        return entry.stat, entry.playlist

    def put(self, address: str, stat: ObjectStat, playlist: CachedPlaylist, now: float) -> None:
        """Add a playlist that was read at `now` or later, and drop old and excess entries.

        `stat` must be from before the read, so that a change in between is noticed.
        """
        self._forget(address)
        self._entries[address] = _Remembered(now, stat, playlist)
        self._bytes += len(playlist.body)
        while len(self._entries) > 1:
            oldest = next(iter(self._entries))
            if now - self._entries[oldest].since < _TRUSTED_SECONDS and self._bytes <= self._most:
                return
            self._forget(oldest)

    def _forget(self, address: str) -> None:
        entry = self._entries.pop(address, None)
        if entry is not None:
            self._bytes -= len(entry.playlist.body)
