"""The event log of each project: what happened to its streams and videos, and what callers changed.

Owners read it, newest first; programs read on from the number of the last event that they have, in
rising order. Numbers rise in the order in which transactions end
(`storage.catalog.events.announcement`), so none is missed.

Events are kept for `KEPT_DAYS`, but of each stream and of the whole catalog only so many.
"""

import json
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, delete, func, select

from media.stream_events import OwnerEvent, StreamEvent
from media.stream_keys import PublicHash
from media.ticks import DAY_US
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.queries import named_rows
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change, EventRecord, Page
from storage.catalog.schema.tables import events, streams

PAGE_SIZE: Final = 10
# A list has a link to each of its pages, so it would be long itself; and counting takes time.
MOST_COUNTED: Final = 10_000
MOST_AFTER: Final = 100  # what a program that was away reads at once: about 30 KB
# A quarter, by which what an owner asks about has come to light.
KEPT_DAYS: Final = 90
# Of each stream, however long it is in trouble: that writes one every few seconds, so these are
# some days of it. With its indexes an event takes about 400 bytes: 20 MB.
MOST_OF_STREAM: Final = 50_000
# Of all projects together, whatever writes them, as a program that edits all day: 800 MB.
MOST: Final = 2_000_000
_AT_ONCE: Final = 500  # rows that one transaction removes: SQLite's other writers wait for it
# Of all events, the share that one call removes by the clock. That is twenty times what an hour
# needs; a clock that is far ahead for an hour takes no more.
_SHARE: Final = 100


class FollowingEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events after a number, oldest first; `total` is how many there are, with those to come.

    At most `MOST_COUNTED` are counted; after number `last` come those of their last page.
    """

    items: tuple[EventRecord, ...]
    total: int
    last: int


_READER: Final = RowReader(EventRecord, events, parsers={"facts": json.loads})


class EventLog(Repository):
    """The events of a catalog (`catalog.events`); all but `remove_old` is one transaction each."""

    async def add(
        self, stream: PublicHash, event: StreamEvent, now_us: int, *, host: str | None = None
    ) -> None:
        """Announce an event of the stream with this hash, unless it was deleted.

        `host` is as in `announce`.
        """
        statement = select(streams.c.project_id).where(streams.c.hash == stream)
        async with self._database.writing() as connection:
            project = (await connection.execute(statement)).scalar_one_or_none()
            if project is not None:
                await announce(connection, project, stream, event, change=Change(now_us), host=host)

    async def find_page(
        self, project: int, *, since_us: int = 0, page: int = 1, subject: PublicHash = ""
    ) -> Page[EventRecord]:
        """Return a page of a project's events, newest first.

        `since_us` leaves out older events, `subject` is the hash of the only stream or video whose
        events are wanted, "" for all. The newest `MOST_COUNTED` have pages.
        """
        conditions = _among(project, subject)
        if since_us:
            conditions.append(events.c.created_us >= since_us)
        order = (events.c.id.desc(),)
        async with self._database.reading() as connection:
            total = await _count(connection, conditions)
            return await named_rows.page_of(
                connection, events, conditions, order, _READER,
                total=total, page=page, size=PAGE_SIZE,
            )  # fmt: skip

    async def find_after(
        self, project: int, last: int, *, subject: PublicHash = ""
    ) -> FollowingEvents:
        """Return the events after number `last`, oldest first, `MOST_AFTER` at most.

        `subject` is as in `find_page`. Nothing is ever added among those that were returned.
        """
        conditions = [*_among(project, subject), events.c.id > last]
        numbers = select(events.c.id).where(*conditions).order_by(events.c.id)
        query = select(*_READER.columns).where(*conditions).order_by(events.c.id).limit(MOST_AFTER)
        async with self._database.reading() as connection:
            total = await _count(connection, conditions)
            items = await _READER.find_all(connection, query)
            if total > MOST_AFTER:
                of_pages = (total - 1) // MOST_AFTER * MOST_AFTER
                before = numbers.offset(of_pages - 1).limit(1)
                last = (await connection.execute(before)).scalar_one_or_none() or last
        return FollowingEvents(items=items, total=total, last=last)

    async def find_newest(
        self, project: int, subject: PublicHash, kinds: Collection[type[OwnerEvent]]
    ) -> EventRecord | None:
        """Return the newest event of one of these kinds of a stream or video."""
        conditions = (
            events.c.project_id == project,
            events.c.subject == subject,
            events.c.kind.in_([kind.stored_kind() for kind in kinds]),
        )
        newest = select(*_READER.columns).where(*conditions).order_by(events.c.id.desc()).limit(1)
        async with self._database.reading() as connection:
            return await _READER.find(connection, newest)

    async def remove_old(self, now_us: int) -> int:
        """Remove the events that are not kept any more; return how many.

        Each transaction removes some hundred, so that no other writer waits for long. What another
        process holds, as one that removes some, too, is left out.
        """
        count = 0
        async with self._database.reading() as connection:
            span = select(func.min(events.c.id), func.max(events.c.id))
            oldest, newest = (await connection.execute(span)).one()
            if newest is None:
                return 0
            # Where the clock of a host was wrong, an old time is among recent ones, and kept.
            recent = events.c.created_us.between(now_us - KEPT_DAYS * DAY_US, now_us + DAY_US)
            first = select(events.c.id).where(recent).order_by(events.c.id).limit(1)
            first_recent = (await connection.execute(first)).scalar_one_or_none()
            numbers = select(streams.c.project_id, streams.c.hash, streams.c.event_number)
            numbers = numbers.where(streams.c.event_number > MOST_OF_STREAM)
            long = (await connection.execute(numbers)).all()
        for project, hash_, number in long:
            excess = events.c.number <= number - MOST_OF_STREAM
            count += await self._remove(*_among(project, hash_), excess)
        count += await self._remove(events.c.id <= newest - MOST)
        if first_recent is not None:
            most = max(_AT_ONCE, (newest - oldest) // _SHARE)
            count += await self._remove(events.c.id < first_recent, most=most)
        return count

    async def _remove(self, *which: ColumnElement[bool], most: int = MOST) -> int:
        """Remove the oldest of some events, at most as many; return how many."""
        count = 0
        query = select(events.c.id).where(*which).order_by(events.c.id)
        while count < most:
            size = min(_AT_ONCE, most - count)
            some = query.limit(size).with_for_update(skip_locked=True)
            async with self._database.writing() as connection:
                numbers = (await connection.execute(some)).scalars().all()
                if numbers:
                    await connection.execute(delete(events).where(events.c.id.in_(numbers)))
            count += len(numbers)
            if len(numbers) < size:
                break
        return count


async def _count(connection: AsyncConnection, conditions: Sequence[ColumnElement[bool]]) -> int:
    some = select(events.c.id).where(*conditions).limit(MOST_COUNTED).subquery()
    return (await connection.execute(select(func.count()).select_from(some))).scalar_one()


def _among(project: int, subject: PublicHash) -> list[ColumnElement[bool]]:
    conditions = [events.c.project_id == project]
    if subject:
        conditions.append(events.c.subject == subject)
    return conditions
