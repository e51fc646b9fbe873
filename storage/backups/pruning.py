"""Removes backups that are not to be kept, what interrupted ones left, and bytes without a backup.

In this order, so that whenever a process is killed, each complete backup has all of its bytes. The
caller holds the lock of the place.
"""

import asyncio
from pathlib import Path
from typing import Final

from storage.backups.manifest import read_entries
from storage.backups.repository import BACKUPS, DATA, OBJECTS, BackupRepository
from storage.backups.retention import Keep, kept, time_of

_BATCH: Final = 1000  # objects that are deleted in one call


async def prune(repository: BackupRepository, keep: Keep) -> tuple[int, int]:
    """Remove what is not kept; return how many backups, and how many objects, were removed.

    Raises:
        BackupDamaged: a backup that is kept cannot be read: no bytes were removed.
        StorageError: the place failed.
    """
    backups = await repository.find_all()
    keeping = kept((each.name for each in backups), keep)
    leaving = sorted(set(await _names(repository)) - keeping)
    for name in leaving:
        await repository.forget(name)
    if not leaving:
        return 0, 0
    named: set[bytes] = set()
    for backup in backups:
        if backup.name in keeping:
            path = repository.temporary()
            try:
                await repository.fetch_part(backup, OBJECTS, path)
                named |= await asyncio.to_thread(_digests, path)
            finally:
                path.unlink(missing_ok=True)
    removed = await _remove_unnamed(repository, named)
    complete = {each.name for each in backups}
    return sum(name in complete for name in leaving), removed


async def _names(repository: BackupRepository) -> list[str]:
    return [name for name in await repository.target.folder_names(BACKUPS) if time_of(name)]


def _digests(path: Path) -> set[bytes]:
    return {bytes.fromhex(entry.digest) for entry in read_entries(path)}


async def _remove_unnamed(repository: BackupRepository, named: set[bytes]) -> int:
    removed = 0
    for folder in sorted(await repository.target.folder_names(DATA)):
        unnamed = [
            address
            for address in await repository.target.addresses(f"{DATA}/{folder}")
            if not _is_named(address, named)
        ]
        for start in range(0, len(unnamed), _BATCH):
            await repository.target.delete_all(unnamed[start : start + _BATCH])
        removed += len(unnamed)
    return removed


def _is_named(address: str, named: set[bytes]) -> bool:
    name = address.rpartition("/")[2]
    try:
        return bytes.fromhex(name) in named
    except ValueError:
        return True  # no object of ours
