"""The edge in memory: bounds, order, equal bytes for equal texts."""

import gzip

from delivery.edge.base import CachedPlaylist
from delivery.edge.memory import MemoryEdge


async def test_the_oldest_parts_leave_when_the_bound_is_passed() -> None:
    edge = MemoryEdge(max_parts_bytes=1000)
    for number in range(6):
        await edge.put_part(f"live/a/{number}.m4s", bytes(300))
    numbers = [number for number in range(6) if await edge.get_part(f"live/a/{number}.m4s")]
    assert numbers == [3, 4, 5]
    assert edge.held_bytes == 900


async def test_a_part_that_is_kept_again_is_counted_once() -> None:
    edge = MemoryEdge(max_parts_bytes=1000)
    await edge.put_part("a", bytes(300))
    await edge.put_part("a", bytes(400))
    assert edge.held_bytes == 400
    await edge.drop_parts(["a", "b"])
    assert edge.held_bytes == 0
    assert await edge.get_part("a") is None


async def test_forgetting_a_run_leaves_its_neighbours() -> None:
    edge = MemoryEdge()
    await edge.put_part("live/a/1/p", b"1")
    await edge.put_part("live/a/12/p", b"12")
    await edge.put_playlists({"live/a/1/index.m3u8": "x", "live/a/index.m3u8": "y"})
    await edge.drop_folder("live/a/1")
    assert await edge.get_part("live/a/1/p") is None
    assert await edge.get_part("live/a/12/p") == b"12"
    assert edge.local_playlist("live/a/1/index.m3u8") is None
    assert edge.local_playlist("live/a/index.m3u8") == CachedPlaylist.from_text("y")
    assert edge.held_bytes == 2


async def test_playlists_that_change_stay_and_the_longest_unchanged_leave() -> None:
    edge = MemoryEdge(max_playlists=3)
    await edge.put_playlists({"a": "1", "b": "1", "c": "1"})
    await edge.put_playlists({"a": "2"})
    await edge.put_playlists({"d": "1"})
    assert edge.local_playlist("b") is None
    assert edge.local_playlist("a") == CachedPlaylist.from_text("2")
    assert edge.local_playlist("d") == CachedPlaylist.from_text("1")


def test_equal_texts_are_equal_in_all_bytes_and_others_have_another_tag() -> None:
    text = CachedPlaylist.from_text("#EXTM3U\n" * 50)
    assert text == CachedPlaylist.from_text("#EXTM3U\n" * 50)
    assert gzip.decompress(text.compressed) == text.body
    assert len(text.compressed) < len(text.body)
    assert text.tag != CachedPlaylist.from_text("#EXTM3U\n" * 51).tag
