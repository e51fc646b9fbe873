"""The installation key: shows that a catalog and an object store belong together.

The key is a random text, kept in the catalog's row of the installation and in the store's object
`installation`. It is an identity, not a secret. To a catalog that is empty or foreign, all media
appear unneeded: therefore no process starts, and no cleanup runs, on the store of another
installation.

The first start writes the key to both, to the store first: a catalog that has a key had a store
with it. Any start adds a missing half: a store that an older version wrote has no key, and neither
has a catalog that was restored from a backup of such a version. Then the two belong together if the
catalog knows some of the media: hashes are random, so one in common is proof.

A store without key and media is taken only by a catalog that has never had one. To any other it is
the place where its store should be: a disk that is not mounted, a mistyped prefix, or a folder that
a process on another machine has to itself. An operator can say that it is meant (`is_new`).

A new catalog may be led to the store of another installation that has no media yet. It gets that
store's key only with its lease (`storage.store_lease`): with the key it would belong to the media.

A store that media are being copied to (`storage.objects.copying`) has the key in another object
until all of them are there, and no process starts on it.
"""

import logging
import secrets
from typing import Final

import msgspec

from media.stream_keys import is_hash
from storage.catalog import Catalog
from storage.catalog.maintenance.references import References
from storage.catalog.projects.store_claims import StoreClaims
from storage.errors import StorageError
from storage.lease_verdict import MediaLease
from storage.objects.addresses import COPYING, INSTALLATION, LEASE
from storage.objects.base import ObjectChanged, ObjectError, ObjectMissing, Objects, ReadableObjects

log = logging.getLogger(__name__)

_KEY_BYTES: Final = 16  # random: no two installations ever share a key
_MEDIA: Final = ("sources", "videos", "live")
_AT_ONCE: Final = 500


class StoreMismatch(StorageError):
    """The media in `store` do not belong to the catalog at `catalog`; both are places."""

    def __init__(self, store: str, catalog: str) -> None:
        super().__init__(
            f"the media in {store} do not belong to the catalog at {catalog}: use the database that"
            " they belong to (setting database.url, or a restored backup), or move that folder away"
            " to begin without them"
        )
        self.store = store
        self.catalog = catalog


class EmptyStore(StorageError):
    """`store` has neither key nor media, though the catalog at `catalog` has had a store."""

    def __init__(self, store: str, catalog: str) -> None:
        super().__init__(
            f"{store} has no media and no key, though the catalog at {catalog} has had a store:"
            " check that the disk is mounted, and that data and storage.url (bucket and prefix)"
            " name the store that all processes use; if a new, empty one is meant, `headend"
            " migrate --new-store` confirms it"
        )
        self.store = store
        self.catalog = catalog


class ForeignMedia(StorageError):
    """Media cannot be copied to `store`, which has those of another installation."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} has media of another installation: give an empty prefix or folder"
        )
        self.store = store


class UnfinishedCopy(StorageError):
    """Not all media have been copied to `store`."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"the media in {store} are an unfinished copy: run `headend restore` again, or, with"
            " the settings that name the whole media, `headend migrate --media-to`"
        )
        self.store = store


async def refuse_media(files: ReadableObjects, catalog: str) -> None:
    """Refuse to create a catalog, whose place is given, for a store that holds or gets media.

    Raises:
        StoreMismatch: the store holds media.
        UnfinishedCopy: media are being copied to the store, with a catalog of their own.
        ObjectError: the store cannot be read.
    """
    if await _read(files, COPYING):
        raise UnfinishedCopy(files.location)
    if await _has_media(files):
        raise StoreMismatch(files.location, catalog)


async def check_store(catalog: Catalog, files: ReadableObjects, *, is_new: bool = False) -> bool:
    """Check that a catalog and a store belong together, before anything is written there.

    `is_new`: the operator says that the store may be empty, whatever the catalog has. Return
    whether both have the key; if not, `complete_key` writes what is missing.

    Raises:
        StoreMismatch: they do not belong together.
        EmptyStore: the store has neither key nor media, and the catalog has had a store.
        UnfinishedCopy: not all media have been copied to the store.
        StorageError: the catalog or the store cannot be read.
    """
    # In the order that is the reverse of the writes: a first start may be under way elsewhere.
    catalog_key = await catalog.installation.find_key()
    if await _read(files, COPYING):
        raise UnfinishedCopy(files.location)
    store_key = await _read(files)
    if store_key and catalog_key:
        if store_key != catalog_key:
            raise StoreMismatch(files.location, catalog.location)
        return True
    if not await _has_media(files):
        has_had_store = bool(catalog_key) or await catalog.references.is_any_file_named()
        if has_had_store and not store_key and not is_new:
            raise EmptyStore(files.location, catalog.location)
    elif not await _is_any_known(files, catalog.references):
        raise StoreMismatch(files.location, catalog.location)
    return False


async def complete_key(catalog: Catalog, objects: Objects) -> None:
    """Write the missing halves of the key of a catalog and a store that passed `check_store`.

    A store that cannot be written to now, such as one on a full disk, gets its half at a later
    start; so does its catalog if the store is empty, as no other start would take that again. A
    catalog does not get the key of a store that has the lease of another one.

    Raises:
        StoreMismatch: another process began with another store at the same time.
        StorageError: the catalog or the store cannot be read.
    """
    catalog_key, key = await catalog.installation.find_key(), await _read(objects)
    if key and not catalog_key and await _is_anothers(objects, catalog.store_claims):
        return
    if not key:
        key = catalog_key or secrets.token_hex(_KEY_BYTES)
        try:
            key = await _begin(objects, key)
        except ObjectError as error:
            log.warning("installation key not written", extra={"cause": str(error)})
            if not await _has_media(objects):
                return
        else:
            log.info("installation key written", extra={"store": objects.location})
    if key != (catalog_key or await catalog.installation.add_key(key)):
        raise StoreMismatch(objects.location, catalog.location)


async def verify_key(catalog: Catalog, files: ReadableObjects) -> None:
    """Check that a catalog and a store have the same key, before anything is cleaned up.

    Raises:
        StoreMismatch: their keys differ, or one has none.
        EmptyStore: the store has neither key nor media.
        UnfinishedCopy: not all media have been copied to the store.
        StorageError: the catalog or the store cannot be read.
    """
    store_key, catalog_key = await _read(files), await catalog.installation.find_key()
    if store_key and store_key == catalog_key:
        return
    if not store_key:
        if await _read(files, COPYING):
            raise UnfinishedCopy(files.location)
        if catalog_key and not await _has_media(files):
            raise EmptyStore(files.location, catalog.location)
    raise StoreMismatch(files.location, catalog.location)


async def refuse_foreign(target: ReadableObjects, key: str) -> None:
    """Refuse to copy the media of the installation with that key to a store that has others.

    Raises:
        ForeignMedia: it has.
        StorageError: it cannot be read.
    """
    keys = {await _read(target), await _read(target, COPYING)} - {""}
    if keys:
        if keys != {key}:
            raise ForeignMedia(target.location)
    elif await _has_media(target):
        raise ForeignMedia(target.location)


async def begin_copy(target: Objects, key: str) -> None:
    """Mark a store as an unfinished copy of the media of the installation with that key.

    Raises:
        ForeignMedia: it has other media; nothing was changed.
        StorageError: it cannot be read or written.
    """
    await refuse_foreign(target, key)
    await target.put(COPYING, f"{key}\n".encode(), vital=True)
    await target.make_durable(COPYING)


async def end_copy(target: Objects, key: str) -> None:
    """Give a store that now has all media the installation's key.

    Raises:
        StorageError: it cannot be written.
    """
    await target.put(INSTALLATION, f"{key}\n".encode(), vital=True)
    await target.make_durable(INSTALLATION)
    await target.delete(COPYING)


async def _begin(objects: Objects, key: str) -> str:
    """Give a store the key, unless another process was faster; return the key that it has."""
    version = await objects.version(INSTALLATION)  # of a file without a key, if there is one
    if faster := await _read(objects):
        return faster
    try:
        await objects.put_if(INSTALLATION, f"{key}\n".encode(), version, vital=True)
    except ObjectChanged:
        return await _read(objects)
    # A power cut might leave other bytes, which would look like another installation's.
    await objects.make_durable(INSTALLATION)
    return key


async def _read(files: ReadableObjects, address: str = INSTALLATION) -> str:
    try:
        return (await files.get(address)).decode(errors="replace").strip()
    except ObjectMissing:
        return ""


async def _is_anothers(files: ReadableObjects, turns: StoreClaims) -> bool:
    """Return whether the lease of a store is another catalog's."""
    try:
        lease = msgspec.json.decode(await files.get(LEASE), type=MediaLease)
    except (ObjectMissing, msgspec.MsgspecError):
        return False
    return lease.turn not in (await turns.read()).turns


async def _has_media(files: ReadableObjects) -> bool:
    for folder in _MEDIA:
        if any(map(is_hash, await files.folder_names(folder))):
            return True
    return False


async def _is_any_known(files: ReadableObjects, references: References) -> bool:
    """Return whether the catalog knows some of the media."""
    for folder in _MEDIA:
        existing = references.streams if folder == "live" else references.videos
        hashes = sorted(filter(is_hash, await files.folder_names(folder)))
        for start in range(0, len(hashes), _AT_ONCE):
            if await existing(hashes[start : start + _AT_ONCE]):
                return True
    return False
