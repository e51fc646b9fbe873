"""Removes recordings whose time is over: their rows, and their media to the trash."""

import logging
from typing import Final, Protocol

from media.stream_keys import PublicHash
from storage.catalog.queries.due import Due
from storage.cleanup.confirmation import require_usual
from storage.objects.addresses import video
from storage.objects.base import ObjectError, Objects
from storage.objects.trash import discard

__all__ = ["RECORDINGS", "ExpiringRecordings", "remove_expired_recordings"]

log = logging.getLogger(__name__)

RECORDINGS: Final = "recordings"


class ExpiringRecordings(Protocol):
    """The recordings in the catalog (see `storage.catalog.videos.recordings`)."""

    async def count_expired(self, now_us: int) -> Due:
        """Return how many recordings have expired, of those that will."""
        ...

    async def expire(self, now_us: int) -> PublicHash | None:
        """Delete the recorded video that expired first."""
        ...


async def remove_expired_recordings(
    objects: Objects, recordings: ExpiringRecordings, now_us: int, *, confirmed: bool = False
) -> int:
    """Remove the recordings that have expired, and return their number.

    Media that cannot be moved are left to the cleanup of orphans, since no row names them any more.

    Raises:
        TooMuchDue: so many have expired that an operator must confirm it.
        StorageError: the catalog failed; the rest remains.
    """
    require_usual(RECORDINGS, await recordings.count_expired(now_us), confirmed=confirmed)
    count = 0
    while (hash_ := await recordings.expire(now_us)) is not None:
        try:
            await discard(objects, video(hash_), now_us)
        except ObjectError as error:
            log.warning("media not removed", extra={"video": hash_, "cause": str(error)})
        count += 1
    return count
