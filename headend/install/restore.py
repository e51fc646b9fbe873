"""Restores an installation from a backup into an empty place: media, catalog, and private files.

The place is that of the settings: the data folder, a bucket if they name one, and PostgreSQL if
they name that. None of them may have anything, but for what an interrupted call for the same backup
has put there: then it goes on. Until all is there, no process of Headend starts on it.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from headend.config.settings import ServiceSettings
from headend.install.backup import SETTINGS
from headend.install.backup_place import BackupRefused, Place, open_reader, temporary_folder
from headend.install.installation import DATABASE, catalog_location, create_data_folder
from headend.install.locks import schema_change, writer_lock
from headend.install.media_store import OBJECTS, SCRATCH, bucket_of
from storage.backups.manifest import MEDIA
from storage.backups.repository import CATALOG, FILES, BackupReader, BackupSummary
from storage.backups.repository import OBJECTS as LIST
from storage.backups.restoring import RestoreProgress, restore_objects
from storage.backups.transfer import Target
from storage.catalog import open_catalog
from storage.installation_key import begin_copy, end_copy
from storage.objects.addresses import INSTALLATION, RESTORING
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from storage.objects.durable import sync_file
from storage.objects.s3_bucket import S3Bucket

_ROLE: Final = "restore"
# What is in a data folder that was never used: locks, what a file system has, and what this makes.
_EMPTY: Final = frozenset({"lost+found", "writer.lock", "form.lock", SCRATCH})


class NotEmpty(BackupRefused):
    """A place to restore to has something already."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(
            f"{place} is not empty: {what}; a backup is restored into an empty data folder, an"
            " empty prefix of a bucket and an empty database only; nothing was changed"
        )


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored: a backup, and where its media and its catalog are now."""

    backup: BackupSummary
    media: str
    catalog: str


async def restore(
    settings: ServiceSettings,
    place: Place,
    name: str | None,
    report: Callable[[RestoreProgress], None],
) -> Restored:
    """Restore the newest backup of a place, or that of a name.

    Raises:
        NotEmpty: there is something where the settings say; nothing was changed.
        NoBackup: there is no such backup.
        BackupDamaged: the backup has not the bytes that were written.
        DataFolderError: another process uses the data folder.
        StorageError: something failed; another call goes on.
    """
    reader = open_reader(place)
    backup = await reader.find(name)
    data = Path(settings.data)
    _require_unused(data)
    create_data_folder(data)
    with ExitStack() as stack:
        stack.enter_context(writer_lock(data, _ROLE))
        stack.enter_context(schema_change(data))
        scratch = stack.enter_context(temporary_folder(data))
        bucket = bucket_of(settings)
        location = catalog_location(settings)
        store = None if bucket is None else S3Bucket(bucket)
        is_going_on = await _require_empty(data, store, backup)
        await _require_empty_database(location, backup.installation if is_going_on else None)
        catalog = await _fetch_catalog(reader, backup, scratch)
        target: Target = store or stack.enter_context(DiskObjects(data / OBJECTS))
        await target.put(RESTORING, f"{backup.name}\n".encode(), vital=True)
        await begin_copy(target, backup.installation)
        await _restore_media(reader, backup, target, scratch, report)
        await _restore_files(reader, backup, data)
        await _place_catalog(catalog, location)
        await end_copy(target, backup.installation)
        await target.delete(RESTORING)
        return Restored(backup=backup, media=target.location, catalog=_shown(location))


def _require_unused(data: Path) -> None:
    """Refuse a data folder that has been used, before a lock is made in it."""
    if not data.exists():
        return
    names = {path.name for path in data.iterdir()} - _EMPTY - {OBJECTS}
    names = {name for name in names if not name.startswith(".")}
    is_going_on = (data / OBJECTS / RESTORING).is_file()
    if names and not is_going_on and not _is_bucket_restore(names):
        raise NotEmpty(str(data), f"it has {', '.join(sorted(names)[:5])}")


def _is_bucket_restore(names: set[str]) -> bool:
    """Return whether these may be files of an interrupted restore to a bucket, which says so."""
    return names <= {"owner.token", "tls", DATABASE}


async def _require_empty(data: Path, bucket: S3Bucket | None, backup: BackupSummary) -> bool:
    """Refuse a store that has anything but an interrupted restore of the same backup.

    Return whether it has that.
    """
    if bucket is None:
        place = str(data / OBJECTS)
        going_on, found = await asyncio.to_thread(_look, data / OBJECTS)
    else:
        going_on = await _get(bucket, RESTORING)
        found = [top for top in (*MEDIA, "trash") if await bucket.folder_names(top)]
        found += [INSTALLATION] if await _get(bucket, INSTALLATION) else []
        place = bucket.location
    if going_on == backup.name:
        return True
    if going_on:
        raise NotEmpty(place, f"the restore of {going_on} was interrupted: add --at {going_on}")
    if found:
        raise NotEmpty(place, f"it has {', '.join(found[:5])}")
    _refuse_files(data)
    return False


def _look(folder: Path) -> tuple[str, list[str]]:
    """Return the name of the backup whose restore goes on in a folder, and what is in it."""
    if not folder.is_dir():
        return "", []
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return _read(folder / RESTORING), names


def _refuse_files(data: Path) -> None:
    names = sorted(
        path.name
        for path in data.iterdir()
        if path.name not in _EMPTY | {OBJECTS} and not path.name.startswith(".")
    )
    if names:
        raise NotEmpty(str(data), f"it has {', '.join(names[:5])}")


def _read(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""


async def _get(bucket: S3Bucket, address: str) -> str:
    try:
        return (await bucket.get(address)).decode(errors="replace").strip()
    except ObjectMissing:
        return ""


async def _fetch_catalog(reader: BackupReader, backup: BackupSummary, scratch: Path) -> Path:
    """Return the catalog of a backup, in the form that this version needs.

    Raises:
        SchemaNewer: a newer Headend made the backup.
    """
    path = scratch / CATALOG
    await reader.fetch_part(backup, CATALOG, path)
    async with open_catalog(path, migrate=True) as catalog:
        # The store is another one: whoever had the lease of the former has none of this.
        await catalog.store_claims.expire()
        await catalog.installation.note_backup(backup.begun_us)
    return path


async def _require_empty_database(location: str | Path, going_on: str | None) -> None:
    """Refuse a database with rows, but for those of the installation whose restore goes on."""
    if isinstance(location, Path):
        return
    # It needs the driver of PostgreSQL, which is not loaded without one.
    from storage.catalog.maintenance.copying import find_installation  # noqa: PLC0415 # see above

    found = await find_installation(location)
    if found is not None and found != going_on:
        raise NotEmpty("the database", "it has rows")


async def _restore_media(
    reader: BackupReader,
    backup: BackupSummary,
    target: Target,
    scratch: Path,
    report: Callable[[RestoreProgress], None],
) -> None:
    manifest = scratch / LIST
    await reader.fetch_part(backup, LIST, manifest)
    await restore_objects(reader, target, manifest, backup.objects, report)
    for top in MEDIA:
        if await target.folder_names(top):
            await target.make_durable(top)


async def _restore_files(reader: BackupReader, backup: BackupSummary, data: Path) -> None:
    """Restore the owner's token and the keys of RTMPS, but not the settings."""
    for part in backup.parts:
        top, _, name = part.partition("/")
        if top != FILES or name == SETTINGS:
            continue
        path = data / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)  # of an interrupted call
        await reader.fetch_part(backup, part, path)
        path.chmod(0o600)
        await asyncio.to_thread(sync_file, path, data)


async def _place_catalog(catalog: Path, location: str | Path) -> None:
    if isinstance(location, Path):
        await asyncio.to_thread(_rename, catalog, location)
        return
    from storage.catalog.maintenance.copying import copy_catalog  # noqa: PLC0415 # as above

    await copy_catalog(catalog, location)


def _rename(catalog: Path, location: Path) -> None:
    for ending in ("-wal", "-shm"):  # closed, the file has all
        location.with_name(f"{location.name}{ending}").unlink(missing_ok=True)
        wal = catalog.with_name(f"{catalog.name}{ending}")
        if wal.exists():
            shutil.move(wal, location.with_name(f"{location.name}{ending}"))
    catalog.chmod(0o600)
    os.replace(catalog, location)  # noqa: PTH105  # over what an interrupted call has put there
    sync_file(location, location.parent)


def _shown(location: str | Path) -> str:
    return str(location) if isinstance(location, Path) else "the database of database.url"
