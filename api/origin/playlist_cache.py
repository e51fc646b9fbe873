"""Playlists that were read from the store, remembered for a moment.

Pure. Two playlists written within one tick of a file system's clock may look the same, so what is
remembered is trusted for a second only. That second carries all viewers of a playlist: it is read
once in it, however many ask.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from storage.edge.base import CachedPlaylist
from storage.objects.base import ObjectStat

__all__ = ["PlaylistCache"]

_TRUSTED_SECONDS: Final = 1.0
# 3,000 playlists of 12 kB, or 20 with a window of 12 h.
_MOST_BYTES: Final = 32 << 20


class _Remembered(msgspec.Struct, frozen=True, gc=False):
    since: float
    stat: ObjectStat
    playlist: CachedPlaylist


class PlaylistCache:
    """Playlists by address; at most `most_bytes` of text, and the newest one in any case."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._known: OrderedDict[str, _Remembered] = OrderedDict()  # the oldest first
        self._bytes = 0

    def get(self, address: str, now: float) -> tuple[ObjectStat, CachedPlaylist] | None:
        """Return a playlist with what its object was when it was read, if that is to be trusted."""
        known = self._known.get(address)
        if known is None or now - known.since >= _TRUSTED_SECONDS:
            return None
        return known.stat, known.playlist

    def put(self, address: str, stat: ObjectStat, playlist: CachedPlaylist, now: float) -> None:
        """Remember a playlist that was read at `now` or later; forget what is too old or too much.

        `stat` was found out before reading, so that a change in between is read again.
        """
        self._forget(address)
        self._known[address] = _Remembered(now, stat, playlist)
        self._bytes += len(playlist.body)
        while len(self._known) > 1:
            oldest = next(iter(self._known))
            if now - self._known[oldest].since < _TRUSTED_SECONDS and self._bytes <= self._most:
                return
            self._forget(oldest)

    def _forget(self, address: str) -> None:
        known = self._known.pop(address, None)
        if known is not None:
            self._bytes -= len(known.playlist.body)
