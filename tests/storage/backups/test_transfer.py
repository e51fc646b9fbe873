"""Bytes of objects are read, copied and known by their SHA-256, whole or in chunks."""

import hashlib
from pathlib import Path

import pytest

from storage.backups.transfer import (
    LARGE_BYTES,
    batches,
    copy_to_file,
    digest_of_file,
    place_file,
    read_all,
    set_times,
)
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects

LARGE = bytes(range(256)) * 40_000  # three chunks


async def test_a_file_is_copied_with_its_digest_and_placed(tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "one") as one, DiskObjects(tmp_path / "two") as two:
        await one.put("sources/A/1", LARGE)
        path = two.temporary()
        digest = await copy_to_file(one, "sources/A/1", path)
        assert digest == hashlib.sha256(LARGE).hexdigest() == await digest_of_file(path)
        await place_file(two, path, "data/x")
        assert not path.exists()
        assert await two.get("data/x") == LARGE
        before = (two.path("data/x").stat().st_ino, one.path("sources/A/1").stat().st_ino)
        assert before[0] != before[1], "a copy of its own"
        await set_times(two, {"data/x": 1_700_000_000_123_456})
        stat = await two.stat("data/x")
        assert stat is not None and stat.modified_us == 1_700_000_000_123_456


async def test_what_is_gone_is_missing(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        await objects.put("sources/A/1", b"x")
        assert await read_all(objects, ["sources/A/1", "sources/A/2"]) == [b"x", None]
        with pytest.raises(ObjectMissing):
            await copy_to_file(objects, "sources/A/2", objects.temporary())


def test_what_fits_into_memory_goes_together_and_a_large_object_alone() -> None:
    half, large = LARGE_BYTES // 2, LARGE_BYTES + 1
    sizes = [half, half, 1, large, 0, *[0] * 64]
    made = list(batches(sizes, lambda size: size))
    assert [each for batch in made for each in batch] == sizes
    assert made[:3] == [[half, half], [1], [large]]
    assert [len(batch) for batch in made[3:]] == [64, 1]
