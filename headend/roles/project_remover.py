"""Removes deleted projects in the background: jobs, media, then other rows, a few at a time.

The API only hides a project (`storage.catalog.projects.removal`). A process that is killed leaves
the rest to the next one; two at once do no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from media.stream_keys import PublicHash
from storage.catalog.projects.removal import RemovedProjects
from storage.errors import StorageError

__all__ = ["ProjectMedia", "keep_removing_projects", "remove_projects"]

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 1.0


class ProjectMedia(Protocol):
    """Removes media (see `headend.roles.media_remover.StoredMedia`); failures are only logged."""

    async def remove(self, hashes: Sequence[PublicHash]) -> None:
        """Delete all media of streams, videos and recordings."""
        ...

    async def remove_uploads(self, names: Sequence[str]) -> None:
        """Delete the bytes of uploads."""
        ...

    async def remove_project(self, key: str) -> None:
        """Delete a project's own slate picture."""
        ...


async def remove_projects(projects: RemovedProjects, media: ProjectMedia) -> None:
    """Remove the media and rows of all deleted projects.

    Raises:
        StorageError: the catalog failed; the rest remains for the next call.
    """
    while (project := await projects.find()) is not None:
        while await projects.remove_jobs(project.id):
            pass
        while (rows := await projects.find_rows(project.id)) is not None:
            await media.remove(rows.hashes)
            await media.remove_uploads(rows.names)
            await projects.remove_rows(rows)
        await media.remove_project(project.key)
        while not await projects.remove_rest(project.id):
            pass
        log.info("project removed", extra={"project": project.id})


async def keep_removing_projects(
    projects: RemovedProjects, media: ProjectMedia, verify: Callable[[], Awaitable[None]]
) -> None:
    """Remove deleted projects within a second, until cancelled; after a failure, try again.

    `verify` raises `StorageError` unless media and catalog belong together; then nothing is done.
    """
    failed = False
    while True:
        try:
            if await projects.find() is not None:
                await verify()
                await remove_projects(projects, media)
            failed = False
        except StorageError as error:
            if not failed:  # logged once per outage
                log.warning("projects not removed", extra={"cause": str(error)})
            failed = True
        await asyncio.sleep(_INTERVAL_SECONDS)
