"""Playlists are cached for a second, up to a total size."""

import gc
import weakref

from api.origin.playlist_cache import PlaylistCache
from delivery.edge.base import CachedPlaylist
from storage.objects.base import ObjectStat

STAT = ObjectStat(size=5, modified_us=1_700_000_000_000_000)
OTHER_STAT = ObjectStat(size=6, modified_us=STAT.modified_us + 1)
ONE, OTHER = "streams/a/b/720p/index.m3u8", "streams/a/b/480p/index.m3u8"


def text(size: int = 10) -> CachedPlaylist:
    return CachedPlaylist(b"x" * size)


def test_a_playlist_is_trusted_for_a_second() -> None:
    cache, playlist = PlaylistCache(), text()
    cache.put(ONE, STAT, playlist, now=10.0)
    assert cache.get(ONE, 10.9) == (STAT, playlist)
    assert cache.get(ONE, 11.0) is None
    assert cache.get(OTHER, 10.0) is None


def test_a_newer_playlist_replaces_an_older_one() -> None:
    cache, playlist = PlaylistCache(), text()
    cache.put(ONE, STAT, text(), now=10.0)
    cache.put(ONE, OTHER_STAT, playlist, now=10.5)
    assert cache.get(ONE, 11.2) == (OTHER_STAT, playlist)


def test_the_oldest_playlists_are_dropped_first() -> None:
    cache = PlaylistCache(most_bytes=25)
    for number in range(4):
        cache.put(f"{number}", STAT, text(), now=10.0)
    assert [cache.get(f"{number}", 10.0) is not None for number in range(4)] == [
        *(False, False),
        *(True, True),
    ]


def test_a_replaced_playlist_does_not_count_twice() -> None:
    cache = PlaylistCache(most_bytes=25)
    cache.put(OTHER, STAT, text(), now=10.0)
    for _ in range(9):
        cache.put(ONE, STAT, text(), now=10.0)
    assert cache.get(OTHER, 10.0) is not None


def test_a_single_playlist_has_room_whatever_its_size() -> None:
    cache = PlaylistCache(most_bytes=25)
    cache.put(OTHER, STAT, text(), now=10.0)
    cache.put(ONE, STAT, text(1000), now=10.0)
    assert cache.get(ONE, 10.0) is not None
    assert cache.get(OTHER, 10.0) is None


def test_an_expired_playlist_takes_no_memory() -> None:
    cache, playlist = PlaylistCache(), text()
    reference = weakref.ref(playlist)
    cache.put(ONE, STAT, playlist, now=10.0)
    del playlist
    cache.put(OTHER, STAT, text(), now=11.0)
    gc.collect()
    assert reference() is None
