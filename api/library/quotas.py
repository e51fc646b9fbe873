"""Quotas of projects, checked for requests: what would exceed one is answered with 403.

Files that are being received count, so concurrent requests do not exceed a quota together. Each
process counts those that it receives.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from litestar.di import NamedDependency

from api.http.errors import ApiError
from storage.quotas import QuotaCheck


class ProjectQuotas:
    """Refuses what would exceed a project's quotas."""

    def __init__(self, check: QuotaCheck) -> None:
        self._check = check
        self._checking = asyncio.Lock()
        self._incoming: Counter[int] = Counter()  # bytes, by project

    @asynccontextmanager
    async def adding_stream(self, project: int) -> AsyncGenerator[None]:
        """Add a stream in the block.

        Raises:
            ApiError: 403 if the project may have no more.
        """
        if not self._check.limits_streams:
            yield
            return
        async with self._checking:  # one at a time, so that no other is added in between
            _raise(await self._check.refuse_stream(project))
            yield

    @asynccontextmanager
    async def adding_file(self, project: int, incoming: int) -> AsyncGenerator[None]:
        """Receive and add a file of at most `incoming` bytes in the block.

        Raises:
            ApiError: 403 if the project may have no more.
        """
        async with self._adding(project, incoming, self._check.refuse_file):
            yield

    @asynccontextmanager
    async def taking_back(self, project: int) -> AsyncGenerator[None]:
        """Take a former file back in the block.

        Raises:
            ApiError: 403 if the project may have no more transcoded.
        """
        if not self._check.limits_minutes:
            yield
            return
        async with self._checking:  # one at a time, as streams
            _raise(await self._check.refuse_former_file(project))
            yield

    @asynccontextmanager
    async def adding_clip(self, project: int, size: int) -> AsyncGenerator[None]:
        """Make and add a clip of `size` bytes in the block.

        Raises:
            ApiError: 403 if the project may have no more.
        """
        async with self._adding(project, size, self._check.refuse_clip):
            yield

    @asynccontextmanager
    async def _adding(
        self, project: int, incoming: int, refuse: Callable[[int, int], Awaitable[str | None]]
    ) -> AsyncGenerator[None]:
        if not self._check.limits_files:
            yield
            return
        async with self._checking:
            # Before the query: a file that is added meanwhile counts twice rather than not at all.
            other_bytes = self._incoming[project]
            _raise(await refuse(project, other_bytes + incoming))
            self._incoming[project] += incoming
        try:
            yield
        finally:
            self._incoming[project] -= incoming
            if not self._incoming[project]:
                del self._incoming[project]


GivenQuotas = NamedDependency[ProjectQuotas]  # of a handler


def _raise(reason: str | None) -> None:
    if reason is not None:
        raise ApiError(HTTPStatus.FORBIDDEN, reason)
