"""What rows name and a store does not have is found, until they do not name it any more."""

from pathlib import Path

from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.cleanup.missing import MissingFile, find_missing
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.storage.new_videos import complete_video, new_video

HASH = "AAAAAAAAAAAA"


async def test_files_media_and_posters_are_missed(tmp_path: Path) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        project = await catalog.projects.add("films", Change(1))
        whole = await catalog.videos.add(project.id, new_video(HASH), Change(1))
        await complete_video(catalog, 1)
        with DiskObjects(tmp_path / "objects") as objects:
            missing = await find_missing(catalog, objects)
            assert [(each.address, each.what) for each in missing] == [
                (f"sources/{HASH}/1", "uploaded file"),
                (f"videos/{HASH}/1-1/index.m3u8", "playlist"),
                (f"videos/{HASH}/poster-1-1", "posters"),
            ]
            await objects.put(f"sources/{HASH}/1", b"x")
            await objects.put(f"videos/{HASH}/poster-1-1/360p.jpg", b"x")
            assert await find_missing(catalog, objects) == [
                MissingFile(address=f"videos/{HASH}/1-1/index.m3u8", what="playlist", video=HASH)
            ]
            await catalog.videos.remove(whole.video.id, Change(1))
            assert await find_missing(catalog, objects) == []
