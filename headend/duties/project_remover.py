"""Removes deleted projects in the background: jobs, media, then other rows, a few at a time.

The API only hides a project (`storage.catalog.projects.removal`). A process that is killed leaves
the rest to the next one; two at once do no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headend.duties.media_remover import StoredMedia
from storage.catalog.projects.removal import RemovedProjects
from storage.errors import StorageError

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 1.0


async def remove_projects(projects: RemovedProjects, media: StoredMedia) -> None:
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
    projects: RemovedProjects, media: StoredMedia, verify: Callable[[], Awaitable[None]]
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
