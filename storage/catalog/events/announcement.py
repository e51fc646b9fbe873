"""Announces an event: whatever follows from it, by its type, in the transaction of the change.

A logged event gets a row in the log of its project, one that is broadcast a row in the outbox of
the web-sockets, with the state that its stream or video has at that moment, and one that is an
alert is queued for the operators who want mail of it. An announcement of several events broadcasts
that state once, so callers announce after they have changed the row.

Rows of the log are written last in a transaction, under the lock that orders the outbox
(`storage.catalog.engine.lock_order`): their numbers rise in the order in which transactions end, so
that a reader who has seen one never finds a lower one later. The event's number among those of its
stream is taken at once, while the stream's row is locked.
"""

import json
from collections.abc import Sequence
from functools import partial

from sqlalchemy import insert, select, update

from media.stream_events import OwnerEvent, StreamEvent
from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.lock_order import Rank, defer, lock_numbers
from storage.catalog.events import broadcast
from storage.catalog.events.kinds import VideoEvent
from storage.catalog.queries.alerts import queue_events
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import events as log_rows
from storage.catalog.schema.tables import projects, streams


async def announce(
    connection: AsyncConnection,
    project: int,
    subject: PublicHash,
    *events: OwnerEvent,
    change: Change,
    host: str | None = None,
) -> None:
    """Announce events of one stream or video, or of a project, within the caller's transaction.

    `subject` is the hash of the stream or video, "" for neither, `host` the name of the host that
    serves the stream where there are several: it is added to the facts. From then on the
    transaction holds the stream's row, and keeps the project from being deleted: a transaction that
    locks both must lock them in this order.
    """
    await queue_events(connection, project, subject, events, change.now_us)
    logged = [each for each in events if each.is_logged]
    if logged:
        numbers = await _take_numbers(connection, subject, logged)
        await _hold_project(connection, project)
        rows: list[dict[str, object]] = [
            {
                "project_id": project,
                "subject": subject,
                "kind": each.kind,
                "facts": _text(each, host),
                "token_id": change.by,
                "created_us": change.now_us,
                "number": number,
            }
            for each, number in zip(logged, numbers, strict=True)
        ]
        defer(connection, Rank.EVENTS, partial(_write, rows=rows))
    shown = [each for each in events if each.is_broadcast]
    if shown:
        alone = [each.facts for each in shown if not each.is_logged]
        extra = {name: value for facts in alone for name, value in facts.items()}
        if isinstance(shown[0], VideoEvent):
            await broadcast.enqueue_video(connection, subject, change.now_us, extra=extra)
        else:
            await broadcast.enqueue_stream(connection, subject, change.now_us)


def _text(event: OwnerEvent, host: str | None) -> str:
    facts = event.facts if host is None else {**event.facts, "host": host}
    return json.dumps(facts, ensure_ascii=False)


async def _take_numbers(
    connection: AsyncConnection, subject: PublicHash, events: Sequence[OwnerEvent]
) -> Sequence[int | None]:
    """Return the numbers of a stream's next events; None for those that are not of a stream."""
    if not isinstance(events[0], StreamEvent):
        return [None] * len(events)
    column = streams.c.event_number
    increment = update(streams).where(streams.c.hash == subject)
    increment = increment.values(event_number=column + len(events)).returning(column)
    newest = (await connection.execute(increment)).scalar_one_or_none()
    if newest is None:  # it is deleted
        return [None] * len(events)
    return range(newest - len(events) + 1, newest + 1)


async def _hold_project(connection: AsyncConnection, project: int) -> None:
    """Lock the project against deletion; the insertion would, but only at the end.

    There the transaction holds the lock of all numbers, which whoever holds the project waits for.
    """
    if connection.dialect.name == "postgresql":
        query = select(projects.c.id).where(projects.c.id == project)
        await connection.execute(query.with_for_update(read=True, key_share=True))


async def _write(connection: AsyncConnection, *, rows: list[dict[str, object]]) -> None:
    await lock_numbers(connection)
    # One statement for all: both databases number the rows in their order.
    await connection.execute(insert(log_rows), rows)
