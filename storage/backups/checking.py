"""Reads all backups of a place back, and compares every byte with what was written.

Bytes that are missing or changed are noted in the place: the next backup copies them again, if the
store still has them. The caller holds the lock of the place.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from storage.backups.manifest import BackupDamaged, read_entries
from storage.backups.repository import DAMAGED, OBJECTS, BackupRepository, BackupSummary, place_of
from storage.backups.transfer import LARGE_BYTES, batches, copy_to_file, digest_of, read_all
from storage.objects.base import ObjectMissing


class CheckProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How many objects, of how many, were read back, and their bytes."""

    objects: int
    of_objects: int
    bytes: int


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a backup, or an object that it names, whose bytes are not those written."""

    backup: str
    name: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result: backups, and their objects and bytes, each counted once; what is damaged."""

    backups: int
    objects: int
    bytes: int
    damaged: tuple[Damage, ...]


async def check(
    repository: BackupRepository, folder: Path, report: Callable[[CheckProgress], None]
) -> Checked:
    """Read everything back; `folder` is for the lists, and empty.

    Raises:
        StorageError: the place cannot be read or written.
    """
    backups = await repository.find_all()
    damaged: list[Damage] = []
    lists: dict[str, Path] = {}
    for backup in backups:
        damaged += await _check_parts(repository, backup, folder, lists)
    sizes: dict[str, int] = {}
    for path in lists.values():
        sizes |= await asyncio.to_thread(_sizes, path)
    lost = await _check_bytes(repository, sizes, report)
    for digest in lost:
        await repository.target.put(f"{DAMAGED}/{digest}", b"")
    if lost:
        for name, path in lists.items():
            addresses = await asyncio.to_thread(_named, path, lost)
            damaged += [Damage(backup=name, name=address) for address in addresses]
    return Checked(
        backups=len(backups),
        objects=len(sizes),
        bytes=sum(sizes.values()),
        damaged=tuple(damaged),
    )


async def _check_parts(
    repository: BackupRepository, backup: BackupSummary, folder: Path, lists: dict[str, Path]
) -> list[Damage]:
    damaged: list[Damage] = []
    for number, part in enumerate(sorted(backup.parts)):
        path = folder / f"{backup.name}-{number}"
        try:
            await repository.fetch_part(backup, part, path)
        except BackupDamaged:
            damaged.append(Damage(backup=backup.name, name=part))
            continue
        if part == OBJECTS:
            lists[backup.name] = path
        else:
            path.unlink()
    return damaged


async def _check_bytes(
    repository: BackupRepository, sizes: dict[str, int], report: Callable[[CheckProgress], None]
) -> frozenset[str]:
    """Return the digests whose bytes are missing or others."""
    lost: set[str] = set()
    seen = seen_bytes = 0
    for batch in batches(sorted(sizes), sizes.__getitem__):
        if sizes[batch[0]] > LARGE_BYTES:
            found = [await _find_large(repository, batch[0])]
        else:
            data = await read_all(repository.target, [place_of(digest) for digest in batch])
            found = await asyncio.to_thread(_digests_of, data)
        lost.update(digest for digest, same in zip(batch, found, strict=True) if digest != same)
        seen += len(batch)
        seen_bytes += sum(sizes[digest] for digest in batch)
        report(CheckProgress(objects=seen, of_objects=len(sizes), bytes=seen_bytes))
    return frozenset(lost)


def _digests_of(data: list[bytes | None]) -> list[str | None]:
    return [None if each is None else digest_of(each) for each in data]


async def _find_large(repository: BackupRepository, digest: str) -> str | None:
    path = repository.temporary()
    try:
        return await copy_to_file(repository.target, place_of(digest), path)
    except ObjectMissing:
        return None
    finally:
        path.unlink(missing_ok=True)


def _sizes(path: Path) -> dict[str, int]:
    return {entry.digest: entry.size for entry in read_entries(path)}


def _named(path: Path, digests: frozenset[str]) -> list[str]:
    return [entry.address for entry in read_entries(path) if entry.digest in digests]
