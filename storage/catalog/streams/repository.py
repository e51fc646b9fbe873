"""Live streams (`catalog.streams`): added, listed, edited, published, deleted by their owners.

A change locks the stream's row first, sets only the columns that change, and records an event. What
a stream's runs do is `storage.catalog.streams.settings`, its state on air
`storage.catalog.streams.live_state`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, func, insert, select, update

from media.stream_events import StreamEvent
from media.stream_keys import PublicHash, StreamKey
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    BackupAddedEvent,
    BackupRemovedEvent,
    PausedEvent,
    PublishedEvent,
    ResumedEvent,
    StreamDeletedEvent,
    StreamEditedEvent,
    StreamKeyChangedEvent,
    StreamState,
    UnpublishedEvent,
)
from storage.catalog.library import labels
from storage.catalog.library.details import columns_of
from storage.catalog.queries import (
    counters,
    project_lookup,
    removals,
    snapshots,
    text_search,
    trash_rows,
)
from storage.catalog.queries.digest import digest
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.queries.trash_rows import DeletedRecord
from storage.catalog.records.common import Change, Page, Sort, StreamRecord
from storage.catalog.records.details import Edit, StreamDetails
from storage.catalog.schema.tables import (
    stream_backups,
    stream_resolutions,
    stream_tags,
    streams,
)
from storage.catalog.streams import commands, holds
from storage.catalog.streams import queries as stream_queries
from storage.catalog.streams.commands import CommandKind, StreamCommand
from storage.errors import BackupInUse, StreamStateConflict, TooManyBackups

MAX_BACKUPS: Final = 8
PAGE_SIZE: Final = 10
# By which streams can be listed: viewers get it; no encoder sends; its owner hides it.
STATES: Final = ("live", "idle", "unpublished")
# The tables whose rows refer to a stream and end with it.
DEPENDENTS: Final = (stream_backups, stream_resolutions, stream_tags)
# How many rows are read at once: SQLite takes 32 766 numbers in a statement, older ones 999.
_AT_ONCE: Final = 500


class Streams(Repository):
    """The streams of a catalog; each method is one transaction.

    None in place of a record or of a command's number, and False, mean that there is no such stream
    (any more). A change that ingest must carry out writes a command, and returns its number
    (`storage.catalog.streams.commands`).
    """

    async def add(self, project: int, title: str, change: Change) -> StreamRecord:
        """Add a stream with a fresh key, one backup and the standard resolutions.

        Raises:
            NoSuchProject: There is no such project.
        """
        async with self._database.writing() as connection:
            return await stream_queries.add(connection, project, title, change)

    async def find(self, stream: int) -> StreamRecord | None:
        """Return the stream with that number."""
        async with self._database.reading() as connection:
            return await stream_queries.find(connection, stream)

    async def find_page(
        self,
        project: int,
        *,
        search: str = "",
        state: str = "",
        sort: Sort | None = None,
        page: int = 1,
    ) -> Page[StreamRecord]:
        """Return a page of a project's streams, newest first unless `sort` says otherwise.

        `search` leaves out streams whose titles do not contain it, ignoring case; `state` is one of
        `STATES`, or "" for all.
        """
        conditions = [streams.c.project_id == project]
        offset = (page - 1) * PAGE_SIZE
        records: tuple[StreamRecord, ...] = ()
        async with self._database.reading() as connection:
            if search:
                conditions.append(text_search.contains(streams, "title", search))
            if state:
                conditions += _of_state(state)
            if search or state:
                count = select(func.count()).select_from(streams).where(*conditions)
                total = (await connection.execute(count)).scalar_one()
            else:
                total = await counters.find(connection, project, "streams")
            # A page beyond the end is not queried: a huge number is no offset for a database.
            if offset < total:
                query = select(*stream_queries.COLUMNS).where(*conditions)
                query = query.order_by(*_order(sort or Sort()))
                rows = (await connection.execute(query.limit(PAGE_SIZE).offset(offset))).all()
                records = await stream_queries.to_records(connection, rows)
        return Page(items=records, total=total, number=page, size=PAGE_SIZE)

    async def find_all(self) -> tuple[StreamRecord, ...]:
        """Return every stream of every project, oldest first."""
        records: tuple[StreamRecord, ...] = ()
        last = 0
        present = project_lookup.is_of_present(streams.c.project_id)
        statement = select(*stream_queries.COLUMNS).where(present)
        statement = statement.order_by(streams.c.id).limit(_AT_ONCE)
        async with self._database.reading() as connection:
            while rows := (await connection.execute(statement.where(streams.c.id > last))).all():
                records += await stream_queries.to_records(connection, rows)
                last = rows[-1].id
        return records

    async def edit(
        self,
        stream: int,
        edit: Edit[StreamDetails],
        change: Change,
        *,
        check: Callable[[StreamRecord], None] | None = None,
    ) -> StreamRecord | None:
        """Change a stream's texts, labels, player, countries or resolutions.

        `check` may raise to keep the stream as it is; it gets the record before the change, locked
        against other changes.

        Raises:
            NoSuchLabel: A category, a tag or a player is not one of the stream's project.
        """
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            if check is not None:
                before = await stream_queries.find(connection, stream)
                if before is not None:
                    check(before)
            details = edit.details
            if edit.keys:
                values = await columns_of(connection, row.project_id, edit)
                if "resolutions" in edit.keys:
                    await _set_resolutions(connection, stream, details.resolutions)
                event = StreamEditedEvent(stream=stream, keys=sorted(edit.keys))
                await _save(connection, row, change, values, event)
            # Last: a transaction that adds tags waits for others that do.
            if "tags" in edit.keys:
                await labels.link_tags(
                    connection, row.project_id, "stream", stream, details.tags, change.now_us
                )
            return await stream_queries.find(connection, stream)

    async def publish(self, stream: int, change: Change) -> StreamRecord | None:
        """Show a stream to viewers, also before its first run."""
        async with self._locked(stream) as (connection, row):
            if row is not None and (row.hidden or not row.published):
                since = row.published_us if row.published_us is not None else change.now_us
                values = {"published": True, "hidden": False, "published_us": since}
                await _save(connection, row, change, values, PublishedEvent(stream=stream))
            return await stream_queries.find(connection, stream)

    async def unpublish(self, stream: int, change: Change) -> StreamRecord | None:
        """Hide a stream from viewers until it is published again, even while it is live."""
        async with self._locked(stream) as (connection, row):
            if row is not None and (row.published or not row.hidden):
                values = {"published": False, "hidden": True}
                await _save(connection, row, change, values, UnpublishedEvent(stream=stream))
            return await stream_queries.find(connection, stream)

    async def rotate(self, stream: int, change: Change) -> int | None:
        """Replace a stream's key; the command disconnects encoders that use the old one.

        Those that the owner gives the new one may send at once, also after an end.
        """
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            key = StreamKey.new(row.hash)
            secret = {"secret": key.secret, "secret_digest": digest(key.secret)}
            values = {**secret, **holds.NO_HOLD}
            await _save(connection, row, change, values, StreamKeyChangedEvent(stream=stream))
            return await _command(connection, row, CommandKind.DISCONNECT, change)

    async def request_end(self, stream: int, change: Change, *, deadline_us: int) -> int | None:
        """Command the end of a stream's run before a deadline; the event is recorded when done."""
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            return await _command(connection, row, CommandKind.END, change, deadline_us)

    async def request_drill(self, stream: int, change: Change, *, deadline_us: int) -> int | None:
        """Command a switch to another encoder; the event is recorded when done.

        Raises:
            StreamStateConflict: The stream is not live, or it is paused.
        """
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            if not row.live:
                raise StreamStateConflict(
                    "The stream is not live: there is no encoder to switch away from."
                )
            if row.paused:
                raise StreamStateConflict("The stream is paused: resume it first.")
            return await _command(connection, row, CommandKind.DRILL, change, deadline_us)

    async def pause(self, stream: int, change: Change) -> int | None:
        """Show viewers the slate until the stream is resumed; encoders stay connected.

        Raises:
            StreamStateConflict: The stream is not live, or it is paused already.
        """
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            if not row.live:
                raise StreamStateConflict("The stream is not live: there is nothing to pause.")
            if row.paused:
                raise StreamStateConflict("The stream is paused already.")
            return await _set_paused(connection, row, True, change)

    async def resume(self, stream: int, change: Change) -> int | None:
        """Show viewers the encoder on air again.

        Raises:
            StreamStateConflict: The stream is not paused.
        """
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            if not row.paused:
                raise StreamStateConflict("The stream is not paused.")
            return await _set_paused(connection, row, False, change)

    async def remove(self, stream: int, change: Change) -> int | None:
        """Delete a stream; the command ends its run and removes its media.

        These are deleted even if no process executes it. If the change keeps what it deletes, the
        stream is in the trash from now on, and its media stay.
        """
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            # The last state that its subscribers receive.
            last_state = {
                "live": False,
                "processing": False,
                "receiving_count": 0,
                "published": False,
                "paused": False,
            }
            event = StreamDeletedEvent(stream=stream, title=row.title)
            await _save(connection, row, change, {**last_state, "on_air": None}, event)
            if change.keep_us:
                await _keep(connection, row, change)
            await connection.execute(delete(streams).where(streams.c.id == stream))
            if not change.keep_us:
                await removals.of_streams(connection, [row.hash])
            counters.add(connection, row.project_id, "streams", -1)
            return await _command(
                connection, row, CommandKind.FORGET, change, keeps_media=change.keep_us > 0
            )

    async def add_backup(self, stream: int, change: Change) -> tuple[StreamRecord, int] | None:
        """Add an ingest address; returns the stream and the backup's id.

        Raises:
            TooManyBackups: The stream has as many as it may have.
        """
        table = stream_backups.c
        count = select(func.count()).select_from(stream_backups).where(table.stream_id == stream)
        async with self._locked(stream) as (connection, row):
            if row is None:
                return None
            if (await connection.execute(count)).scalar_one() >= MAX_BACKUPS:
                raise TooManyBackups(MAX_BACKUPS)
            number = row.next_backup
            statement = insert(stream_backups).values(stream_id=stream, number=number, live=False)
            backup = (await connection.execute(statement.returning(table.id))).scalar_one()
            event = BackupAddedEvent(stream=stream, backup=backup, number=number)
            await _save(connection, row, change, {"next_backup": number + 1}, event)
            record = await stream_queries.find(connection, stream)
            return None if record is None else (record, backup)

    async def remove_backup(self, stream: int, backup: int, change: Change) -> bool:
        """Remove an ingest address; False also if the stream has no backup with that id.

        Raises:
            BackupInUse: Its encoder is sending.
        """
        table = stream_backups.c
        is_backup = (table.id == backup, table.stream_id == stream)
        async with self._locked(stream) as (connection, row):
            if row is None or not 0 < backup <= MAX_ID:
                return False
            statement = select(table.number, table.live).where(*is_backup)
            removed = (await connection.execute(statement)).one_or_none()
            if removed is None:
                return False
            if removed.live:
                raise BackupInUse(removed.number)
            await connection.execute(delete(stream_backups).where(*is_backup))
            event = BackupRemovedEvent(stream=stream, backup=backup, number=removed.number)
            await _save(connection, row, change, {}, event)
            return True

    async def set_posters(
        self, hash_: PublicHash, labels: Sequence[str], size: tuple[int, int], *, now_us: int
    ) -> bool:
        """Record that a stream has new posters; False if it was deleted, and is not in the trash.

        `labels` are those of their resolutions, `size` is the width and height of the largest. Only
        a change of the labels raises the version and is broadcast: a new picture replaces the old
        one at the same address.
        """
        table = streams.c
        columns = select(table.id, table.project_id, table.poster_labels)
        query = columns.where(table.hash == hash_)
        async with self._database.writing() as connection:
            row = (await connection.execute(query.with_for_update())).one_or_none()
            if row is None:  # those of one in the trash stay
                return bool(await trash_rows.find_hashes(connection, [hash_], "stream"))
            text = ",".join(labels)
            values: dict[str, Any] = {  # Any: values of columns of several types
                "image_us": now_us,
                "image_width": size[0],
                "image_height": size[1],
            }
            if text != row.poster_labels:
                values |= {"poster_labels": text, "version": table.version + 1}
            await connection.execute(update(streams).where(table.id == row.id).values(values))
            if text != row.poster_labels:
                await announce(
                    connection, row.project_id, hash_, StreamState(), change=Change(now_us)
                )
            return True

    @asynccontextmanager
    async def _locked(
        self, stream: int
    ) -> AsyncGenerator[tuple[AsyncConnection, Row[Any] | None]]:  # Any: as a whole row is
        """Write within the block, with the stream's row locked; None if there is no such row."""
        async with self._database.writing() as connection:
            row = None
            if 0 < stream <= MAX_ID:
                statement = select(streams).where(streams.c.id == stream).with_for_update()
                row = (await connection.execute(statement)).one_or_none()
            yield connection, row


def _of_state(state: str) -> list[ColumnElement[bool]]:
    table = streams.c
    return {
        "live": [table.live],
        "idle": [~table.live, table.receiving_count == 0],
        "unpublished": [table.hidden],
    }[state]


def _order(sort: Sort) -> list[ColumnElement[Any]]:  # Any: a column of either type
    """Return the order; equal titles are ordered by number, so that no page repeats a stream."""
    columns = [streams.c.id]
    if sort.column == "title":
        columns.insert(0, streams.c.title_fold)
    return [column.desc() if sort.descending else column.asc() for column in columns]


async def _set_resolutions(
    connection: AsyncConnection, stream: int, active: frozenset[int]
) -> None:
    table = stream_resolutions.c
    await connection.execute(
        update(stream_resolutions)
        .where(table.stream_id == stream)
        .values(active=table.number.in_(sorted(active)))
    )


async def _save(
    connection: AsyncConnection,
    row: Row[Any],  # Any: a whole row has no static type
    change: Change,
    values: Mapping[str, object],
    event: StreamEvent,
) -> None:
    """Write columns of a stream, and announce what they mean."""
    changed = {**values, "updated_us": change.now_us, "version": streams.c.version + 1}
    await connection.execute(update(streams).where(streams.c.id == row.id).values(changed))
    await announce(connection, row.project_id, row.hash, event, change=change)


async def _keep(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    change: Change,
) -> None:
    """Put a stream into the trash; viewers could see it if they could before."""
    of_stream = [(table, table.c.stream_id == row.id) for table in DEPENDENTS]
    rows = await snapshots.take(connection, [(streams, streams.c.id == row.id), *of_stream])
    rows[streams.name][0]["published"] = row.published
    deleted = DeletedRecord(
        kind="stream",
        project=row.project_id,
        record=row.id,
        hash=row.hash,
        title=row.title,
        size=0,
        rows=rows,
        secret_digest=row.secret_digest,
    )
    await trash_rows.add(connection, deleted, change)


async def _set_paused(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    paused: bool,
    change: Change,
) -> int:
    event_type = PausedEvent if paused else ResumedEvent
    await _save(connection, row, change, {"paused": paused}, event_type(stream=row.id))
    kind = CommandKind.PAUSE if paused else CommandKind.RESUME
    return await _command(connection, row, kind, change)


async def _command(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    kind: CommandKind,
    change: Change,
    deadline_us: int | None = None,
    *,
    keeps_media: bool = False,
) -> int:
    """Write a command for ingest; returns its number."""
    command = StreamCommand(
        stream=row.id,
        hash=row.hash,
        kind=kind,
        deadline_us=deadline_us,
        by=change.by,
        keeps_media=keeps_media,
    )
    return await commands.add(connection, command, change.now_us)
