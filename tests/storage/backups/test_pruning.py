"""Backups that are not kept go, and the bytes that no other names."""

from collections.abc import Generator
from pathlib import Path

import pytest

from storage.backups.manifest import BackupDamaged, ListedObject, to_line
from storage.backups.pruning import prune
from storage.backups.repository import BackupRepository, BackupSummary, place_of
from storage.backups.retention import Keep
from storage.backups.transfer import digest_of
from storage.objects.disk import DiskObjects

ONE_A_DAY = Keep(daily=1, weekly=0, monthly=0)
OLD, NEW = "20261128T000000Z", "20261129T000000Z"


@pytest.fixture
def repository(tmp_path: Path) -> Generator[BackupRepository]:
    with DiskObjects(tmp_path) as target:
        yield BackupRepository(target, tmp_path)


async def make(repository: BackupRepository, name: str, *data: bytes) -> None:
    await repository.put_all({digest_of(each): each for each in data})
    lines = [
        ListedObject(digest=digest_of(each), size=1, modified_us=1, address=f"sources/A/{number}")
        for number, each in enumerate(data)
    ]
    text = "".join(map(to_line, lines)).encode()
    await repository.target.put(f"backups/{name}/objects.tsv", text)
    await repository.complete(
        BackupSummary(
            name=name,
            begun_us=1,
            installation="key",
            version="1",
            revision="1",
            objects=1,
            bytes=1,
            parts={"objects.tsv": digest_of(text)},
        )
    )


async def has(repository: BackupRepository, data: bytes) -> bool:
    return await repository.target.stat(place_of(digest_of(data))) is not None


async def test_bytes_stay_that_another_backup_names(repository: BackupRepository) -> None:
    await make(repository, OLD, b"old", b"both")
    await make(repository, NEW, b"both", b"new")
    assert await prune(repository, ONE_A_DAY) == (1, 1)
    assert [await has(repository, each) for each in (b"old", b"both", b"new")] == [
        False, True, True,
    ]  # fmt: skip
    assert await prune(repository, ONE_A_DAY) == (0, 0)


async def test_what_an_interrupted_backup_left_goes(repository: BackupRepository) -> None:
    await make(repository, NEW, b"new")
    await repository.put_all({digest_of(b"left"): b"left"})
    await repository.target.put(f"backups/{OLD}/objects.tsv", b"")
    assert await prune(repository, ONE_A_DAY) == (0, 1)
    assert not await has(repository, b"left")
    assert await repository.target.folder_names("backups") == {NEW}


async def test_nothing_goes_if_a_list_that_is_kept_cannot_be_read(
    repository: BackupRepository,
) -> None:
    await make(repository, OLD, b"old")
    await make(repository, NEW, b"new")
    await repository.target.put(f"backups/{NEW}/objects.tsv", b"damaged")
    with pytest.raises(BackupDamaged):
        await prune(repository, ONE_A_DAY)
    assert await has(repository, b"old") and await has(repository, b"new")
