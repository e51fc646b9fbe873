"""A check reads every byte back, of small and large objects."""

from collections.abc import Generator
from pathlib import Path

import pytest

from media.no_op import do_nothing
from storage.backups.checking import Damage, check
from storage.backups.manifest import ListedObject, to_line
from storage.backups.repository import BackupRepository, BackupSummary, place_of
from storage.backups.transfer import LARGE_BYTES, digest_of
from storage.objects.disk import DiskObjects

NAME = "20261129T000000Z"
LARGE = bytes(LARGE_BYTES + 1)
SMALL = b"small"


@pytest.fixture
def repository(tmp_path: Path) -> Generator[BackupRepository]:
    with DiskObjects(tmp_path / "place") as target:
        yield BackupRepository(target, tmp_path)


async def fill(repository: BackupRepository) -> None:
    entries = [
        ListedObject(
            digest=digest_of(data), size=len(data), modified_us=1, address=f"sources/A/{name}"
        )
        for name, data in (("large", LARGE), ("small", SMALL))
    ]
    await repository.put_all({digest_of(each): each for each in (LARGE, SMALL)})
    text = "".join(map(to_line, entries)).encode()
    await repository.target.put(f"backups/{NAME}/objects.tsv", text)
    parts = {"objects.tsv": digest_of(text)}
    await repository.complete(
        BackupSummary(
            name=NAME,
            begun_us=1,
            installation="key",
            version="1",
            revision="1",
            objects=2,
            bytes=1,
            parts=parts,
        )
    )


@pytest.mark.parametrize(("data", "name"), [(LARGE, "large"), (SMALL, "small")])
@pytest.mark.parametrize("is_gone", [False, True], ids=["changed", "gone"])
async def test_changed_and_missing_bytes_are_found(
    repository: BackupRepository, tmp_path: Path, data: bytes, name: str, is_gone: bool
) -> None:
    await fill(repository)
    (tmp_path / "lists").mkdir()
    whole = await check(repository, tmp_path / "lists", do_nothing)
    assert (whole.backups, whole.objects, whole.damaged) == (1, 2, ())
    path = tmp_path / "place" / place_of(digest_of(data))
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(data[:-1] + b"?")
    (tmp_path / "again").mkdir()
    found = await check(repository, tmp_path / "again", do_nothing)
    assert found.damaged == (Damage(backup=NAME, name=f"sources/A/{name}"),)
    assert await repository.damaged() == {digest_of(data)}
