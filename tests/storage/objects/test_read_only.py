"""Read-only objects: the same answers as those of the store, and nothing is created."""

from pathlib import Path

import pytest

from storage.objects.addresses import BadAddress
from storage.objects.base import ObjectMissing, StoreFailed
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects


def _below(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_it_answers_as_the_store_does(tmp_path: Path) -> None:
    looked = ReadOnlyObjects(tmp_path)
    with DiskObjects(tmp_path) as objects:
        await objects.put("videos/a/1-1/index.m3u8", b"#EXTM3U\n")
        await objects.put("videos/a/1-1/360p/0.m4s", b"four")
        await objects.put("videos/b/1-1/0.m4s", b"x")
        for prefix in ("videos", "videos/a", "videos/a/1-1", "nothing"):
            assert await looked.folders(prefix) == await objects.folders(prefix)
            assert await looked.addresses(prefix) == await objects.addresses(prefix)
        for address in ("videos/b/1-1/0.m4s", "nothing/0.m4s"):
            assert await looked.stat(address) == await objects.stat(address)
    assert await looked.get("videos/b/1-1/0.m4s") == b"x"
    assert await looked.size("videos/a") == 12
    assert await looked.size("videos/b/1-1/0.m4s") == 1
    assert await looked.size("nothing") == 0
    with pytest.raises(ObjectMissing):
        await looked.get("nothing/0.m4s")
    with pytest.raises(BadAddress):
        await looked.get("../secret")


async def test_nothing_is_made(tmp_path: Path) -> None:
    assert await ReadOnlyObjects(tmp_path / "objects").addresses("videos") == []
    assert _below(tmp_path) == []


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """A folder whose `videos` leads to itself."""
    (tmp_path / "videos").symlink_to("videos")
    return tmp_path


async def test_unreadable_objects_are_reported(loop: Path) -> None:
    with pytest.raises(StoreFailed, match="videos: Too many levels of symbolic links"):
        await ReadOnlyObjects(loop).folders("videos")
