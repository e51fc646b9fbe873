"""The contents that a data folder needs before a role can run: database, project, owner's token.

`headend serve` and `headend migrate` create them; the other roles only read them. The database is a
file in the folder, or a PostgreSQL database if the settings name one; all else is in the folder.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headend.config.settings import ServiceSettings
from headend.install.locks import DataFolderError, schema_change
from headend.install.media_store import StoredFiles, open_store, read_store
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import FirstStart
from storage.errors import CatalogUnavailable, SchemaMissing, SchemaOlder
from storage.installation_key import check_store, complete_key, refuse_media
from storage.lease_verdict import MediaLease, NewStoreRefused
from storage.objects.base import ObjectError
from storage.objects.s3_bucket import S3Location
from storage.objects.store import MediaStore
from storage.store_lease import LeaseTiming, StoreLease
from storage.wall_clock import wall_clock_us

if TYPE_CHECKING:
    from storage.catalog.maintenance.copying import CatalogCopy

DATABASE: Final = "catalog.sqlite"
MOVED: Final = "catalog.sqlite.moved"
OWNER_TOKEN: Final = "owner.token"  # noqa: S105 # a file's name


def catalog_location(settings: ServiceSettings) -> str | Path:
    """Return the path of the database file, or a server's URL, which may hold a password."""
    return settings.database.url or Path(settings.data) / DATABASE


def create_data_folder(folder: Path) -> None:
    """Create the data folder, accessible to its owner only.

    Raises:
        DataFolderError: it cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DataFolderError(f"cannot use {folder} for data: {error.strerror}") from error


async def install(
    folder: Path,
    location: str | Path | None = None,
    bucket: S3Location | None = None,
    *,
    new_store: bool = False,
) -> bool:
    """Create the database and the records of a first start, or migrate an older database.

    `location` is the catalog's (see `catalog_location`), by default a file in the folder, and
    `bucket` that of the media, by default the folder. `new_store`: the store of the media may be
    empty though the catalog has had one. Return whether there was anything to do to the database.
    An installation that is up to date is not touched, so this may be called while Headend runs.

    Raises:
        DataFolderError: a migration is needed, but another process uses the database; or the
            owner's token could not be written.
        StoreMismatch: the media in the folder belong to another database; nothing was created.
        EmptyStore: the media are not where they were.
        StorageError: the database cannot be created or used.
    """
    location = location or folder / DATABASE
    files = read_store(folder, bucket)
    if await _is_ready(files, location):
        await _look_for_store(location, files, open_store(folder, bucket), new_store=new_store)
        return False
    with schema_change(folder):
        async with open_catalog(location, migrate=True) as catalog:
            first = await catalog.installation.first_start(wall_clock_us())
            if first.owner_token is not None:
                _write_token(folder / OWNER_TOKEN, first.owner_token)
            store = open_store(folder, bucket)
            async with own_store(catalog, files, store, new_store=new_store):
                return True


def require_unmoved(folder: Path) -> None:
    """Check that the SQLite database of a folder was not moved before.

    Raises:
        DataFolderError: it was.
    """
    if (folder / MOVED).exists() and not (folder / DATABASE).exists():
        raise DataFolderError(
            f"the database of {folder} was moved before, and {folder / MOVED} is the old one: start"
            " with database.url set to the new one"
        )


async def move_catalog(folder: Path, url: str, bucket: S3Location | None = None) -> "CatalogCopy":
    """Copy the SQLite database of a folder to PostgreSQL, and rename its file to `MOVED`.

    A start without the setting `database.url` then finds no database, instead of an old one. The
    media, which are in the folder or in a bucket, are the new database's at once. A move that was
    interrupted once all was copied is finished.

    Raises:
        DataFolderError: another process uses the database, or it was moved before.
        StorageError: it cannot be copied, or the media cannot be handed over; the database stays.
    """
    # It needs the driver of PostgreSQL, which no other command does on a file.
    from storage.catalog.maintenance.copying import copy_catalog  # noqa: PLC0415 # see above

    require_unmoved(folder)
    with schema_change(folder):
        turn = await _hand_over_media(folder, bucket)
        copied = await copy_catalog(folder / DATABASE, url)
        if copied.was_there and turn:
            # The file may have been used since it was copied.
            async with open_catalog(url, migrate=False) as moved:
                await moved.store_claims.adopt(turn)
        # The database comes last: until then, another call finishes this.
        for ending in ("-wal", "-shm", ""):
            file = folder / f"{DATABASE}{ending}"
            if file.exists():
                file.rename(folder / f"{MOVED}{ending}")
    return copied


async def _hand_over_media(folder: Path, bucket: S3Location | None) -> str:
    """Hand the media over to a copy of the folder's database (see `StoreLease.hand_over`).

    Raises:
        StorageError: as `check_store` does.
    """
    async with open_catalog(folder / DATABASE, migrate=False) as catalog:
        await check_store(catalog, read_store(folder, bucket))
        with open_store(folder, bucket) as objects:
            lease = StoreLease(objects, catalog)
            return await lease.hand_over()


async def take_over_media(
    folder: Path, location: str | Path, bucket: S3Location | None
) -> MediaLease | None:
    """Let the catalog at `location` use the media, whichever copy of it did; return their lease.

    Raises:
        StoreMismatch: they do not belong together at all.
        EmptyStore: the media are not where they were.
        StorageError: the catalog or the media cannot be used.
    """
    store = open_store(folder, bucket)
    async with (
        open_catalog(location, migrate=False) as catalog,
        own_store(catalog, read_store(folder, bucket), store) as objects,
    ):
        lease = StoreLease(objects, catalog)
        before = await lease.take_over()
        await complete_key(catalog, objects)
        return before


async def release_media(folder: Path, bucket: S3Location | None) -> bool:
    """Let a restored database use the media at once; return whether it can.

    All processes that use the database file of a folder hold a lock there, so that the last of them
    is certain to be. With a server there may be others anywhere: nothing is released.

    Raises:
        DataFolderError: another process uses the database.
        StorageError: the catalog or the media cannot be used.
    """
    with schema_change(folder):
        store = open_store(folder, bucket)
        async with (
            open_catalog(folder / DATABASE, migrate=False) as catalog,
            own_store(catalog, read_store(folder, bucket), store) as objects,
        ):
            lease = StoreLease(objects, catalog)
            return await lease.release()


@asynccontextmanager
async def own_store(
    catalog: Catalog,
    files: StoredFiles,
    store: AbstractContextManager[MediaStore],
    *,
    new_store: bool = False,
) -> AsyncGenerator[MediaStore]:
    """Open the store of a catalog for the length of the block, unless it is another's.

    `files` reads the same store: opening it makes folders, which a store that is refused must not
    get. `new_store` as in `install`.

    Raises:
        NewStoreRefused: other processes of the catalog were at work a moment ago.
        StorageError: as `check_store` does.
    """
    is_whole = await check_store(catalog, files, is_new=new_store)
    if new_store and not is_whole:
        # With the key it would be taken for the store by the next start that is the first of all.
        claim, seconds = await catalog.store_claims.read(), LeaseTiming().expired_seconds
        if claim.age < seconds:
            raise NewStoreRefused(files.location, catalog.location, seconds)
    with store as objects:
        if not is_whole:
            await complete_key(catalog, objects)
        yield objects


async def read_installation(catalog: Catalog) -> FirstStart:
    """Return the records of the first start.

    Raises:
        CatalogUnavailable: the catalog is empty.
    """
    first = await catalog.installation.find()
    if first is None:
        raise CatalogUnavailable("the catalog is empty; run `headend migrate` first")
    return first


async def _look_for_store(
    location: str | Path,
    files: StoredFiles,
    store: AbstractContextManager[MediaStore],
    *,
    new_store: bool,
) -> None:
    """Check the store of a catalog that is up to date, or give it a new one (see `own_store`)."""
    async with open_catalog(location, migrate=False) as catalog:
        if new_store:
            async with own_store(catalog, files, store, new_store=True):
                return
        # A store that does not answer now is checked when a role starts.
        with suppress(ObjectError):
            await check_store(catalog, files)


async def _is_ready(files: StoredFiles, location: str | Path) -> bool:
    """Return whether the database is up to date and has had its first start.

    Raises:
        StoreMismatch: there is no database, or an empty one, but there are media.
    """
    if isinstance(location, Path) and not location.is_file():  # noqa: ASYNC240 # before anything runs
        await refuse_media(files, str(location))
        return False
    try:
        async with open_catalog(location, migrate=False) as catalog:
            if await catalog.installation.find() is not None:
                return True
            empty = catalog.location
    except SchemaOlder:
        return False
    except SchemaMissing as error:
        empty = error.location
    await refuse_media(files, empty)
    return False


def _write_token(path: Path, token: str) -> None:
    try:
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(f"{token}\n")
    except OSError as error:
        # The database holds only its digest: this token cannot be shown again.
        raise DataFolderError(
            f"the owner's token cannot be written to {path} ({error.strerror}):"
            " `headend token create owner --write` makes another one"
        ) from error
