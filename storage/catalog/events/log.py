"""The event log of each project: what happened to its streams and videos, and what callers changed.

Owners read it, newest first. Only the newest `KEPT` events of a project are kept.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash
from storage.catalog.engine.database import Database
from storage.catalog.queries import named_rows
from storage.catalog.records.common import EventRecord, Page
from storage.catalog.schema.tables import events, streams, videos

__all__ = ["KEPT", "PAGE_SIZE", "EventLog", "record"]

PAGE_SIZE: Final = 10
# Of each project. An event is about 200 bytes; a stream in trouble writes one every few seconds.
KEPT: Final = 10_000
_TRIM_EVERY: Final = 100


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
    """Record an event, within the caller's transaction; an event of a stream is numbered.

    `kind` is a fixed phrase, `facts` must be fit for JSON and hold no secret, `subject` is the hash
    of the stream or video that it is about, `by` the number of the token that made the request.
    From then on the transaction holds the stream's row, and keeps the project from being deleted:
    a transaction that locks both must lock them in this order.
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
    (number,) = (
        await connection.execute(insert(events).values(values).returning(events.c.id))
    ).one()
    if number % _TRIM_EVERY == 0:
        await _trim(connection, project)


async def _next_number(connection: AsyncConnection, subject: PublicHash) -> int | None:
    """Return the number of a stream's next event; None if the event is not about a stream."""
    if not subject:
        return None
    increment = update(streams).where(streams.c.hash == subject)
    increment = increment.values(event_number=streams.c.event_number + 1)
    row = await connection.execute(increment.returning(streams.c.event_number))
    return row.scalar_one_or_none()


async def _trim(connection: AsyncConnection, project: int) -> None:
    of_project = events.c.project_id == project
    newest = select(events.c.id).where(of_project).order_by(events.c.id.desc())
    last = (await connection.execute(newest.offset(KEPT).limit(1))).scalar_one_or_none()
    if last is not None:
        await connection.execute(delete(events).where(of_project, events.c.id <= last))


class EventLog:
    """The events of a catalog (`catalog.events`); each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, subject: PublicHash, kind: str, facts: Mapping[str, object], now_us: int
    ) -> None:
        """Record an event of a stream or video; nothing is recorded of one that was deleted.

        `facts` must be fit for JSON.
        """
        async with self._database.writing() as connection:
            for table in (streams, videos):
                statement = select(table.c.project_id).where(table.c.hash == subject)
                project = (await connection.execute(statement)).scalar_one_or_none()
                if project is not None:
                    await record(connection, project, kind, facts, now_us, subject=subject)
                    return

    async def find_page(
        self, project: int, *, since_us: int = 0, page: int = 1, subject: PublicHash = ""
    ) -> Page[EventRecord]:
        """Return a page of a project's events, newest first.

        `since_us` leaves out older events, `subject` is the hash of the only stream or video whose
        events are wanted, "" for all.
        """
        conditions = [events.c.project_id == project]
        if since_us:
            conditions.append(events.c.created_us >= since_us)
        if subject:
            conditions.append(events.c.subject == subject)
        order = (events.c.id.desc(),)
        async with self._database.reading() as connection:
            # About `KEPT` at most: they need no total of their own.
            return await named_rows.page_of(
                connection, events, conditions, order, _record,
                total=None, page=page, size=PAGE_SIZE,
            )  # fmt: skip

    async def find_newest(
        self, project: int, subject: PublicHash, kinds: Collection[str]
    ) -> EventRecord | None:
        """Return the newest event of one of these kinds of a stream or video."""
        conditions = (
            events.c.project_id == project,
            events.c.subject == subject,
            events.c.kind.in_(kinds),
        )
        newest = select(events).where(*conditions).order_by(events.c.id.desc()).limit(1)
        async with self._database.reading() as connection:
            row = (await connection.execute(newest)).one_or_none()
        return None if row is None else _record(row)


def _record(row: Row[Any]) -> EventRecord:  # Any: the row of a whole table has no static type
    return EventRecord(
        id=row.id,
        subject=row.subject,
        kind=row.kind,
        facts=json.loads(row.facts),
        token=row.token_id,
        created_us=row.created_us,
        number=row.number,
    )
