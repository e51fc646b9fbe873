"""What a catalog may name is found in a backup, without each segment."""

from storage.backups.contents import Contents
from storage.backups.manifest import ListedObject


async def test_files_playlists_and_folders_are_found() -> None:
    contents = Contents()
    for address in ("sources/A/1", "videos/A/1-1/index.m3u8", "videos/A/poster-1-1/360p.jpg"):
        entry = ListedObject(digest="ab" * 32, size=5, modified_us=7, address=address)
        contents.add(entry)
    for address in ("sources/A/1", "videos/A/1-1/index.m3u8"):
        stat = await contents.stat(address)
        assert stat is not None and stat.size == 5
    assert await contents.stat("sources/A/2") is None
    assert await contents.addresses("videos/A/poster-1-1") != []
    assert await contents.addresses("videos/A/poster-1-2") == []
