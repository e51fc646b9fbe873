"""The outbox of the web-socket broadcaster: numbered rows, written when a state changes.

An event's row is written in the transaction that changes the state, so that neither is visible
without the other; each process with sockets reads the rows after the last that it delivered.
Numbers rise in the order in which transactions end: on PostgreSQL an advisory lock orders the
writers, on SQLite there is one writer at a time. Rows are kept for ten minutes; a process that was
away for longer has missed some, and its clients must reload.

The rows are written last in a transaction, when it waits for nothing else
(`storage.catalog.engine.lock_order`). A state is sent to four channels: its own, the private one,
and those of the project by number and by key.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Row, Table, delete, func, insert, select

from media.stream_keys import PublicHash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.engine.lock_order import Rank, defer, lock_numbers
from storage.catalog.queries import project_lookup
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.schema.tables import notices, projects, stream_backups, streams, videos

KEPT_US: Final = 600_000_000
LIVE: Final = "live"  # the one event of a stream's channel
_TRIM_EVERY: Final = 64
_STREAM_KEYS: Final = (
    "id",
    "hash",
    "live",
    "processing",
    "paused",
    "published",
    "receiving_count",
)
_OF_CHANNELS: Final = ("hidden", "countries", "version", "project_id")


class OutboxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A notice; `body` is the event's data; the socket `except_socket` does not get it.

    `channel` holds the names of one channel or more, with a space between.
    """

    id: int
    channel: str
    event: str
    body: str
    except_socket: str | None


_READER: Final = RowReader(OutboxRecord, notices, except_socket=notices.c.besides)


class OutboxEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to write, as a row for each of `channels`; these are as in a notice."""

    channels: tuple[str, ...]
    event: str
    body: str
    except_socket: str | None = None


def _enqueue(connection: AsyncConnection, events: Sequence[OutboxEvent], now_us: int) -> None:
    """Write events to the outbox, a row for each channel, when the caller's transaction ends."""
    rows: list[dict[str, object]] = [
        {
            "channel": channel,
            "event": each.event,
            "body": each.body,
            "besides": each.except_socket,
            "created_us": now_us,
        }
        for each in events
        for channel in each.channels
    ]
    if rows:
        defer(connection, Rank.OUTBOX, partial(_write, rows=rows, now_us=now_us))


async def _write(
    connection: AsyncConnection, *, rows: list[dict[str, object]], now_us: int
) -> None:
    await lock_numbers(connection)
    # One statement for all: both databases number the rows in their order.
    numbers = (await connection.execute(insert(notices).returning(notices.c.id), rows)).scalars()
    if any(number % _TRIM_EVERY == 0 for number in numbers):
        await _trim(connection, now_us)


async def _trim(connection: AsyncConnection, now_us: int) -> None:
    """Remove the rows before the first recent one.

    The clocks of hosts differ: where an old time is among recent ones, its row is kept, since a gap
    among the numbers would not be noticed. A row from a clock that is far ahead is not recent, so
    that it does not keep all later ones.
    """
    is_recent = notices.c.created_us.between(now_us - KEPT_US, now_us + KEPT_US)
    first = select(notices.c.id).where(is_recent).order_by(notices.c.id).limit(1)
    await connection.execute(delete(notices).where(notices.c.id < first.scalar_subquery()))


def _channels(kind: str, row: Row[*tuple[Any, ...]]) -> str:  # Any: columns of every type
    """Return the channels of a record's state; `row` is the record's, with its project's key."""
    own = f"{kind}.{row.hash}"
    private = f"private-{own} private-project.{row.project_id} private-project.{row.key}"
    return private if row.hidden or row.countries else f"{own} {private}"


async def _state(
    connection: AsyncConnection, table: Table, hash_: PublicHash, *columns: str
) -> Row[*tuple[Any, ...]] | None:  # Any: as above
    """Return these columns of a record, and those that `_channels` needs.

    None if it was deleted, also with its project.
    """
    names = dict.fromkeys(("id", "hash", *columns, *_OF_CHANNELS))
    query = select(*(table.c[name] for name in names), projects.c.key)
    query = query.join(projects, projects.c.id == table.c.project_id)
    query = query.where(table.c.hash == hash_, project_lookup.IS_PRESENT)
    return (await connection.execute(query)).one_or_none()


async def enqueue_stream(connection: AsyncConnection, hash_: PublicHash, now_us: int) -> None:
    """Broadcast a stream's state after its row was changed; nothing if it was deleted."""
    row = await _state(connection, streams, hash_, *_STREAM_KEYS, "on_air")
    if row is None:
        return
    backups = await connection.execute(
        select(stream_backups.c.id, stream_backups.c.number, stream_backups.c.live)
        .where(stream_backups.c.stream_id == row.id)
        .order_by(stream_backups.c.number)
    )
    body: dict[str, object] = {key: getattr(row, key) for key in _STREAM_KEYS}
    body["backups"] = [
        {"id": number, "live": live, "publish": slot == row.on_air}
        for number, slot, live in backups
    ]
    body["version"] = row.version
    state = OutboxEvent(channels=(_channels("stream", row),), event=LIVE, body=_text(body))
    _enqueue(connection, [state], now_us)


async def enqueue_video(
    connection: AsyncConnection, hash_: PublicHash, now_us: int, *, extra: Mapping[str, object]
) -> None:
    """Broadcast a video's state after its row was changed; nothing if it was deleted.

    The event is completed or failed if that is the state, else progress; `extra` is added to it.
    """
    row = await _state(connection, videos, hash_, "state", "progress", "eta", "published")
    if row is None:
        return
    body = {
        "id": row.id,
        "hash": row.hash,
        "uploading": row.state == "uploading",
        "transcoding_progress": row.progress,
        "transcoding_eta": row.eta,
        "completed": row.state == "completed",
        "published": row.published,
        "failed": row.state == "failed",
        "version": row.version,
        **extra,
    }
    event = row.state if row.state in ("completed", "failed") else "progress"
    state = OutboxEvent(channels=(_channels("video", row),), event=event, body=_text(body))
    _enqueue(connection, [state], now_us)


def _text(body: Mapping[str, object]) -> str:
    return json.dumps(body, separators=(",", ":"))


async def _project_of(connection: AsyncConnection, kind: str, hash_: str) -> int | None:
    table = videos if kind == "video" else streams
    is_present = project_lookup.is_of_present(table.c.project_id)
    query = select(table.c.project_id).where(table.c.hash == hash_, is_present)
    return (await connection.execute(query)).scalar_one_or_none()


class BroadcastOutbox(Repository):
    """The outbox of a catalog (`catalog.outbox`); each method is one transaction."""

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call a function after each transaction that wrote events; one function at most."""
        self._database.after_outbox_commit = callback

    async def newest(self) -> int:
        """Return the number of the newest notice; 0 where there is none."""
        async with self._database.reading() as connection:
            return (
                await connection.execute(select(func.coalesce(func.max(notices.c.id), 0)))
            ).scalar_one()

    async def read_after(self, last: int, most: int) -> tuple[tuple[OutboxRecord, ...], bool]:
        """Return up to `most` notices after number `last`, and whether some before them are gone.

        Some are gone if the oldest one kept is not the next one, so `last` must be a notice's
        number, or 0 from a time when there was none.
        """
        table = notices.c
        query = select(*_READER.columns).where(table.id > last).order_by(table.id).limit(most)
        # A transaction that was rolled back leaves a hole in the numbers, too. Trimming removes the
        # oldest rows, so none at or before `last` is left where some after it were removed.
        older = select(table.id).where(table.id <= last).limit(1)
        async with self._database.reading() as connection:
            records = await _READER.find_all(connection, query)
            if not records or records[0].id == last + 1 or last == 0:
                return records, False
            return records, (await connection.execute(older)).one_or_none() is None

    async def publish(self, events: Sequence[OutboxEvent], now_us: int) -> None:
        """Write events to the outbox, all or none."""
        async with self._database.writing() as connection:
            _enqueue(connection, events, now_us)

    async def find_project(self, kind: str, name: str) -> int | None:
        """Return the project that a channel belongs to; None if there is no such thing.

        `kind` is stream or video, whose `name` is its hash, or project, by its number or key.
        """
        async with self._database.reading() as connection:
            if kind != "project":
                return await _project_of(connection, kind, name)
            project = await project_lookup.find(connection, name)
            return None if project is None else project.id
