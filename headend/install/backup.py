"""Makes a backup of an installation while it runs, holds up no writer, and loses nothing.

    1. All media are copied that the newest backup lacks: as long as that takes, nothing waits.
    2. Removals are held (`storage.catalog.queries.removals`): what is deleted or replaced from here
       on is gone from every address, but its objects stay for the copy.
    3. The catalog is copied, as it is at one moment.
    4. What media came since 1 are copied, and the list of all is written: all that the catalog of 3
       names was there at 3, and is there until 4 has ended, which takes seconds.
    5. The backup becomes a complete one; then those that are not to be kept are removed.

What is deleted by other ways, such as by a process of version 0.2 that does not know of 2, is found
by comparing the list with the catalog; then 2 to 4 are repeated.

How it ends is a condition of the catalog (`storage.catalog.alerts.conditions`), of which operators
get mail: that it failed or lacks files, or that none came for a week.

Of the data folder the owner's token and the keys of RTMPS are in it, too, and the settings, to be
read.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from headend.config.section import explain
from headend.config.settings import ServiceSettings
from headend.install.backup_place import BackupRefused, Place, open_repository, temporary_folder
from headend.install.installation import OWNER_TOKEN, catalog_location
from headend.install.media_store import StoredFiles, bucket_of, read_store
from media.alerts import AlertKind
from media.stream_keys import is_hash
from storage.backups import checking, pruning
from storage.backups.checking import Checked, CheckProgress
from storage.backups.lock import BackupBusy, locked
from storage.backups.media_pass import FindKnown, Former, MediaPass, PassProgress
from storage.backups.repository import (
    BACKUPS,
    CATALOG,
    FILES,
    OBJECTS,
    BackupRepository,
    BackupSummary,
)
from storage.backups.retention import OLD_US, Keep, name_of, time_of
from storage.backups.transfer import digest_of_file
from storage.catalog import Catalog, open_catalog
from storage.catalog.maintenance.snapshot import check_file, snapshot_catalog
from storage.catalog.queries.removals import Removals
from storage.cleanup.missing import MissingFile, find_missing
from storage.errors import StorageError
from storage.installation_key import check_store, verify_key
from storage.wall_clock import wall_clock_us

log = logging.getLogger(__name__)

SETTINGS: Final = "settings.json"
TLS: Final = "tls"
_HOLD_SECONDS: Final = 120.0
_RENEW_SECONDS: Final = 30.0
_ATTEMPTS: Final = 5
# One for the installation, whatever the places: a backup to any of them is a good one.
_CONDITION: Final = "backup"


class BackupMade(msgspec.Struct, frozen=True, kw_only=True):
    """A backup; how much of it was copied now; what the catalog names and the store lacks.

    `torn` are streams whose playlists list what the store does not have.
    """

    backup: BackupSummary
    copied: int
    copied_bytes: int
    missing: tuple[MissingFile, ...]
    torn: tuple[str, ...]
    pruned: int
    removed: int


async def make_backup(
    settings: ServiceSettings,
    place: Place,
    keep: Keep,
    report: Callable[[PassProgress], None],
) -> BackupMade:
    """Make a backup, and remove those that are not to be kept.

    Nothing is removed if files of the catalog are missing: an older backup may have them.

    Raises:
        BackupRefused: there is no installation, or it changes faster than it can be copied.
        BackupBusy: another backup is being made there.
        ForeignBackups: the place is not empty and not this installation's.
        StorageError: the catalog, the store or the place failed; former backups are whole.
    """
    data = Path(settings.data)
    if not await asyncio.to_thread(data.is_dir):
        raise BackupRefused(f"{data} does not exist: name the data folder with --data")
    files = read_store(data, bucket_of(settings))
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        try:
            made = await _make(settings, catalog, files, place, keep, report)
        except BackupBusy:
            raise  # the other one tells how it ends
        except StorageError as error:
            await _tell_failure(catalog, f"The backup to {place} failed: {error}.")
            raise
        await _tell_made(catalog, made, place)
        return made


async def _make(
    settings: ServiceSettings,
    catalog: Catalog,
    files: StoredFiles,
    place: Place,
    keep: Keep,
    report: Callable[[PassProgress], None],
) -> BackupMade:
    await check_store(catalog, files)
    key = await catalog.installation.find_key()
    if not key:
        raise BackupRefused("nothing was ever stored: start Headend once before its backup")
    with (
        temporary_folder(Path(settings.data)) as scratch,
        open_repository(place, scratch) as repository,
    ):
        async with locked(repository.target):
            await repository.claim(key)
            work = _Work(settings, catalog, files, repository, scratch, report)
            made = await work.run(key)
            await catalog.installation.note_backup(_stored_us(catalog))
            if made.missing:
                return made
            pruned, removed = await pruning.prune(repository, keep)
            return msgspec.structs.replace(made, pruned=pruned, removed=removed)


async def _tell_made(catalog: Catalog, made: BackupMade, place: Place) -> None:
    """Let operators be told if this is the last backup for long, or lacks files."""
    name = f"backup {made.backup.name} in {place}"
    now_us = _stored_us(catalog)
    if made.missing:
        text = f"The {name} lacks {len(made.missing):,} files that the store lost: see its log."
        await catalog.conditions.begin(AlertKind.BACKUP, _CONDITION, text, now_us)
        return
    text = f"No backup for a week: the last is {name}."
    await catalog.conditions.put_off(AlertKind.BACKUP, _CONDITION, text, now_us + OLD_US)


async def _tell_failure(catalog: Catalog, text: str) -> None:
    """Let operators be told; a database that refuses hides no other failure."""
    try:
        await catalog.conditions.begin(AlertKind.BACKUP, _CONDITION, text, _stored_us(catalog))
    except StorageError as error:
        log.warning("nobody is told of the failed backup", extra={"cause": str(error)})


async def check_backups(
    settings: ServiceSettings, place: Place, report: Callable[[CheckProgress], None]
) -> Checked:
    """Read all backups of a place back (see `storage.backups.checking`).

    Raises:
        StorageError: the place failed, or is in use.
    """
    data = Path(settings.data)
    with temporary_folder(data) as scratch, open_repository(place, scratch) as repository:
        async with locked(repository.target):
            checked = await checking.check(repository, scratch, report)
            newest = await repository.find_all()
            if newest and not checked.damaged:
                await _check_catalog(repository, newest[0], scratch / "newest.sqlite")
            return checked


async def _check_catalog(repository: BackupRepository, backup: BackupSummary, path: Path) -> None:
    await repository.fetch_part(backup, CATALOG, path)
    if wrong := await asyncio.to_thread(check_file, path):
        raise BackupRefused(f"the database of {backup.name} is damaged: {'; '.join(wrong)}")


def _stored_us(catalog: Catalog) -> int:
    return catalog.clock.now_us() if catalog.is_shared else wall_clock_us()


class _Work:
    """The making of one backup."""

    def __init__(
        self,
        settings: ServiceSettings,
        catalog: Catalog,
        files: StoredFiles,
        repository: BackupRepository,
        scratch: Path,
        report: Callable[[PassProgress], None],
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._files = files
        self._repository = repository
        self._scratch = scratch
        self._report = report
        self._copied = self._copied_bytes = 0

    async def run(self, key: str) -> BackupMade:
        former = await self._newest_list()
        media = await self._pass(former, self._scratch / "before.tsv")
        for attempt in range(_ATTEMPTS):
            former = media[1]
            snapshot = self._scratch / f"{attempt}.sqlite"
            manifest = self._scratch / f"{attempt}.tsv"
            async with _holding(self._catalog.removals) as is_held:
                await snapshot_catalog(catalog_location(self._settings), snapshot)
                async with open_catalog(snapshot, migrate=False) as then:
                    media = await self._pass(former, manifest, find_known=_known_to(then))
                    missing = await find_missing(then, media[0].contents)
            lost = await self._still_named(missing)
            if is_held() and len(lost) == len(missing):
                await verify_key(self._catalog, self._files)
                return await self._complete(key, media, snapshot, manifest, lost)
        raise BackupRefused("media are deleted faster than they can be copied: try again later")

    async def _newest_list(self) -> Former:
        """Return the list of the newest backup; none before the first."""
        damaged = frozenset(await self._repository.damaged())
        for backup in await self._repository.find_all():
            path = self._scratch / "newest.tsv"
            await self._repository.fetch_part(backup, OBJECTS, path)
            return Former(path=path, begun_us=backup.begun_us, damaged=damaged)
        return Former(path=None, begun_us=0, damaged=damaged)

    async def _pass(
        self, former: Former, manifest: Path, *, find_known: FindKnown | None = None
    ) -> tuple[MediaPass, Former]:
        begun_us = wall_clock_us()
        media = MediaPass(
            self._files, self._repository, former, report=self._report, find_known=find_known
        )
        await media.run(manifest)
        self._copied += media.copied
        self._copied_bytes += media.copied_bytes
        return media, Former(path=manifest, begun_us=begun_us)

    async def _still_named(self, missing: list[MissingFile]) -> list[MissingFile]:
        """Return what the catalog names and the store lacks now, too: it was lost before."""
        if not missing:
            return []
        lost = {each.address for each in await find_missing(self._catalog, self._files)}
        return [each for each in missing if each.address in lost]

    async def _complete(
        self,
        key: str,
        media: tuple[MediaPass, Former],
        snapshot: Path,
        manifest: Path,
        missing: list[MissingFile],
    ) -> BackupMade:
        the_pass, listed = media
        name = await self._new_name()
        parts = {CATALOG: snapshot, OBJECTS: manifest, **self._private_files()}
        async with open_catalog(snapshot, migrate=False) as then:
            _, revision = await then.health.versions()
        digests: dict[str, str] = {}
        for part, path in parts.items():
            copy = self._repository.temporary()
            await asyncio.to_thread(shutil.copyfile, path, copy)
            digests[part] = await digest_of_file(copy)
            await self._repository.target.send(copy, f"{BACKUPS}/{name}/{part}")
            copy.unlink()
        backup = BackupSummary(
            name=name,
            begun_us=listed.begun_us,
            installation=key,
            version=version("headend"),
            revision=revision,
            objects=the_pass.objects,
            bytes=the_pass.bytes,
            parts=digests,
            missing=len(missing),
        )
        await self._repository.complete(backup)
        return BackupMade(
            backup=backup,
            copied=self._copied,
            copied_bytes=self._copied_bytes,
            missing=tuple(missing),
            torn=tuple(the_pass.torn),
            pruned=0,
            removed=0,
        )

    async def _new_name(self) -> str:
        """Return the present second's name, or one after all names: the newest has the last."""
        names = await self._repository.target.folder_names(BACKUPS)
        after = [time + timedelta(seconds=1) for time in map(time_of, names) if time is not None]
        return name_of(max([datetime.now(UTC), *after]))

    def _private_files(self) -> dict[str, Path]:
        """Return the files of the data folder that go with it, by the names of the parts."""
        data = Path(self._settings.data)
        shown = self._scratch / SETTINGS
        # Nothing is restored from it, so the passwords that settings hold need not be there.
        values = {line.name: line.value for line in explain(self._settings, {})}
        shown.write_bytes(msgspec.json.format(msgspec.json.encode(values)))
        found = [data / OWNER_TOKEN, *sorted((data / TLS).glob("*"))]
        names = {path.relative_to(data).as_posix(): path for path in found if path.is_file()}
        return {f"{FILES}/{name}": path for name, path in {**names, SETTINGS: shown}.items()}


@asynccontextmanager
async def _holding(removals: Removals) -> AsyncGenerator[Callable[[], bool]]:
    """Hold removals for the length of the block; the value returns whether none was missed.

    The hold ends by itself, two minutes after it was renewed last.
    """
    lapsed = False

    async def renew() -> None:
        nonlocal lapsed
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            lapsed = not await removals.hold(_HOLD_SECONDS) or lapsed

    await removals.hold(_HOLD_SECONDS)
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(renew())
            yield lambda: not lapsed
            renewing.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _known_to(catalog: Catalog) -> FindKnown:
    """Return which videos, streams and owners of slates a catalog knows, of those of a folder."""

    async def find_known(top: str, names: list[str]) -> frozenset[str]:
        if top == "slates":
            return frozenset(names)
        find = catalog.references.streams if top == "live" else catalog.references.videos
        return frozenset(await find([name for name in names if is_hash(name)]))

    return find_known
