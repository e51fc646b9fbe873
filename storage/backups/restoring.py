"""Puts the objects of a backup into a store, which has none or those of an interrupted call."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec

from storage.backups.manifest import BackupDamaged, ListedObject, folder_of, read_entries
from storage.backups.repository import BackupReader, place_of
from storage.backups.transfer import (
    LARGE_BYTES,
    Target,
    batches,
    copy_to_file,
    digest_of,
    place_file,
    read_all,
    set_times,
)
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import in_thread


class RestoreProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How many objects, of how many, are there, and their bytes."""

    objects: int
    of_objects: int
    bytes: int


async def restore_objects(
    reader: BackupReader,
    target: Target,
    manifest: Path,
    of_objects: int,
    report: Callable[[RestoreProgress], None],
) -> None:
    """Put all objects of a list into a store; those that have their size there are left out.

    Large ones on their way to a bucket pass through files beside the list.

    Raises:
        BackupDamaged: bytes are missing or not those written.
        StorageError: the repository or the store failed; another call goes on.
    """
    seen = seen_bytes = 0
    groups = groupby(read_entries(manifest), lambda entry: folder_of(entry.address))
    while (group := await asyncio.to_thread(_next_folder, groups)) is not None:
        folder, entries = group
        there = await target.sizes(folder)
        lacking = [each for each in entries if there.get(each.address) != each.size]
        seen += len(entries) - len(lacking)
        seen_bytes += sum(each.size for each in entries) - sum(each.size for each in lacking)
        for batch in batches(lacking, lambda each: each.size):
            await _restore(reader, target, batch, manifest)
            seen += len(batch)
            seen_bytes += sum(each.size for each in batch)
            report(RestoreProgress(objects=seen, of_objects=of_objects, bytes=seen_bytes))
        report(RestoreProgress(objects=seen, of_objects=of_objects, bytes=seen_bytes))


def _next_folder(
    groups: "groupby[str, ListedObject]",
) -> tuple[str, list[ListedObject]] | None:
    group = next(groups, None)
    return None if group is None else (group[0], list(group[1]))


async def _restore(
    reader: BackupReader, target: Target, batch: list[ListedObject], manifest: Path
) -> None:
    if batch[0].size > LARGE_BYTES:
        is_disk = isinstance(target, DiskObjects)
        path = target.temporary() if is_disk else manifest.with_suffix(".large")
        await _restore_large(reader, target, batch[0], path)
    else:
        places = [place_of(entry.digest) for entry in batch]
        data = await read_all(reader.source, places)
        objects: dict[str, bytes] = {}
        for entry, each in zip(batch, data, strict=True):
            if each is None or digest_of(each) != entry.digest:
                raise _damaged(reader, entry)
            objects[entry.address] = each
        await target.put_all(objects)
    await set_times(target, {entry.address: entry.modified_us for entry in batch})


async def _restore_large(
    reader: BackupReader, target: Target, entry: ListedObject, path: Path
) -> None:
    try:
        try:
            digest = await copy_to_file(reader.source, place_of(entry.digest), path)
        except ObjectMissing:
            digest = ""
        if digest != entry.digest:
            raise _damaged(reader, entry)
        await place_file(target, path, entry.address)
    finally:
        await in_thread(partial(path.unlink, missing_ok=True), name=entry.address)


def _damaged(reader: BackupReader, entry: ListedObject) -> BackupDamaged:
    return BackupDamaged(
        f"{reader.location}/{place_of(entry.digest)}, which has the bytes of {entry.address},"
        " is missing or not as it was written: restore another backup (`headend backup --list`)"
    )
