"""The pictures that stand in while nobody is on air: which a stream has, which a project.

A picture is an object by its owner and a name (`storage.objects.addresses.slate_picture`); only the
name is kept here. Names are never used twice, so an address always shows one picture. Each function
runs within the caller's transaction.
"""

import msgspec
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.events import log as event_log
from storage.catalog.queries.named_rows import MOST
from storage.catalog.records.settings import Chosen
from storage.catalog.schema.tables import projects, streams
from storage.catalog.streams import settings as stream_settings
from storage.catalog.streams.settings import own_slate, project_slate

__all__ = ["SlateSet", "set_project", "set_stream"]


class SlateSet(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that was set or taken back: what is set now, and the one that is to be removed."""

    chosen: Chosen
    before: str | None


async def set_stream(
    connection: AsyncConnection, stream: int, name: str | None, now_us: int, by: int | None
) -> SlateSet | None:
    """Give a stream the picture of that name, or with None take its own back.

    None is returned where there is no such stream.
    """
    if not 0 < stream <= MOST:
        return None
    table = streams.c
    asked = select(table.hash, table.project_id, table.slate).where(table.id == stream)
    row = (await connection.execute(asked.with_for_update())).one_or_none()
    if row is None:
        return None
    if row.slate != name:
        changed = update(streams).where(table.id == stream)
        values = {"slate": name, "updated_us": now_us, "version": table.version + 1}
        await connection.execute(changed.values(values))
        kind = "stream slate changed"
        facts = {"stream": stream, "picture": name is not None}
        await event_log.record(
            connection, row.project_id, kind, facts, now_us, subject=row.hash, by=by
        )
    chosen = await stream_settings.find_stream(connection, stream)
    before = own_slate(row.hash, row.slate)
    return None if chosen is None else SlateSet(chosen=chosen, before=_other(before, chosen))


async def set_project(
    connection: AsyncConnection, project: int, name: str | None, now_us: int, by: int | None
) -> SlateSet | None:
    """Give a project's streams that have none of their own a picture; as `set_stream`."""
    table = projects.c
    asked = select(table.key, table.slate).where(table.id == project)
    row = (await connection.execute(asked.with_for_update())).one_or_none()
    if row is None:
        return None
    if row.slate != name:
        changed = update(projects).where(table.id == project)
        values = {"slate": name, "updated_us": now_us, "version": table.version + 1}
        await connection.execute(changed.values(values))
        facts = {"picture": name is not None}
        kind = "project slate changed"
        await event_log.record(connection, project, kind, facts, now_us, by=by)
    chosen = await stream_settings.find_project(connection, project)
    before = project_slate(row.key, row.slate)
    return None if chosen is None else SlateSet(chosen=chosen, before=_other(before, chosen))


def _other(before: str | None, chosen: Chosen) -> str | None:
    return None if before == chosen.slate else before
