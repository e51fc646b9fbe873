"""Questions about projects. Each function runs within the caller's transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash, new_hash
from storage.catalog.queries import counters, named_rows, project_lookup
from storage.catalog.records.common import Page, ProjectRecord
from storage.catalog.schema.tables import projects, streams, videos
from storage.catalog.streams import commands
from storage.catalog.streams.commands import Command, CommandKind
from storage.errors import ProjectNotDeletable

__all__ = ["add", "edit", "find_page", "remove"]


def _new_key() -> str:
    """Return a short string that no number can be taken for: it begins with a letter."""
    while (key := new_hash())[0].isdigit():
        pass
    return key


async def add(connection: AsyncConnection, name: str, now_us: int) -> ProjectRecord:
    """Make a project."""
    statement = insert(projects).values(
        key=_new_key(), name=name, created_us=now_us, updated_us=now_us
    )
    record = project_lookup.record((await connection.execute(statement.returning(projects))).one())
    await counters.begin(connection, record.id)
    return record


async def find_page(
    connection: AsyncConnection, *, reach: int | None, page: int
) -> Page[ProjectRecord]:
    """Return a page of projects, newest first; `reach` is the only one to be shown, None all."""
    wanted = [] if reach is None else [projects.c.id == reach]
    order = (projects.c.id.desc(),)
    return await named_rows.page_of(
        connection, projects, wanted, order, project_lookup.record, total=None, page=page
    )


async def edit(
    connection: AsyncConnection, project: int, values: Mapping[str, str], now_us: int
) -> ProjectRecord | None:
    """Set columns of a project; None where there is no such project (any more)."""
    statement = (
        update(projects)
        .where(projects.c.id == project)
        .values(version=projects.c.version + 1, updated_us=now_us, **values)
    )
    row = (await connection.execute(statement.returning(projects))).one_or_none()
    return None if row is None else project_lookup.record(row)


class _Held(NamedTuple):
    """What a project holds, while nobody else can change it."""

    streams: Sequence[Row[Any]]  # Any: the row of a whole table has no static type
    hashes: tuple[PublicHash, ...]  # of the streams and videos


async def _hold(connection: AsyncConnection, project: int) -> _Held:
    """Hold a project's streams, so that none of them goes on air, and its videos."""
    mine = select(streams).where(streams.c.project_id == project).order_by(streams.c.id)
    rows = (await connection.execute(mine.with_for_update())).all()
    theirs = select(videos.c.hash).where(videos.c.project_id == project).order_by(videos.c.id)
    of_videos = (await connection.execute(theirs.with_for_update())).scalars()
    return _Held(rows, (*(row.hash for row in rows), *of_videos))


async def _hashes(connection: AsyncConnection, project: int) -> tuple[PublicHash, ...]:
    """Return the hashes of a project's streams and videos as they are now."""
    found: list[PublicHash] = []
    for table in (streams, videos):
        mine = select(table.c.hash).where(table.c.project_id == project).order_by(table.c.id)
        found += (await connection.execute(mine)).scalars()
    return tuple(found)


async def remove(
    connection: AsyncConnection, project: int, now_us: int
) -> tuple[ProjectRecord, tuple[PublicHash, ...]] | None:
    """Delete a project with all that it holds; None where there is none.

    Returns what it was, and the hashes of the streams and videos whose media must go too.

    Raises:
        ProjectNotDeletable: it is the first one, or one of its streams is on air.
    """
    # Streams and videos first, the project last: who changes one of them holds its row already when
    # it writes an event, which waits for the project.
    held = await _hold(connection, project)
    asked = select(projects).where(projects.c.id == project).with_for_update()
    row = (await connection.execute(asked)).one_or_none()
    if row is None:
        return None
    if project == await project_lookup.find_first(connection):
        raise ProjectNotDeletable("The first project cannot be deleted.")
    if await _hashes(connection, project) != held.hashes:
        raise ProjectNotDeletable("Something was just added to this project: try again.")
    for stream in held.streams:
        if stream.live or stream.processing or stream.receiving_count:
            raise ProjectNotDeletable("A stream of this project is on air: end it first.")
        # An encoder may have leave to publish already, and not be seen yet.
        forget = Command(stream=stream.id, hash=stream.hash, kind=CommandKind.FORGET)
        await commands.ask(connection, forget, now_us)
    await connection.execute(delete(projects).where(projects.c.id == project))
    return project_lookup.record(row), held.hashes
