"""What happened to streams, for their owners: written once, read newest first, not kept for ever.

Each function runs within the caller's transaction.
"""

import json
from collections.abc import Mapping
from typing import Final

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from media.keys import PublicHash
from storage.catalog.records import EventRecord, Page
from storage.catalog.tables import events, streams

__all__ = ["KEPT", "PAGE_SIZE", "add", "find_page"]

PAGE_SIZE: Final = 10
# Of each project. An event is about 200 bytes; a stream in trouble writes one every few seconds.
KEPT: Final = 10_000
_TRIM_EVERY: Final = 100


async def add(
    connection: AsyncConnection,
    stream: PublicHash,
    kind: str,
    facts: Mapping[str, object],
    now_us: int,
) -> None:
    """Write an event of the stream down; of a stream that is gone there is nothing to tell."""
    found = (
        await connection.execute(
            select(streams.c.id, streams.c.project_id).where(streams.c.hash == stream)
        )
    ).one_or_none()
    if found is None:
        return
    number, project = found
    values = {
        "project_id": project,
        "stream_id": number,
        "kind": kind,
        "facts": json.dumps(facts, ensure_ascii=False),
        "created_us": now_us,
    }
    (made,) = (await connection.execute(insert(events).values(values).returning(events.c.id))).one()
    if made % _TRIM_EVERY == 0:
        await _trim(connection, project)


async def _trim(connection: AsyncConnection, project: int) -> None:
    mine = events.c.project_id == project
    newest = select(events.c.id).where(mine).order_by(events.c.id.desc())
    last = (await connection.execute(newest.offset(KEPT).limit(1))).scalar_one_or_none()
    if last is not None:
        await connection.execute(delete(events).where(mine, events.c.id <= last))


async def find_page(
    connection: AsyncConnection, project: int, *, since_us: int, page: int
) -> Page[EventRecord]:
    """Return a page of a project's events at or after a moment, newest first."""
    wanted = [events.c.project_id == project]
    if since_us:
        wanted.append(events.c.created_us >= since_us)
    total = (
        await connection.execute(select(func.count()).select_from(events).where(*wanted))
    ).scalar_one()
    offset = (page - 1) * PAGE_SIZE
    records: tuple[EventRecord, ...] = ()
    if offset < total:
        chosen = (
            select(events.c.id, streams.c.hash, events.c.kind, events.c.facts, events.c.created_us)
            .join(streams, streams.c.id == events.c.stream_id)
            .where(*wanted)
            .order_by(events.c.id.desc())
        )
        rows = (await connection.execute(chosen.limit(PAGE_SIZE).offset(offset))).all()
        records = tuple(
            EventRecord(
                id=number, stream=hash_, kind=kind, facts=json.loads(facts), created_us=created
            )
            for number, hash_, kind, facts, created in rows
        )
    return Page(items=records, total=total, number=page, size=PAGE_SIZE)
