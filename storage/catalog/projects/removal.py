"""Removes the rows of deleted projects, a few in a transaction (`catalog.removed_projects`).

`Projects.remove` hides a project; from then on nothing is added to it. Once it is not in the trash
(any more), it is removed. Rows with media are found
first, so that the caller removes the media before the rows: after a kill in between, the rest is
found again. Jobs go before all of this, so that no worker adds media, and everything else after it;
the project's own row is the last.
"""

from typing import Any, Final

import msgspec
from sqlalchemy import Table, delete, select

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.queries import project_lookup, removals
from storage.catalog.schema.tables import (
    categories,
    events,
    jobs,
    players,
    projects,
    streams,
    tags,
    videos,
)
from storage.catalog.schema.upload_tables import recordings, trash, upload_links, uploads
from storage.objects.addresses import slate_folder

# With their jobs, spans and renditions, 100 videos hold SQLite's write lock for about 20 ms: live
# streams, which write at each change of state, do not notice.
MAX_MEDIA_ROWS: Final = 100
MAX_OTHER_ROWS: Final = 500  # events above all, each with an index or two
# In the order in which transactions lock them (`storage.catalog.engine.lock_order`).
_WITH_MEDIA: Final = (streams, videos, uploads, recordings)
_OTHERS: Final = (upload_links, jobs, tags, categories, players, events)


class RemovedProject(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted project whose rows are not all removed yet."""

    id: int
    key: str


class RemovedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a deleted project that have media, by their numbers.

    The first four go by the names in `_WITH_MEDIA`. `hashes` are those of the streams, videos and
    recordings, `names` those of the uploads.
    """

    streams: tuple[int, ...]
    videos: tuple[int, ...]
    uploads: tuple[int, ...]
    recordings: tuple[int, ...]
    hashes: tuple[PublicHash, ...]
    names: tuple[str, ...]


class RemovedProjects(Repository):
    """The rows of deleted projects; each method is one transaction."""

    async def find(self) -> RemovedProject | None:
        """Return a deleted project whose rows are not all removed yet, and that is to stay so."""
        statement = select(projects.c.id, projects.c.key).where(
            ~project_lookup.IS_PRESENT, projects.c.id.not_in(project_lookup.IN_TRASH)
        )
        async with self._database.reading() as connection:
            row = (await connection.execute(statement.order_by(projects.c.id).limit(1))).first()
            return None if row is None else RemovedProject(id=row.id, key=row.key)

    async def find_rows(self, project: int) -> RemovedRows | None:
        """Return up to `MAX_MEDIA_ROWS` of a project's rows that have media; None if none do."""
        by_table: dict[str, list[int]] = {}
        hashes: list[PublicHash] = []
        names: list[str] = []
        remaining = MAX_MEDIA_ROWS
        async with self._database.reading() as connection:
            for table in _WITH_MEDIA:
                address = table.c.name if table is uploads else table.c.hash
                query = select(table.c.id, address).where(table.c.project_id == project)
                rows = (await connection.execute(query.order_by(table.c.id).limit(remaining))).all()
                by_table[table.name] = [number for number, _ in rows]
                (names if table is uploads else hashes).extend(each for _, each in rows)
                remaining -= len(rows)
        if remaining == MAX_MEDIA_ROWS:
            return None
        ids = {name: tuple(numbers) for name, numbers in by_table.items()}
        return RemovedRows(**ids, hashes=tuple(hashes), names=tuple(names))

    async def remove_jobs(self, project: int) -> bool:
        """Remove up to `MAX_MEDIA_ROWS` jobs of a project, with spans; return False if it has none.

        Workers that hold one of them notice it when they renew their leases.
        """
        async with self._database.writing() as connection:
            return await _remove_some(connection, jobs, project, MAX_MEDIA_ROWS)

    async def remove_rows(self, rows: RemovedRows) -> None:
        """Remove rows, and all that refers to them, and record that their media are to be deleted.

        What the caller has deleted already was perhaps added to since.
        """
        async with self._database.writing() as connection:
            for table in _WITH_MEDIA:
                numbers: tuple[int, ...] = getattr(rows, table.name)
                if numbers:
                    is_removed = table.c.id.in_(numbers)
                    locked = (
                        select(table.c.id).where(is_removed).order_by(table.c.id).with_for_update()
                    )
                    await connection.execute(locked)
                    await connection.execute(delete(table).where(is_removed))
            await removals.of_streams(connection, rows.hashes)
            await removals.of_videos(connection, rows.hashes)
            await removals.of_uploads(connection, rows.names)

    async def remove_rest(self, project: int) -> bool:
        """Remove up to `MAX_OTHER_ROWS` rows without media; return True once nothing is left.

        The rows with media must be gone already; the project's row is removed last.
        """
        async with self._database.writing() as connection:
            if await _empty_trash(connection, project):
                return False
            for table in _OTHERS:
                if await _remove_some(connection, table, project, MAX_OTHER_ROWS):
                    return False
            removed = delete(projects).where(projects.c.id == project).returning(projects.c.key)
            keys = (await connection.execute(removed)).scalars()
            await removals.record(connection, folders=[slate_folder(f"p-{key}") for key in keys])
            return True


async def _empty_trash(connection: AsyncConnection, project: int) -> bool:
    """Remove some of what the project has in the trash, whose media are to be deleted.

    Returns False if there is nothing.
    """
    some = select(trash.c.id).where(trash.c.project_id == project).order_by(trash.c.id)
    some = some.limit(MAX_MEDIA_ROWS).with_for_update()
    numbers = (await connection.execute(some)).scalars().all()
    old = delete(trash).where(trash.c.id.in_(numbers)).returning(trash.c.kind, trash.c.hash)
    deleted = (await connection.execute(old)).all()
    await removals.of_videos(connection, [row.hash for row in deleted if row.kind == "video"])
    await removals.of_streams(connection, [row.hash for row in deleted if row.kind == "stream"])
    return bool(deleted)


async def _remove_some(connection: AsyncConnection, table: Table, project: int, most: int) -> bool:
    """Remove up to `most` of a project's rows of a table; return False if it has none."""
    column: Any = table.c.id  # Any: the columns of a table that is not known here have no type
    query = select(column).where(table.c.project_id == project).order_by(column)
    numbers = (await connection.execute(query.limit(most).with_for_update())).scalars().all()
    if numbers:
        await connection.execute(delete(table).where(column.in_(numbers)))
    return bool(numbers)
