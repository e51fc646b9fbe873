"""A place of backups, its parts, and what does not make it one."""

from collections.abc import Generator
from pathlib import Path

import pytest

from storage.backups.manifest import BackupDamaged
from storage.backups.repository import (
    BackupReader,
    BackupRepository,
    BackupSummary,
    ForeignBackups,
    NoBackup,
    place_of,
)
from storage.backups.transfer import digest_of
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects

NAME = "20261129T220518Z"


@pytest.fixture
def repository(tmp_path: Path) -> Generator[BackupRepository]:
    with DiskObjects(tmp_path / "place") as target:
        yield BackupRepository(target, tmp_path)


def summary(**parts: str) -> BackupSummary:
    return BackupSummary(
        name=NAME, begun_us=1, installation="key", version="1", revision="1", objects=0, bytes=0,
        parts=parts,
    )  # fmt: skip


async def test_only_a_completed_backup_is_one(repository: BackupRepository, tmp_path: Path) -> None:
    await repository.claim("key")
    await repository.target.put(f"backups/{NAME}/objects.tsv", b"list")
    assert await repository.find_all() == []
    with pytest.raises(NoBackup, match="no complete backup in"):
        await repository.find(None)
    backup = summary(**{"objects.tsv": digest_of(b"list")})
    await repository.complete(backup)
    assert await BackupReader(ReadOnlyObjects(tmp_path / "place")).find(NAME) == backup
    await repository.fetch_part(backup, "objects.tsv", tmp_path / "list")
    assert (tmp_path / "list").read_bytes() == b"list"
    await repository.target.put(f"backups/{NAME}/objects.tsv", b"lost")
    with pytest.raises(BackupDamaged, match="is not as it was written"):
        await repository.fetch_part(backup, "objects.tsv", tmp_path / "again")
    await repository.forget(NAME)
    assert await repository.target.addresses("backups") == []


async def test_bytes_that_are_short_are_lacking(repository: BackupRepository) -> None:
    whole, short = digest_of(b"whole"), digest_of(b"short")
    await repository.put_all({whole: b"whole", short: b"shor"})
    assert await repository.find_lacking({whole: 5, short: 5, digest_of(b"x"): 1}) == {
        short,
        digest_of(b"x"),
    }
    assert place_of(whole) == f"data/{whole[:2]}/{whole}"


async def test_places_of_others_are_refused(repository: BackupRepository) -> None:
    await repository.claim("key")
    await repository.claim("key")
    with pytest.raises(ForeignBackups, match="another installation"):
        await repository.claim("other")


@pytest.mark.parametrize(
    ("mark", "error"),
    [(b'{"form": 2, "installation": "key"}', NoBackup), (b"{", BackupDamaged)],
    ids=["of a newer version", "damaged"],
)
async def test_a_mark_that_cannot_be_read_is_said(
    repository: BackupRepository, mark: bytes, error: type[Exception]
) -> None:
    await repository.target.put("headend-backup.json", mark)
    with pytest.raises(error):
        await repository.find_all()
