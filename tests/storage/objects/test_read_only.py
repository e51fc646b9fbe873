"""Read-only objects: the same answers as those of the store, and nothing is created."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
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
            assert await looked.folder_names(prefix) == await objects.folder_names(prefix)
            for since_us in (0, 1 << 62):
                changed = await objects.has_changed(prefix, since_us)
                assert await looked.has_changed(prefix, since_us) == changed
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
        await ReadOnlyObjects(loop).folder_names("videos")
    with pytest.raises(StoreFailed, match="videos: Too many levels of symbolic links"):
        await ReadOnlyObjects(loop).addresses("videos")


async def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path) -> None:
    """The path of one folder below is longer than the system allows."""
    root = tmp_path
    while (room := os.pathconf("/", "PC_PATH_MAX") - len(str(root)) - 60) > 0:
        root /= "d" * min(room, 80)
    with DiskObjects(root) as objects:
        await objects.put("videos/a/1-1", b"x")
        folder = os.open(root / "videos" / "a", os.O_RDONLY)
        os.mkdir("x" * 80, dir_fd=folder)
        os.close(folder)
        looked = ReadOnlyObjects(root)
        with pytest.raises(StoreFailed, match="File name too long"):
            await looked.addresses("videos")
        with pytest.raises(StoreFailed, match="File name too long"):
            await looked.size("videos")
        with pytest.raises(StoreFailed, match="File name too long"):
            await objects.addresses("videos")


async def test_what_others_put_beside_the_objects_is_no_object(tmp_path: Path) -> None:
    looked = ReadOnlyObjects(tmp_path)
    with DiskObjects(tmp_path) as objects:
        await objects.put("videos/a/1-1/0.m4s", b"four")
        for name in (".DS_Store", "a/.nfs0123", "a/1-1/0.m4s~", "lost+found/1"):
            path = tmp_path / "videos" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"foreign")
        for each in (looked, objects):
            assert await each.addresses("videos") == ["videos/a/1-1/0.m4s"]
            assert await each.folder_names("videos") == {"a"}
        assert await objects.sizes("videos") == {"videos/a/1-1/0.m4s": 4}
        assert await looked.size("videos") == 4


async def test_a_folder_that_is_deleted_while_it_is_listed_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_folder = os.scandir

    @contextmanager
    def scandir(folder: Path) -> Generator[Iterator[os.DirEntry[str]]]:
        with list_folder(folder) as entries:
            listed = list(entries)
        (folder / "gone").rmdir()
        yield iter(listed)

    for name in ("a", "gone", "z"):
        (tmp_path / "videos" / name).mkdir(parents=True)
    monkeypatch.setattr(os, "scandir", scandir)
    files = ReadOnlyObjects(tmp_path)
    assert await files.folder_names("videos") == {"a", "gone", "z"}
    assert not await files.has_changed("videos/gone", 0)
