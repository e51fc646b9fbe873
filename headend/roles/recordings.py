"""Recordings of live runs: who makes them, and who takes them away when their time is over."""

import asyncio
import logging
import shutil
from collections.abc import Callable
from typing import Final

from api.http.filenames import slug
from headend.roles.adapters import CatalogChronicle
from headend.roles.context import Ground, wall_us
from headend.roles.media_remover import StoredMedia
from storage.catalog.videos.recordings import Recordings
from storage.errors import StorageError
from storage.recording.recorder import Recorder

__all__ = ["expire_recordings", "keep_expired_away", "recorder_on"]

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 3600.0


def recorder_on(ground: Ground) -> Recorder:
    """Return what records the runs of this process; nothing is done before `run`."""
    objects = ground.objects
    return Recorder(
        objects=objects,
        catalog=ground.catalog.recordings,
        free_bytes=lambda: shutil.disk_usage(objects.root).free,
        min_free_bytes=ground.settings.storage.min_free_bytes,
        now_us=wall_us,
        name_of=slug,
        write_event=CatalogChronicle(ground.catalog, wall_us).happened,
    )


async def expire_recordings(recordings: Recordings, media: StoredMedia, now_us: int) -> int:
    """Delete the recordings whose time is over; returns how many.

    Raises:
        StorageError: the catalog did not answer; what is left is left.
    """
    gone = 0
    while (hash_ := await recordings.expire(now_us)) is not None:
        await media.remove([hash_])
        gone += 1
    return gone


async def keep_expired_away(
    recordings: Recordings, media: StoredMedia, now_us: Callable[[], int]
) -> None:
    """Delete recordings whose time is over, now and every hour, until cancelled."""
    while True:
        try:
            gone = await expire_recordings(recordings, media, now_us())
        except StorageError as error:
            log.warning("recordings not expired", extra={"cause": str(error)})
        else:
            if gone:
                log.info("recordings expired", extra={"videos": gone})
        await asyncio.sleep(_AGAIN_SECONDS)
