"""Quotas of projects: how many streams, bytes and minutes of files each may have.

What exceeds a quota is refused when it is added; what exists already stays. `api.library.quotas`
checks requests, and the importer what it fetches. Recordings are not stopped, though their bytes
count. What is in the trash counts until it is removed for good. The bytes of clips count as well,
although a clip takes room of its own only once the media that it was cut from are deleted.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from media.ticks import DAY_US, MICROSECONDS
from storage.catalog.projects.usage import ProjectUsage, Usage
from storage.catalog.videos.past_files import PAST_DAYS

QUOTA_DAYS: Final = PAST_DAYS  # the period over which minutes are counted
_MINUTE_US: Final = 60 * MICROSECONDS


class QuotaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of each project; 0 is none. `minutes` limits files added within `QUOTA_DAYS`."""

    streams: int = 0
    stored_bytes: int = 0
    minutes: int = 0


NO_QUOTAS: Final = QuotaLimits()


class QuotaCheck:
    """Finds what would exceed a project's quotas; without a quota nothing is counted.

    `clock_us` is the catalog's clock.
    """

    def __init__(self, usage: Usage, limits: QuotaLimits, clock_us: Callable[[], int]) -> None:
        self._usage = usage
        self._limits = limits
        self._clock_us = clock_us

    @property
    def limits_files(self) -> bool:
        """True if there is a quota for files."""
        return bool(self._limits.stored_bytes or self._limits.minutes)

    @property
    def limits_minutes(self) -> bool:
        """True if there is a quota for minutes."""
        return bool(self._limits.minutes)

    @property
    def limits_streams(self) -> bool:
        """True if there is a quota for streams."""
        return bool(self._limits.streams)

    async def refuse_stream(self, project: int) -> str | None:
        """Return why a project may have no more streams; None if it may."""
        most = self._limits.streams
        if not most:
            return None
        usage = await self._find(project)
        if usage.streams < most:
            return None
        reason = f"This project may have {most} streams, and has as many"
        return f"{reason}{_in_trash(usage.trash_streams, '')}."

    async def refuse_file(self, project: int, incoming: int) -> str | None:
        """Return why a project may have no more files of `incoming` bytes; None if it may."""
        if not self.limits_files:
            return None
        usage = await self._find(project)
        return self._refuse_bytes(usage, incoming, "file") or self._refuse_minutes(usage)

    async def refuse_former_file(self, project: int) -> str | None:
        """Return why a project may not take a former file back; None if it may.

        It is stored already, so that its bytes count, and is transcoded again as a new one is.
        """
        if not self.limits_minutes:
            return None
        return self._refuse_minutes(await self._find(project))

    async def refuse_clip(self, project: int, incoming: int) -> str | None:
        """Return why a project may have no clip of `incoming` bytes; None if it may.

        The length of a clip does not count, since a clip is not an added file.
        """
        if not self._limits.stored_bytes:
            return None
        return self._refuse_bytes(await self._find(project), incoming, "clip")

    def _refuse_bytes(self, usage: ProjectUsage, incoming: int, what: str) -> str | None:
        most = self._limits.stored_bytes
        if not most or usage.stored_bytes + incoming <= most:
            return None
        return (
            f"This project may store {most} bytes, and stores {usage.stored_bytes}"
            f"{_in_trash(usage.trash_bytes, ' bytes')}: there is no room for this {what}."
        )

    def _refuse_minutes(self, usage: ProjectUsage) -> str | None:
        most = self._limits.minutes
        minutes = usage.file_us // _MINUTE_US
        if not most or minutes < most:
            return None
        return (
            f"This project may add files of {most} minutes within {QUOTA_DAYS} days,"
            f" and added {minutes}."
        )

    async def _find(self, project: int) -> ProjectUsage:
        since_us = self._clock_us() - QUOTA_DAYS * DAY_US
        return await self._usage.find(project, since_us)


def _in_trash(number: int, unit: str) -> str:
    """Return how much of what is used deleting for good would free; "" if nothing."""
    return f", of which {number}{unit} are in its trash" if number else ""
