"""The installation key: shows that a catalog and an object store belong together.

The key is a random text, kept in the catalog's row of the installation and in the store's object
`installation`. It is an identity, not a secret. To a catalog that is empty or foreign, all media
appear unneeded: therefore no process starts, and no cleanup runs, on the store of another
installation.

The first start writes the key to both. Any start adds a missing half: a store that an older version
wrote has no key, and neither has a catalog that was restored from a backup of such a version. Then
the two belong together if the store has no media, or if the catalog knows some of them: hashes are
random, so one in common is proof.

A store that media are being copied to (`storage.objects.copying`) has the key in another object
until all of them are there, and no process starts on it.
"""

import logging
import secrets
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from media.stream_keys import PublicHash, is_hash
from storage.errors import StorageError
from storage.objects.addresses import COPYING, INSTALLATION
from storage.objects.base import ObjectError, ObjectMissing, Objects

__all__ = [
    "ForeignMedia",
    "KeyCatalog",
    "KnownMedia",
    "MediaFolders",
    "ReadableKey",
    "StoreMismatch",
    "UnfinishedCopy",
    "begin_copy",
    "bind",
    "end_copy",
    "refuse_media",
    "verify",
]

log = logging.getLogger(__name__)

_KEY_BYTES: Final = 16  # random: no two installations ever share a key
_MEDIA: Final = ("sources", "videos", "live")
_AT_ONCE: Final = 500


class StoreMismatch(StorageError):
    """The media in `store` do not belong to the catalog at `catalog`."""

    def __init__(self, store: str, catalog: str) -> None:
        super().__init__(
            f"the media in {store} do not belong to the catalog at {catalog}: use the database that"
            " they belong to (setting database.url, or a restored backup), or move that folder away"
            " to begin without them"
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
            f"the media in {store} are an unfinished copy: with the settings that name the whole"
            " media, run `headend migrate --media-to` again"
        )
        self.store = store


class MediaFolders(Protocol):
    """A store whose folders can be listed."""

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`."""
        ...


class ReadableKey(Protocol):
    """A store whose key can be read."""

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""
        ...


class KeyCatalog(Protocol):
    """The catalog's half of the key (see `storage.catalog.projects.installation`)."""

    async def find_key(self) -> str:
        """Return the key, "" if there is none yet."""
        ...

    async def add_key(self, key: str) -> str:
        """Store the key unless there is one already; return the one that is stored then."""
        ...


class KnownMedia(Protocol):
    """The media that the catalog knows (see `storage.catalog.maintenance.references`)."""

    async def videos(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes that belong to videos or recordings."""
        ...

    async def streams(self, hashes: Sequence[PublicHash]) -> Collection[PublicHash]:
        """Return those of some hashes that belong to streams, or to runs still being recorded."""
        ...


async def refuse_media(files: MediaFolders, *, store: str, catalog: str) -> None:
    """Refuse to create a catalog for a store that holds media.

    `store` and `catalog` are their places, for the message.

    Raises:
        StoreMismatch: the store holds media.
        ObjectError: the store cannot be read.
    """
    for folder in _MEDIA:
        if any(map(is_hash, await files.folder_names(folder))):
            raise StoreMismatch(store, catalog)


async def bind(
    objects: Objects, keys: KeyCatalog, references: KnownMedia, *, store: str, catalog: str
) -> None:
    """Check that a catalog and a store belong together; write the missing halves of the key.

    A store that cannot be written to now, such as one on a full disk, gets its half at a later
    start. `store` and `catalog` are their places, for the message.

    Raises:
        StoreMismatch: they do not belong together; nothing was changed.
        UnfinishedCopy: not all media have been copied to the store.
        StorageError: the catalog or the store cannot be read.
    """
    if await _read(objects, COPYING):
        raise UnfinishedCopy(store)
    store_key, catalog_key = await _read(objects), await keys.find_key()
    if store_key and store_key == catalog_key:
        return
    if (store_key and catalog_key) or not await _is_plausible(objects, references):
        raise StoreMismatch(store, catalog)
    key = catalog_key or await keys.add_key(store_key or secrets.token_hex(_KEY_BYTES))
    if store_key:
        if key != store_key:  # another process was faster, with another store
            raise StoreMismatch(store, catalog)
        return
    try:
        await objects.put(INSTALLATION, f"{key}\n".encode(), vital=True)
        # A power cut might leave other bytes, which would look like another installation's.
        await objects.make_durable(INSTALLATION)
    except ObjectError as error:
        log.warning("installation key not written", extra={"cause": str(error)})
    else:
        log.info("installation key written", extra={"store": store})


async def verify(objects: ReadableKey, keys: KeyCatalog, *, store: str, catalog: str) -> None:
    """Check that a catalog and a store have the same key, before anything is cleaned up.

    Raises:
        StoreMismatch: their keys differ, or one has none.
        UnfinishedCopy: not all media have been copied to the store.
        StorageError: the catalog or the store cannot be read.
    """
    key = await _read(objects)
    if not key or key != await keys.find_key():
        if await _read(objects, COPYING):
            raise UnfinishedCopy(store)
        raise StoreMismatch(store, catalog)


async def begin_copy(target: Objects, key: str, *, store: str) -> None:
    """Mark a store as an unfinished copy of the media of the installation with that key.

    `store` is its place, for the message.

    Raises:
        ForeignMedia: it has other media; nothing was changed.
        StorageError: it cannot be read or written.
    """
    keys = {await _read(target), await _read(target, COPYING)} - {""}
    if keys:
        if keys != {key}:
            raise ForeignMedia(store)
    else:
        for folder in _MEDIA:
            if any(map(is_hash, await target.folder_names(folder))):
                raise ForeignMedia(store)
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


async def _read(objects: ReadableKey, address: str = INSTALLATION) -> str:
    try:
        return (await objects.get(address)).decode(errors="replace").strip()
    except ObjectMissing:
        return ""


async def _is_plausible(objects: MediaFolders, references: KnownMedia) -> bool:
    """Return whether the catalog knows some of the media, or there are none."""
    is_empty = True
    for folder, existing in (
        ("sources", references.videos),
        ("videos", references.videos),
        ("live", references.streams),
    ):
        hashes = [name for name in await objects.folder_names(folder) if is_hash(name)]
        is_empty = is_empty and not hashes
        for start in range(0, len(hashes), _AT_ONCE):
            if await existing(hashes[start : start + _AT_ONCE]):
                return True
    return is_empty
