"""Objects are put back with their times; those that are there are left out."""

from pathlib import Path

import pytest

from media.no_op import do_nothing
from storage.backups.manifest import BackupDamaged, ListedObject, to_line
from storage.backups.repository import BackupRepository
from storage.backups.restoring import restore_objects
from storage.backups.transfer import LARGE_BYTES, digest_of
from storage.objects.disk import DiskObjects

OBJECTS = {"sources/A/1": bytes(LARGE_BYTES + 1), "videos/A/1-1/0.m4s": b"0", "videos/B/1/x": b""}


async def test_objects_are_put_back_and_what_is_there_is_left_out(tmp_path: Path) -> None:
    manifest = tmp_path / "objects.tsv"
    entries = [
        ListedObject(digest=digest_of(data), size=len(data), modified_us=1_000_000, address=address)
        for address, data in OBJECTS.items()
    ]
    manifest.write_text("".join(map(to_line, entries)))
    with DiskObjects(tmp_path / "place") as place, DiskObjects(tmp_path / "store") as store:
        repository = BackupRepository(place, tmp_path)
        await repository.put_all({digest_of(data): data for data in OBJECTS.values()})
        await restore_objects(repository, store, manifest, 3, do_nothing)
        for address, data in OBJECTS.items():
            stat = await store.stat(address)
            assert stat is not None and stat.modified_us == 1_000_000
            assert await store.get(address) == data
        await place.delete_tree("data")
        await restore_objects(repository, store, manifest, 3, do_nothing)
        await store.delete("videos/A/1-1/0.m4s")
        with pytest.raises(BackupDamaged, match=r"the bytes of videos/A/1-1/0\.m4s"):
            await restore_objects(repository, store, manifest, 3, do_nothing)
