"""Copies the media of an installation between a data folder and a bucket.

The settings name where the media are; the target is where they will be. Only API processes may use
the installation meanwhile: they only add what their callers send, and repeating the copy after
their end copies that too.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from headend.config.settings import ServiceSettings
from headend.config.storage_settings import bucket_errors
from headend.install.installation import catalog_location, create_data_folder
from headend.install.locks import schema_in_use, writer_lock
from headend.install.media_store import OBJECTS, bucket_of, read_store
from storage.catalog import Catalog, open_catalog
from storage.errors import StorageError
from storage.installation_key import begin_copy, check_store, complete_key, end_copy, refuse_foreign
from storage.objects.copying import CopyProgress, ObjectsCopy, ToBucket, ToFolder, copy_objects
from storage.objects.disk import DiskObjects
from storage.objects.s3_bucket import S3Bucket, S3Location
from storage.store_lease import StoreLease

_ROLE = "migrate --media-to"


class MediaCopyRefused(StorageError):
    """The media cannot be copied now, or not to this target; the message is for the operator."""


class MediaTarget(msgspec.Struct, frozen=True):
    """Where media are copied to: a bucket or a data folder."""

    where: S3Location | Path

    @property
    def location(self) -> str:
        """The bucket or the folder of the objects, for messages."""
        return str(self.where / OBJECTS if isinstance(self.where, Path) else self.where)

    @property
    def advice(self) -> str:
        """The settings with which the media are used there."""
        if isinstance(self.where, Path):
            return f"storage.url empty and data set to {self.where}"
        settings = {
            "url": str(self.where),
            "endpoint": self.where.endpoint,
            "region": self.where.region,
        }
        return ", ".join(f"storage.{name} set to {text}" for name, text in settings.items() if text)


def media_place(settings: ServiceSettings) -> str:
    """Return the bucket or the folder of the objects that the settings name, for messages."""
    return str(bucket_of(settings) or Path(settings.data) / OBJECTS)


def media_target(
    settings: ServiceSettings, text: str, *, endpoint: str | None, region: str | None
) -> MediaTarget:
    """Return the target that an operator names, s3://BUCKET/PREFIX or a folder.

    `endpoint` and `region` are those of the settings unless they are given.

    Raises:
        MediaCopyRefused: it is invalid, or of the same kind as the place in the settings.
    """
    source = bucket_of(settings)
    if not text:
        raise MediaCopyRefused("--media-to takes s3://BUCKET/PREFIX or a data folder")
    if "://" not in text:
        if source is None:
            raise MediaCopyRefused(
                f"the media are in a folder already, {media_place(settings)}: --media-to takes"
                " s3://BUCKET/PREFIX; to use another folder, stop Headend and move this one"
            )
        return MediaTarget(Path(text).absolute())
    endpoint = settings.storage.endpoint if endpoint is None else endpoint
    for name, error in bucket_errors(text, endpoint).items():
        option = "--media-to" if name == "storage.url" else "--media-endpoint"
        raise MediaCopyRefused(f"{option}: {error}")
    if source is not None:
        raise MediaCopyRefused(
            f"the media are in a bucket already, {source}: --media-to takes a data folder; for"
            " another bucket, copy them to a folder first"
        )
    region = settings.storage.region if region is None else region
    return MediaTarget(S3Location.parse(text, endpoint=endpoint, region=region))


def copy_media(
    settings: ServiceSettings,
    target: MediaTarget,
    report: Callable[[CopyProgress], None] = lambda _: None,
) -> ObjectsCopy:
    """Copy the media; the target gets the installation key when it has all of them.

    It blocks, and takes as long as the disk and the network need. `report` is called after each
    object.

    Raises:
        DataFolderError: a process writes to one of the folders, or the database is migrated.
        MediaCopyRefused: a process receives streams or transcodes.
        EmptyStore: the media are not where the settings name them.
        ForeignMedia: the target has media of another installation.
        StoreInUse: another copy of the catalog is at work on the target.
        StorageError: a store or the catalog failed; another call continues the copy.
    """
    folder = Path(settings.data)
    with ExitStack() as locks:
        if not folder.is_dir():
            raise MediaCopyRefused(f"{folder} does not exist: name the data folder with --data")
        locks.enter_context(writer_lock(folder, _ROLE))
        locks.enter_context(schema_in_use(folder))
        if isinstance(target.where, Path) and target.where.resolve() != folder.resolve():
            create_data_folder(target.where)
            locks.enter_context(writer_lock(target.where, _ROLE))
        return asyncio.run(_copy(settings, target, report))


async def _copy(
    settings: ServiceSettings, target: MediaTarget, report: Callable[[CopyProgress], None]
) -> ObjectsCopy:
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        await _refuse_writers(catalog, settings)
        bucket = bucket_of(settings)
        # Before its folder is opened, which makes others in it.
        await check_store(catalog, read_store(Path(settings.data), bucket))
        if isinstance(target.where, S3Location):
            with DiskObjects(Path(settings.data) / OBJECTS) as disk:
                way = ToBucket(disk, S3Bucket(target.where))
                return await _copy_whole(settings, catalog, way, report)
        if bucket is None:  # `media_target` refuses that
            raise MediaCopyRefused("the media are in a folder already")
        with DiskObjects(target.where / OBJECTS) as disk:
            least = settings.storage.min_free_bytes
            way = ToFolder(S3Bucket(bucket), disk, min_free_bytes=least)
            return await _copy_whole(settings, catalog, way, report)


async def _copy_whole(
    settings: ServiceSettings,
    catalog: Catalog,
    way: ToBucket | ToFolder,
    report: Callable[[CopyProgress], None],
) -> ObjectsCopy:
    await complete_key(catalog, way.source)
    key = await catalog.installation.find_key()
    if not key:
        raise MediaCopyRefused(f"{way.source.location} has no media, and cannot be written to")
    await refuse_foreign(way.target, key)  # its lease may be foreign, too
    await StoreLease(way.target, catalog).refuse_use()
    await begin_copy(way.target, key)
    result = await copy_objects(way, report)
    await _refuse_writers(catalog, settings)
    await end_copy(way.target, key)
    return result


async def _refuse_writers(catalog: Catalog, settings: ServiceSettings) -> None:
    """Refuse to copy what hosts or workers, maybe on other machines, write meanwhile."""
    await catalog.clock.synchronize()
    if await catalog.health.is_at_work(catalog.clock.now_us()):
        raise MediaCopyRefused(
            "a video is being transcoded or imported: stop all processes but `headend api`, and run"
            " this again a minute later"
        )
    if not catalog.is_shared:
        return
    living = [
        host.name
        for host in await catalog.hosts.find_all(settings.hosts.dead_seconds)
        if host.alive
    ]
    if living:
        raise MediaCopyRefused(
            f"{', '.join(living)} may receive streams (`headend hosts`): stop all processes but"
            " `headend api` on every machine"
        )
