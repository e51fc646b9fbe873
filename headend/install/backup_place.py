"""Where backups are: a folder on another disk, or a bucket."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headend.config.settings import ServiceSettings
from headend.config.storage_settings import bucket_errors
from storage.backups.repository import BackupReader, BackupRepository
from storage.errors import StorageError
from storage.objects.disk import DiskObjects
from storage.objects.read_only import ReadOnlyObjects
from storage.objects.s3_bucket import S3Bucket, S3Location

Place = Path | S3Location
# Beside the database, which needs as much room once more while a backup is made.
_TEMPORARY = ".backup-"


class BackupRefused(StorageError):
    """A backup cannot be made, found or restored now or there; the message is for the operator."""


def backup_place(
    settings: ServiceSettings,
    text: str | None,
    *,
    endpoint: str | None = None,
    region: str | None = None,
) -> Place:
    """Return the place that an operator names; None: that of the settings.

    Raises:
        BackupRefused: none is named, or it is no place for backups.
    """
    text = text or settings.backup.to
    if not text:
        raise BackupRefused("name a folder on another disk or s3://BUCKET/PREFIX, or set backup.to")
    if "://" not in text:
        folder, data = Path(text).absolute(), Path(settings.data).absolute()
        if folder == data or data in folder.parents:
            raise BackupRefused(f"{folder} is in the data folder: name a folder on another disk")
        return folder
    endpoint = settings.backup.endpoint if endpoint is None else endpoint
    for error in bucket_errors(text, endpoint).values():
        raise BackupRefused(f"the place of backups: {error}")
    region = settings.backup.region if region is None else region
    place = S3Location.parse(text, endpoint=endpoint, region=region)
    if settings.storage.url:
        media = S3Location.parse(settings.storage.url)
        inner, outer = (f"{each.bucket}/{each.prefix}".rstrip("/") + "/" for each in (place, media))
        if inner.startswith(outer) or outer.startswith(inner):
            raise BackupRefused(f"{place} is within {media}, or around it: name another prefix")
    return place


@contextmanager
def open_repository(place: Place, scratch: Path) -> Generator[BackupRepository]:
    """Open a place to change its backups; `scratch` is a folder for files on their way to a bucket.

    Raises:
        StorageError: it cannot be written to.
    """
    if isinstance(place, S3Location):
        yield BackupRepository(S3Bucket(place), scratch)
        return
    with DiskObjects(place) as target:
        yield BackupRepository(target, scratch)


def open_reader(place: Place) -> BackupReader:
    """Return a reader of the backups in a place, in which nothing is written."""
    if isinstance(place, S3Location):
        return BackupReader(S3Bucket(place))
    return BackupReader(ReadOnlyObjects(place))


@contextmanager
def temporary_folder(data: Path) -> Generator[Path]:
    """Make a folder in the data folder for the length of the block; those that kills left go, too.

    Raises:
        BackupRefused: it cannot be made.
    """
    try:
        for left in data.glob(f"{_TEMPORARY}*"):
            _remove_if_left(left)
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=data) as folder:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield Path(folder)
            finally:
                os.close(lock)
    except OSError as error:
        raise BackupRefused(f"{data} cannot be used: {error.strerror}") from error


def _remove_if_left(folder: Path) -> None:
    """Remove a folder whose process is gone, and with it the lock."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
