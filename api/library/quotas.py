"""Quotas of projects: how many streams, bytes and minutes of files each may have.

Quotas are checked when something is added; what is there stays. Requests at the same moment may
exceed a quota by what they bring, and recordings are not stopped, though their bytes count. So do
those of clips, although they take room of their own only when what they were cut out of is gone.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from api.http.errors import ApiError
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.projects.usage import ProjectUsage

__all__ = ["QUOTA_DAYS", "ProjectQuotas", "QuotaLimits"]

QUOTA_DAYS: Final = 30  # over which minutes are counted
_DAY_US: Final = 24 * 3600 * MICROSECONDS
_MINUTE_US: Final = 60 * MICROSECONDS


class QuotaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of each project; 0 is none. `minutes` are of files added within `QUOTA_DAYS`."""

    streams: int = 0
    stored_bytes: int = 0
    minutes: int = 0


class ProjectQuotas:
    """Refuses what would exceed a project's quotas; without a quota nothing is counted."""

    def __init__(self, catalog: Catalog, limits: QuotaLimits, clock_us: Callable[[], int]) -> None:
        self._catalog = catalog
        self._limits = limits
        self._clock_us = clock_us

    async def require_stream(self, project: int) -> None:
        """Check that a project may have another stream.

        Raises:
            ApiError: 403 if it may not.
        """
        most = self._limits.streams
        if most and (await self._usage(project)).streams >= most:
            raise _exceeded(f"This project may have {most} streams, and has as many.")

    async def require_file(self, project: int, incoming: int | None) -> None:
        """Check that a project may have another file of `incoming` bytes; None is unknown.

        Raises:
            ApiError: 403 if it may not.
        """
        most_bytes, most_minutes = self._limits.stored_bytes, self._limits.minutes
        if not most_bytes and not most_minutes:
            return
        used = await self._usage(project)
        self._require_bytes(used, 1 if incoming is None else incoming, "file")
        minutes = used.file_us // _MINUTE_US
        if most_minutes and minutes >= most_minutes:
            raise _exceeded(
                f"This project may add files of {most_minutes} minutes within {QUOTA_DAYS} days,"
                f" and added {minutes}."
            )

    async def require_clip(self, project: int, size: int) -> None:
        """Check that a project may have a clip of `size` bytes, which is no file that was added.

        Raises:
            ApiError: 403 if it may not.
        """
        if self._limits.stored_bytes:
            self._require_bytes(await self._usage(project), size, "clip")

    def _require_bytes(self, used: ProjectUsage, incoming: int, what: str) -> None:
        most = self._limits.stored_bytes
        if most and used.stored_bytes + incoming > most:
            raise _exceeded(
                f"This project may store {most} bytes, and stores {used.stored_bytes}:"
                f" there is no room for this {what}."
            )

    async def _usage(self, project: int) -> ProjectUsage:
        since_us = self._clock_us() - QUOTA_DAYS * _DAY_US
        return await self._catalog.usage.find(project, since_us)


def _exceeded(message: str) -> ApiError:
    return ApiError(HTTPStatus.FORBIDDEN, message)
