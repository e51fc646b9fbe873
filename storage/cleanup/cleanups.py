"""The cleanups of an installation, which roles repeat; `headend doctor --clean` does each once.

All go by the catalog's clock, which every process shares. With SQLite that is the host's own.
"""

from functools import partial
from typing import Final

from storage.catalog import Catalog
from storage.cleanup.confirmation import TooMuchDue, is_unusual
from storage.cleanup.expired_media import RECORDINGS, remove_expired_media
from storage.cleanup.expired_records import remove_expired_records
from storage.cleanup.expired_uploads import LINKS, UPLOADS, remove_expired_uploads, remove_old_links
from storage.cleanup.old_trash import empty_old_trash
from storage.cleanup.orphans import remove_orphans
from storage.cleanup.periodic import Cleanup
from storage.cleanup.store_clock import store_now_us
from storage.objects.base import Objects

_TEN_MINUTES: Final = 600.0
_HOUR: Final = 3600.0


def upload_cleanups(objects: Objects, catalog: Catalog) -> tuple[Cleanup, ...]:
    """Return the cleanups of unfinished uploads and of links."""

    async def clean(now_us: int, /, *, confirmed: bool) -> int:
        store_us = await store_now_us(objects, now_us)
        return await remove_expired_uploads(
            objects, catalog.uploads, now_us, store_us=store_us, confirmed=confirmed
        )

    links = partial(remove_old_links, catalog.links)
    return (
        Cleanup(what="expired uploads", seconds=_TEN_MINUTES, clean=clean),
        Cleanup(what="old upload links", seconds=_TEN_MINUTES, clean=links),
    )


def media_cleanups(objects: Objects, catalog: Catalog, *, trash_days: int) -> tuple[Cleanup, ...]:
    """Return the cleanups of stored media; the trash, which most of them fill, is the last."""

    async def clean(now_us: int, /, *, confirmed: bool) -> int:
        store_us = await store_now_us(objects, now_us)
        return await remove_orphans(
            objects, catalog.references, now_us, store_us=store_us, confirmed=confirmed
        )

    recordings = partial(remove_expired_media, objects, catalog.recordings, what=RECORDINGS)
    deleted = partial(remove_expired_records, catalog.trash)
    trash = partial(empty_old_trash, objects, days=trash_days)
    return (
        Cleanup(what="expired recordings", seconds=_HOUR, clean=recordings),
        Cleanup(what="deleted records", seconds=_HOUR, clean=deleted),
        Cleanup(what="orphans", seconds=6 * _HOUR, clean=clean),
        Cleanup(what="old trash", seconds=_HOUR, clean=trash),
    )


def log_cleanups(catalog: Catalog) -> tuple[Cleanup, ...]:
    """Return the cleanup of the event log; it bounds what a wrong clock takes, so never stops."""

    async def clean(now_us: int, /, *, confirmed: bool) -> int:
        del confirmed
        return await catalog.events.remove_old(now_us)

    return (Cleanup(what="old events", seconds=_HOUR, clean=clean),)


async def find_stopped(catalog: Catalog, now_us: int) -> tuple[TooMuchDue, ...]:
    """Return why cleanups of rows stop until an operator confirms that so much is over.

    Raises:
        StorageError: the catalog failed.
    """
    found = (
        (RECORDINGS, await catalog.recordings.count_expired(now_us)),
        (UPLOADS, await catalog.uploads.count_expired(now_us)),
        (LINKS, await catalog.links.count_expired(now_us)),
    )
    return tuple(TooMuchDue(what, due) for what, due in found if is_unusual(due.count, due.total))
