"""What a row names is on the disk before the row is: the order of syncs, renames and commits."""

from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import open_incoming_file
from storage.objects.resumable_file import open_resumable_file
from tests.support.storage.disk_trace import traced_disk
from tests.support.storage.new_videos import new_video

NOW = 1_800_000_000_000_000
SOURCE = "sources/abcdefghijkl/1"
# The file itself, then its place, then the folders that lead there; the row at last.
PLACED = [
    ("rename", SOURCE),
    ("fsync", "sources/abcdefghijkl"),
    ("fsync", "sources"),
    ("fsync", "."),
]


async def _add(catalog: Catalog) -> None:
    file = new_video("abcdefghijkl", source=SOURCE)
    await catalog.videos.add(1, file, Change(NOW))


async def test_an_upload_is_on_the_disk_before_its_row(
    sqlite_database: Path, tmp_path: Path
) -> None:
    root = tmp_path / "objects"
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        await catalog.installation.first_start(NOW)
        with DiskObjects(root, reserve_bytes=0) as objects, traced_disk(root) as trace:
            async with open_incoming_file(objects, max_bytes=10) as file:
                await file.write(b"film")
                await file.keep(SOURCE)
            await _add(catalog)
    calls = [each for each in trace if each[0] != "sql"]
    assert calls[0][0] == "fsync"
    assert calls[0][1].startswith(".temporary/")
    assert calls[1:] == [*PLACED, ("commit", "")]


async def test_a_resumable_upload_is_on_the_disk_before_its_row(
    sqlite_database: Path, tmp_path: Path
) -> None:
    root = tmp_path / "objects"
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        await catalog.installation.first_start(NOW)
        with DiskObjects(root, reserve_bytes=0) as objects:
            async with open_resumable_file(objects, "uploads/one", SOURCE, wait_seconds=1) as file:
                await file.write(b"film")
                await file.flush()
                with traced_disk(root) as trace:
                    await file.keep(SOURCE)
                    await _add(catalog)
    calls = [each for each in trace if each[0] != "sql"]
    assert calls == [("fsync", "uploads/one"), *PLACED, ("commit", "")]


async def test_a_file_and_a_folder_are_made_durable(tmp_path: Path) -> None:
    with DiskObjects(tmp_path, reserve_bytes=0) as objects:
        await objects.put("videos/a/poster/1.jpg", b"picture")
        with traced_disk(tmp_path) as trace:
            await objects.make_durable("videos/a/poster/1.jpg")
            assert trace == [
                ("fsync", "videos/a/poster/1.jpg"),
                ("fsync", "videos/a/poster"),
                ("fsync", "videos/a"),
                ("fsync", "videos"),
                ("fsync", "."),
            ]
            trace.clear()
            await objects.make_durable("videos/a")
            assert trace == [("syncfs", ".")]
        with pytest.raises(ObjectMissing):
            await objects.make_durable("videos/b")
