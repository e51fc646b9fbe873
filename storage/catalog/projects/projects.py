"""Questions about projects. Each function runs within the caller's transaction."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash, new_hash
from storage.catalog.queries import counters, named_rows
from storage.catalog.records.common import Page, ProjectRecord
from storage.catalog.schema.tables import projects, streams, videos
from storage.catalog.streams import commands
from storage.catalog.streams.commands import Command, CommandKind
from storage.errors import NoSuchProject, ProjectKept

__all__ = [
    "add",
    "edit",
    "find",
    "find_first",
    "find_page",
    "found",
    "named_so",
    "remove",
    "require",
]

# Canonical numbers of 32-bit ids; anything else can only be a key.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
# Asked at nearly each call: made once, as making them costs more than the answer.
_NUMBERED: Final = select(projects).where(projects.c.id == bindparam("of"))
_KEYED: Final = select(projects).where(projects.c.key == bindparam("of"))


def _record(row: Row[Any]) -> ProjectRecord:  # Any: the row of a whole table has no static type
    return ProjectRecord(
        id=row.id,
        key=row.key,
        name=row.name,
        created_us=row.created_us,
        updated_us=row.updated_us,
        origins=tuple(row.origins.split()),
    )


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
    record = _record((await connection.execute(statement.returning(projects))).one())
    await counters.begin(connection, record.id)
    return record


async def find(connection: AsyncConnection, name: str) -> ProjectRecord | None:
    """Return the project whose number or key `name` is, as paths take either."""
    return found((await connection.execute(*named_so(name))).one_or_none())


def named_so(name: str) -> tuple[Select[Any], dict[str, object]]:
    """Return the question which project has this number or key; `found` reads the answer."""
    is_number = _NUMBER.fullmatch(name) is not None
    return (_NUMBERED, {"of": int(name)}) if is_number else (_KEYED, {"of": name})


def found(row: Row[Any] | None) -> ProjectRecord | None:  # Any: as in `_record`
    """Return the project of a row, where there is one."""
    return None if row is None else _record(row)


async def find_first(connection: AsyncConnection) -> int | None:
    """Return the number of the oldest project: the installation's own, which cannot be deleted.

    None where there is no project at all, as before the first start.
    """
    return (await connection.execute(select(func.min(projects.c.id)))).scalar_one()


async def find_page(
    connection: AsyncConnection, *, reach: int | None, page: int
) -> Page[ProjectRecord]:
    """Return a page of projects, newest first; `reach` is the only one to be shown, None all."""
    wanted = [] if reach is None else [projects.c.id == reach]
    order = (projects.c.id.desc(),)
    return await named_rows.page_of(
        connection, projects, wanted, order, _record, total=None, page=page
    )


async def require(connection: AsyncConnection, project: int) -> None:
    """See that there is a project with that number, and that nobody deletes it meanwhile.

    Raises:
        NoSuchProject: there is none.
    """
    asked = select(projects.c.id).where(projects.c.id == project)
    held = asked.with_for_update(read=True, key_share=True)
    if (await connection.execute(held)).one_or_none() is None:
        raise NoSuchProject(project)


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
    return None if row is None else _record(row)


class _Held(NamedTuple):
    """What a project holds, while nobody else can change it."""

    streams: Sequence[Row[Any]]  # Any: as in `_record`
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
        ProjectKept: it is the first one, or one of its streams is on air.
    """
    # Streams and videos first, the project last: who changes one of them holds its row already when
    # it writes an event, which waits for the project.
    held = await _hold(connection, project)
    asked = select(projects).where(projects.c.id == project).with_for_update()
    row = (await connection.execute(asked)).one_or_none()
    if row is None:
        return None
    if project == await find_first(connection):
        raise ProjectKept("The first project cannot be deleted.")
    if await _hashes(connection, project) != held.hashes:
        raise ProjectKept("Something was just added to this project: try again.")
    for stream in held.streams:
        if stream.live or stream.processing or stream.receiving_count:
            raise ProjectKept("A stream of this project is on air: end it first.")
        # An encoder may have leave to publish already, and not be seen yet.
        forget = Command(stream=stream.id, hash=stream.hash, kind=CommandKind.FORGET)
        await commands.ask(connection, forget, now_us)
    await connection.execute(delete(projects).where(projects.c.id == project))
    return _record(row), held.hashes
