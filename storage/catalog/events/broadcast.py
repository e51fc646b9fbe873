"""What the web-socket broadcaster is to tell: numbered rows, written where a state changes.

A row is written in the transaction that changes the state, so nobody can see the one without the
other; each process that has sockets reads the rows on from the last it delivered. Numbers rise in
the order in which transactions end: on PostgreSQL writers of notices take turns, as SQLite's
writers always do. Rows are kept for some minutes; who was away for longer must ask anew.

What is told in a transaction is written as the last that it does: the turn is taken with nothing
more to wait for, so two writers cannot wait for each other. A state goes out under four names: its
own channel, the private one, and those of the project by number and by key.

Each function runs within the caller's transaction; `Notices` opens them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from storage.catalog.engine.database import LAST, Database
from storage.catalog.queries import project_lookup
from storage.catalog.schema.tables import notices, projects, stream_backups, streams, videos

__all__ = [
    "KEPT_US",
    "LIVE",
    "NoticeRecord",
    "Notices",
    "Told",
    "newest",
    "since",
    "tell",
    "tell_stream",
    "tell_video",
]

KEPT_US: Final = 600_000_000
LIVE: Final = "live"  # the one event of a stream's channel
_TRIM_EVERY: Final = 64
_LOCK: Final = 0x48454144  # of this table, among PostgreSQL's advisory locks


class NoticeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A notice; `body` is the event's data, `besides` the name of a socket that does not get it.

    `channel` holds the names of one channel or more, with a space between.
    """

    id: int
    channel: str
    event: str
    body: str
    besides: str | None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is no state of ours, for each of some channels; `besides` as in a notice."""

    channels: tuple[str, ...]
    event: str
    body: str
    besides: str | None = None


async def tell(
    connection: AsyncConnection,
    channel: str,
    event: str,
    body: str,
    now_us: int,
    *,
    besides: str | None = None,
) -> None:
    """Have a notice written when the transaction ends."""
    values = {
        "channel": channel,
        "event": event,
        "body": body,
        "besides": besides,
        "created_us": now_us,
    }
    connection.info[LAST].append(partial(_write, values=values))


async def _write(connection: AsyncConnection, *, values: Mapping[str, object]) -> None:
    if connection.dialect.name == "postgresql":
        # Held until after the commit is visible: no higher number can be read before this one.
        await connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    statement = insert(notices).values(values).returning(notices.c.id, notices.c.created_us)
    number, now_us = (await connection.execute(statement)).one()
    if number % _TRIM_EVERY == 0:
        await connection.execute(delete(notices).where(notices.c.created_us < now_us - KEPT_US))


def _names(kind: str, hash_: str, project: int, key: str) -> str:
    own = f"{kind}.{hash_}"
    return f"{own} private-{own} private-project.{project} private-project.{key}"


async def tell_stream(connection: AsyncConnection, stream: int, now_us: int) -> None:
    """Tell how a stream stands now, after its row was changed; of one that is gone, nothing."""
    table = streams.c
    row = (
        await connection.execute(
            select(
                table.id,
                table.hash,
                table.live,
                table.processing,
                table.paused,
                table.published,
                table.receiving_count,
                table.on_air,
                table.version,
                table.project_id,
                projects.c.key,
            )
            .join(projects, projects.c.id == table.project_id)
            .where(table.id == stream)
        )
    ).one_or_none()
    if row is None:
        return
    backups = await connection.execute(
        select(stream_backups.c.id, stream_backups.c.number, stream_backups.c.live)
        .where(stream_backups.c.stream_id == stream)
        .order_by(stream_backups.c.number)
    )
    body = {
        "id": row.id,
        "hash": row.hash,
        "live": row.live,
        "processing": row.processing,
        "paused": row.paused,
        "published": row.published,
        "receiving_count": row.receiving_count,
        "backups": [
            {"id": number, "live": live, "publish": slot == row.on_air}
            for number, slot, live in backups
        ],
        "version": row.version,
    }
    names = _names("stream", row.hash, row.project_id, row.key)
    await tell(connection, names, LIVE, _text(body), now_us)


async def tell_video(
    connection: AsyncConnection,
    video: int,
    event: str,
    now_us: int,
    *,
    besides: Mapping[str, object] | None = None,
) -> None:
    """Tell how a video stands now, after its row was changed.

    `event` is one of progress, completed, failed; `besides` is what is to stand in its data too.
    """
    table = videos.c
    row = (
        await connection.execute(
            select(
                table.id,
                table.hash,
                table.state,
                table.progress,
                table.eta,
                table.published,
                table.version,
                table.project_id,
                projects.c.key,
            )
            .join(projects, projects.c.id == table.project_id)
            .where(table.id == video)
        )
    ).one_or_none()
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
        **(besides or {}),
    }
    names = _names("video", row.hash, row.project_id, row.key)
    await tell(connection, names, event, _text(body), now_us)


def _text(body: Mapping[str, object]) -> str:
    return json.dumps(body, separators=(",", ":"))


async def newest(connection: AsyncConnection) -> int:
    """Return the number of the newest notice; 0 where there is none."""
    return (await connection.execute(select(func.coalesce(func.max(notices.c.id), 0)))).scalar_one()


async def since(
    connection: AsyncConnection, last: int, most: int
) -> tuple[tuple[NoticeRecord, ...], bool]:
    """Return up to `most` notices after number `last`, and whether some before them are gone.

    They are gone where the oldest that is kept is not the next one: so `last` must be a notice's
    number, or that of a moment at which there was none.
    """
    table = notices.c
    rows = await connection.execute(
        select(table.id, table.channel, table.event, table.body, table.besides)
        .where(table.id > last)
        .order_by(table.id)
        .limit(most)
    )
    found = tuple(
        NoticeRecord(id=number, channel=channel, event=event, body=body, besides=besides)
        for number, channel, event, body, besides in rows
    )
    if not found or found[0].id == last + 1 or last == 0:
        return found, False
    # A transaction that was undone leaves a hole in the numbers too; what was trimmed takes the
    # oldest rows, so there is no row left at or before `last`.
    older = select(table.id).where(table.id <= last).limit(1)
    return found, (await connection.execute(older)).one_or_none() is None


async def _project_of(connection: AsyncConnection, kind: str, hash_: str) -> int | None:
    table = videos if kind == "video" else streams
    asked = select(table.c.project_id).where(table.c.hash == hash_)
    return (await connection.execute(asked)).scalar_one_or_none()


class Notices:
    """The notices of a catalog, in transactions of their own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def on_told(self, callback: Callable[[], None]) -> None:
        """Have a function called after each transaction that wrote a notice; one at most."""
        self._database.on_last = callback

    async def newest(self) -> int:
        """Return the number of the newest notice; 0 where there is none."""
        async with self._database.reading() as connection:
            return await newest(connection)

    async def since(self, last: int, most: int) -> tuple[tuple[NoticeRecord, ...], bool]:
        """Return up to `most` notices after number `last`, and whether some before are gone."""
        async with self._database.reading() as connection:
            return await since(connection, last, most)

    async def publish(self, events: Sequence[Told], now_us: int) -> None:
        """Tell events, all or none."""
        async with self._database.writing() as connection:
            for told in events:
                for channel in told.channels:
                    await tell(
                        connection, channel, told.event, told.body, now_us, besides=told.besides
                    )

    async def project_of(self, kind: str, name: str) -> int | None:
        """Return the project whose a channel is; None where there is no such thing.

        `kind` is stream or video, whose `name` is its hash, or project, by its number or key.
        """
        async with self._database.reading() as connection:
            if kind != "project":
                return await _project_of(connection, kind, name)
            project = await project_lookup.find(connection, name)
            return None if project is None else project.id
