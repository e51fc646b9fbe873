"""The place of all backups of one installation: a folder, or a bucket and a prefix in it.

    headend-backup.json             the form of this layout, and the installation whose it is
    data/ab/ab12...                 the bytes of objects, by their SHA-256; each is there once
    backups/20261129T220518Z/       a backup, by the time when it was begun (UTC)
        catalog.sqlite              the database, whichever kind it was
        objects.tsv                 the list of its objects (`storage.backups.manifest`)
        files/                      files of the data folder beside these
        backup.json                 written last: without it there is no backup here
    damaged/ab12...                 bytes that a check found missing or changed, until copied again

Nothing is ever changed in place: what is written has a new name, or the bytes that it had. Bytes
are removed only when no backup names them (`storage.backups.pruning`). So whenever a process is
killed, the backups that were complete still are.
"""

import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from storage.backups.manifest import BackupDamaged
from storage.backups.retention import time_of
from storage.backups.transfer import Source, Target, copy_to_file, place_file
from storage.errors import StorageError
from storage.objects.at_once import do_each
from storage.objects.base import ObjectMissing
from storage.objects.disk import SYNC_SECONDS
from storage.objects.durable import sync_tree
from storage.objects.incoming_file import in_thread
from storage.objects.s3_bucket import S3Bucket

CATALOG: Final = "catalog.sqlite"
OBJECTS: Final = "objects.tsv"
FILES: Final = "files"
DATA: Final = "data"
BACKUPS: Final = "backups"
DAMAGED: Final = "damaged"
_MARK: Final = "headend-backup.json"
_SUMMARY: Final = "backup.json"
_FORM: Final = 1
_AT_ONCE: Final = 32  # requests of one call
# Written through now and then: syncing all of a large installation at once would take minutes.
_SYNC_BYTES: Final = 1 << 30


class NoBackup(StorageError):
    """There is no such backup; the message is for the operator."""


class ForeignBackups(StorageError):
    """The place has backups of another installation, or other files."""

    def __init__(self, location: str, what: str) -> None:
        super().__init__(f"{location} {what}: name an empty folder or prefix for the backups")


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A complete backup: its objects and their bytes, and the SHA-256 of its parts by name.

    `begun_us` is when its list was begun, and `revision` that of the catalog; `version` is the
    Headend that made it.
    """

    name: str
    begun_us: int
    installation: str
    version: str
    revision: str
    objects: int
    bytes: int
    parts: dict[str, str]
    missing: int = 0

    @property
    def folder(self) -> str:
        """The folder of its parts."""
        return f"{BACKUPS}/{self.name}"


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    form: int
    installation: str


def place_of(digest: str) -> str:
    """Return the address of the bytes that have a SHA-256."""
    return f"{DATA}/{digest[:2]}/{digest}"


class BackupReader:
    """The backups in a folder or a bucket, which is read only."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def location(self) -> str:
        """The folder or the bucket, for messages."""
        return self.source.location

    async def find_all(self) -> list[BackupSummary]:
        """Return all complete backups, the newest first.

        Raises:
            NoBackup: a newer Headend made them.
            BackupDamaged: one cannot be read.
            StorageError: the place cannot be read.
        """
        await self._mark()
        names = sorted(filter(time_of, await self.source.folder_names(BACKUPS)), reverse=True)
        found: list[BackupSummary] = []
        for name in names:
            address = f"{BACKUPS}/{name}/{_SUMMARY}"
            with contextlib.suppress(ObjectMissing):  # it was interrupted
                try:
                    backup = msgspec.json.decode(await self.source.get(address), type=BackupSummary)
                except msgspec.MsgspecError as error:
                    raise BackupDamaged(f"{self.location}/{address} cannot be read") from error
                found.append(backup)
        return found

    async def find(self, name: str | None) -> BackupSummary:
        """Return the backup of that name, or the newest.

        Raises:
            NoBackup: there is none.
        """
        for backup in await self.find_all():
            if name in (None, backup.name):
                return backup
        which = "no complete backup" if name is None else f"no complete backup {name}"
        raise NoBackup(f"there is {which} in {self.location}")

    async def fetch_part(self, backup: BackupSummary, part: str, path: Path) -> None:
        """Copy a part of a backup into a new file.

        Raises:
            BackupDamaged: it is not as it was written.
            StorageError: it cannot be read.
        """
        address = f"{backup.folder}/{part}"
        try:
            digest = await copy_to_file(self.source, address, path)
        except ObjectMissing:
            digest = ""
        if digest != backup.parts.get(part):
            raise BackupDamaged(f"{self.location}/{address} is not as it was written")

    async def damaged(self) -> set[str]:
        """Return the digests of bytes that a check found missing or changed."""
        return {each.rpartition("/")[2] for each in await self.source.addresses(DAMAGED)}

    async def _mark(self) -> _Mark | None:
        try:
            mark = msgspec.json.decode(await self.source.get(_MARK), type=_Mark)
        except ObjectMissing:
            return None
        except msgspec.MsgspecError as error:
            raise BackupDamaged(f"{self.location}/{_MARK} cannot be read") from error
        if mark.form != _FORM:
            raise NoBackup(f"{self.location} has backups of a newer Headend: use that")
        return mark


class BackupRepository(BackupReader):
    """The same, to be changed by the holder of its lock; the place stays open meanwhile."""

    def __init__(self, target: Target, scratch: Path) -> None:
        """Use a place; `scratch` is a folder on this machine for what passes through a file."""
        super().__init__(target)
        self.target = target
        self._scratch = scratch
        self._number = 0
        self._unsynced = 0

    def temporary(self) -> Path:
        """Return a new path for a file that is to become an object here, or is one."""
        if not isinstance(self.target, S3Bucket):
            return self.target.temporary()
        self._number += 1
        return self._scratch / f"object-{self._number}"

    async def claim(self, installation: str) -> None:
        """Make sure that the place is that of an installation, or empty; then it is from now on.

        Raises:
            ForeignBackups: it is another's, or has other files.
            StorageError: it cannot be read or written.
        """
        mark = await self._mark()
        if mark is None:
            for folder in (DATA, BACKUPS, "objects", "videos", "sources"):
                if await self.target.folder_names(folder):
                    raise ForeignBackups(self.location, "has other files")
            await self.target.put(
                _MARK, msgspec.json.encode(_Mark(form=_FORM, installation=installation))
            )
        elif mark.installation != installation:
            raise ForeignBackups(self.location, "has backups of another installation")

    async def find_lacking(self, sizes: Mapping[str, int]) -> set[str]:
        """Return those of some digests whose bytes, of such a size, are not here."""
        lacking: set[str] = set()
        if isinstance(self.target, S3Bucket):

            async def look(digest: str) -> None:
                stat = await self.target.stat(place_of(digest))
                if stat is None or stat.size != sizes[digest]:
                    lacking.add(digest)

            await do_each(sizes, look, at_once=_AT_ONCE)
            return lacking
        paths = {digest: self.target.path(place_of(digest)) for digest in sizes}

        def look_at_all() -> set[str]:
            return {digest for digest in sizes if _size(paths[digest]) != sizes[digest]}

        return await in_thread(look_at_all, name=DATA)

    async def put_all(self, data: Mapping[str, bytes]) -> None:
        """Write bytes by their digests."""
        await self.target.put_all({place_of(digest): each for digest, each in data.items()})
        await self._wrote(sum(map(len, data.values())))

    async def put_file(self, digest: str, path: Path, size: int) -> None:
        """Write the bytes of a file from `temporary`, which is gone then."""
        await place_file(self.target, path, place_of(digest))
        await self._wrote(size)

    async def _wrote(self, count: int) -> None:
        self._unsynced += count
        if self._unsynced >= _SYNC_BYTES:
            await self.settle()

    async def settle(self) -> None:
        """Have all that was written survive a power cut."""
        self._unsynced = 0
        if not isinstance(self.target, S3Bucket):
            sync = partial(sync_tree, self.target.root)
            await in_thread(sync, SYNC_SECONDS, name=self.location)

    async def complete(self, backup: BackupSummary) -> None:
        """Make a backup, all of whose parts are written, a complete one."""
        await self.settle()
        address = f"{backup.folder}/{_SUMMARY}"
        await self.target.put(address, msgspec.json.format(msgspec.json.encode(backup)))
        await self.target.make_durable(address)

    async def forget(self, name: str) -> None:
        """Remove a backup, complete or not: first what makes it one."""
        await self.target.delete(f"{BACKUPS}/{name}/{_SUMMARY}")
        await self.target.delete_tree(f"{BACKUPS}/{name}")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
