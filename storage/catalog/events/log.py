"""What happened in a project, for its owner: written once, read newest first, not kept for ever.

Things that happened to streams and videos, and what callers changed, with the token's number. Each
function runs within the caller's transaction.
"""

import json
from collections.abc import Mapping
from typing import Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash
from storage.catalog.records.common import EventRecord, Page
from storage.catalog.schema.tables import events, streams, videos

__all__ = ["KEPT", "PAGE_SIZE", "add", "find_page", "record"]

PAGE_SIZE: Final = 10
# Of each project. An event is about 200 bytes; a stream in trouble writes one every few seconds.
KEPT: Final = 10_000
_TRIM_EVERY: Final = 100


async def add(
    connection: AsyncConnection,
    subject: PublicHash,
    kind: str,
    facts: Mapping[str, object],
    now_us: int,
) -> None:
    """Write an event of a stream or video down; of one that is gone there is nothing to tell."""
    for table in (streams, videos):
        asked = select(table.c.project_id).where(table.c.hash == subject)
        project = (await connection.execute(asked)).scalar_one_or_none()
        if project is not None:
            await record(connection, project, kind, facts, now_us, subject=subject)
            return


async def record(
    connection: AsyncConnection,
    project: int,
    kind: str,
    facts: Mapping[str, object],
    now_us: int,
    *,
    subject: PublicHash = "",
    by: int | None = None,
) -> None:
    """Write an event down; one of a stream has the next of the stream's own numbers.

    `kind` is a fixed phrase, `facts` must be fit for JSON and hold no secret, `subject` is the hash
    of the stream or video that it is about, `by` the number of the token whose bearer did it. From
    then on the transaction holds the stream's row, and the project's against being deleted: who
    takes both takes them in that order.
    """
    values = {
        "project_id": project,
        "subject": subject,
        "kind": kind,
        "facts": json.dumps(facts, ensure_ascii=False),
        "token_id": by,
        "created_us": now_us,
        "number": await _next_number(connection, subject),
    }
    (made,) = (await connection.execute(insert(events).values(values).returning(events.c.id))).one()
    if made % _TRIM_EVERY == 0:
        await _trim(connection, project)


async def _next_number(connection: AsyncConnection, subject: PublicHash) -> int | None:
    """Count an event of a stream; None for what happened to a video, or to nothing of a name."""
    if not subject:
        return None
    raised = update(streams).where(streams.c.hash == subject)
    raised = raised.values(event_number=streams.c.event_number + 1)
    row = await connection.execute(raised.returning(streams.c.event_number))
    return row.scalar_one_or_none()


async def _trim(connection: AsyncConnection, project: int) -> None:
    mine = events.c.project_id == project
    newest = select(events.c.id).where(mine).order_by(events.c.id.desc())
    last = (await connection.execute(newest.offset(KEPT).limit(1))).scalar_one_or_none()
    if last is not None:
        await connection.execute(delete(events).where(mine, events.c.id <= last))


async def find_page(
    connection: AsyncConnection, project: int, *, since_us: int, page: int, subject: PublicHash = ""
) -> Page[EventRecord]:
    """Return a page of a project's events at or after a moment, newest first.

    `subject` is the hash of the stream or video whose to show, "" for all.
    """
    table = events.c
    wanted = [table.project_id == project]
    if since_us:
        wanted.append(table.created_us >= since_us)
    if subject:
        wanted.append(table.subject == subject)
    # At most `KEPT` and a few: no total need be kept for them.
    total = (
        await connection.execute(select(func.count()).select_from(events).where(*wanted))
    ).scalar_one()
    offset = (page - 1) * PAGE_SIZE
    records: tuple[EventRecord, ...] = ()
    if offset < total:
        chosen = (
            select(
                table.id,
                table.subject,
                table.kind,
                table.facts,
                table.token_id,
                table.created_us,
                table.number,
            )
            .where(*wanted)
            .order_by(table.id.desc())
        )
        rows = (await connection.execute(chosen.limit(PAGE_SIZE).offset(offset))).all()
        records = tuple(
            EventRecord(
                id=id_,
                subject=whose,
                kind=kind,
                facts=json.loads(facts),
                token=token,
                created_us=created,
                number=number,
            )
            for id_, whose, kind, facts, token, created, number in rows
        )
    return Page(items=records, total=total, number=page, size=PAGE_SIZE)
