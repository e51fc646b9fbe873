"""How a stream is changed by its owner: its words, its key, whether it is shown, its backups.

Each function locks the stream's row first, sets only the columns that change, and writes what was
done among the events. Each runs within the caller's transaction.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.countries import Country, packed
from media.stream_keys import StreamKey
from storage.catalog.events import broadcast
from storage.catalog.events import log as event_log
from storage.catalog.library import labels, players
from storage.catalog.queries import counters
from storage.catalog.queries.casefold import fold
from storage.catalog.queries.digest import digest
from storage.catalog.queries.named_rows import MOST
from storage.catalog.schema.tables import stream_backups, stream_resolutions, streams
from storage.catalog.streams import commands
from storage.catalog.streams.commands import Command, CommandKind
from storage.errors import BackupInUse, StreamStateConflict, TooManyBackups

__all__ = [
    "MAX_BACKUPS",
    "StreamChange",
    "add_backup",
    "ask_drill",
    "ask_end",
    "edit",
    "pause",
    "publish",
    "remove",
    "remove_backup",
    "resume",
    "rotate",
    "unpublish",
]

MAX_BACKUPS: Final = 8


class StreamChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be changed of a stream; UNSET stays as it is, None is taken away.

    `resolutions` are the numbers of those that shall be active, `tags` and `countries` all of them.
    """

    title: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    category: int | msgspec.UnsetType | None = msgspec.UNSET
    player: int | msgspec.UnsetType | None = msgspec.UNSET
    countries: tuple[Country, ...] | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[labels.TagWanted, ...] | msgspec.UnsetType = msgspec.UNSET
    resolutions: frozenset[int] | msgspec.UnsetType = msgspec.UNSET


async def _locked(connection: AsyncConnection, stream: int) -> Row[Any] | None:
    """Hold the stream's row and return it (Any: a whole table's has no static type)."""
    if not 0 < stream <= MOST:
        return None
    asked = select(streams).where(streams.c.id == stream).with_for_update()
    return (await connection.execute(asked)).one_or_none()


async def _note(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    kind: str,
    facts: Mapping[str, object],
    now_us: int,
    by: int | None,
) -> None:
    """Write what was done to a stream."""
    told = {"stream": row.id, **facts}
    await event_log.record(connection, row.project_id, kind, told, now_us, subject=row.hash, by=by)


async def _set(
    connection: AsyncConnection, stream: int, now_us: int, values: Mapping[str, object]
) -> None:
    changed = {**values, "updated_us": now_us, "version": streams.c.version + 1}
    await connection.execute(update(streams).where(streams.c.id == stream).values(changed))


async def edit(
    connection: AsyncConnection, stream: int, change: StreamChange, now_us: int, by: int | None
) -> bool:
    """Change a stream; False where there is none.

    Raises:
        NoSuchLabel: a category, a tag or a player is none of its project.
    """
    row = await _locked(connection, stream)
    if row is None:
        return False
    sent = {
        field.name: getattr(change, field.name)
        for field in msgspec.structs.fields(StreamChange)
        if getattr(change, field.name) is not msgspec.UNSET
    }
    if not sent:
        return True
    values = await _values(connection, row.project_id, change)
    if change.resolutions is not msgspec.UNSET:
        await _choose(connection, stream, change.resolutions)
    await _set(connection, stream, now_us, values)
    await _note(connection, row, "stream edited", {"keys": sorted(sent)}, now_us, by)
    # Last: who makes tags waits for others that do.
    if change.tags is not msgspec.UNSET:
        await labels.link_tags(connection, row.project_id, "stream", stream, change.tags, now_us)
    return True


async def _values(
    connection: AsyncConnection, project: int, change: StreamChange
) -> dict[str, object]:
    """Return the columns of a change; what it refers to must be the project's."""
    values: dict[str, object] = {}
    if change.title is not msgspec.UNSET:
        values |= {"title": change.title, "title_fold": fold(change.title)}
    if change.description is not msgspec.UNSET:
        values["description"] = change.description
    if change.countries is not msgspec.UNSET:
        values["countries"] = packed(change.countries)
    if change.category is not msgspec.UNSET:
        if change.category is not None:
            await labels.require_category(connection, project, change.category)
        values["category_id"] = change.category
    if change.player is not msgspec.UNSET:
        if change.player is not None:
            await players.require(connection, project, change.player)
        values["player_id"] = change.player
    return values


async def _choose(connection: AsyncConnection, stream: int, active: frozenset[int]) -> None:
    table = stream_resolutions.c
    await connection.execute(
        update(stream_resolutions)
        .where(table.stream_id == stream)
        .values(active=table.number.in_(sorted(active)))
    )


async def publish(connection: AsyncConnection, stream: int, now_us: int, by: int | None) -> bool:
    """Show a stream to viewers, before its first run too; False where there is none."""
    row = await _locked(connection, stream)
    if row is None:
        return False
    if row.hidden or not row.published:
        since = row.published_us if row.published_us is not None else now_us
        values = {"published": True, "hidden": False, "published_us": since}
        await _set(connection, stream, now_us, values)
        await _note(connection, row, "published", {}, now_us, by)
        await broadcast.tell_stream(connection, stream, now_us)
    return True


async def unpublish(connection: AsyncConnection, stream: int, now_us: int, by: int | None) -> bool:
    """Hide a stream from viewers until it is published again, whatever runs meanwhile."""
    row = await _locked(connection, stream)
    if row is None:
        return False
    if row.published or not row.hidden:
        await _set(connection, stream, now_us, {"published": False, "hidden": True})
        await _note(connection, row, "unpublished", {}, now_us, by)
        await broadcast.tell_stream(connection, stream, now_us)
    return True


async def rotate(
    connection: AsyncConnection, stream: int, now_us: int, by: int | None
) -> int | None:
    """Give a stream a fresh key in place of its own.

    Returns the number of the command to close who has the old one; None: there is no such stream.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    key = StreamKey.new(row.hash)
    values = {"secret": key.secret, "secret_digest": digest(key.secret)}
    await _set(connection, stream, now_us, values)
    await _note(connection, row, "stream key changed", {}, now_us, by)
    return await _ask(connection, row, CommandKind.DISCONNECT, now_us)


async def ask_end(
    connection: AsyncConnection, stream: int, now_us: int, deadline_us: int, by: int | None
) -> int | None:
    """Ask for the end of a stream's run, up to a moment; it is an event once it was done.

    Returns the command's number; None: there is no such stream.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    return await _ask(connection, row, CommandKind.END, now_us, deadline_us, by)


async def ask_drill(
    connection: AsyncConnection, stream: int, now_us: int, deadline_us: int, by: int | None
) -> int | None:
    """Ask for a switch to another encoder, up to a moment; it is an event once it was done.

    Returns the command's number; None: there is no such stream.

    Raises:
        StreamStateConflict: the stream is not live, or it is paused.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    if not row.live:
        raise StreamStateConflict(
            "The stream is not live: there is no encoder to switch away from."
        )
    if row.paused:
        raise StreamStateConflict("The stream is paused: resume it first.")
    return await _ask(connection, row, CommandKind.DRILL, now_us, deadline_us, by)


async def pause(
    connection: AsyncConnection, stream: int, now_us: int, by: int | None
) -> int | None:
    """Show viewers the slate until the stream is resumed; its encoders stay connected.

    Returns the number of the command that has it done; None: there is no such stream.

    Raises:
        StreamStateConflict: the stream is not live, or it is paused already.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    if not row.live:
        raise StreamStateConflict("The stream is not live: there is nothing to pause.")
    if row.paused:
        raise StreamStateConflict("The stream is paused already.")
    return await _hold(connection, row, CommandKind.PAUSE, now_us, by)


async def resume(
    connection: AsyncConnection, stream: int, now_us: int, by: int | None
) -> int | None:
    """Show viewers the encoder on air again; as `pause`.

    Raises:
        StreamStateConflict: the stream is not paused.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    if not row.paused:
        raise StreamStateConflict("The stream is not paused.")
    return await _hold(connection, row, CommandKind.RESUME, now_us, by)


async def _hold(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    kind: CommandKind,
    now_us: int,
    by: int | None,
) -> int:
    paused = kind is CommandKind.PAUSE
    await _set(connection, row.id, now_us, {"paused": paused})
    await _note(connection, row, "paused" if paused else "resumed", {}, now_us, by)
    command = await _ask(connection, row, kind, now_us, by=by)
    await broadcast.tell_stream(connection, row.id, now_us)
    return command


async def remove(
    connection: AsyncConnection, stream: int, now_us: int, by: int | None
) -> int | None:
    """Delete a stream, and ask for the end of what runs of it.

    Returns the command's number; None: there is no such stream.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    await _note(connection, row, "stream deleted", {"title": row.title}, now_us, by)
    # The last that its subscribers hear of it.
    over = {"live": False, "processing": False, "receiving_count": 0, "published": False}
    await _set(connection, stream, now_us, {**over, "on_air": None})
    await broadcast.tell_stream(connection, stream, now_us)
    await connection.execute(delete(streams).where(streams.c.id == stream))
    await counters.add(connection, row.project_id, "streams", -1)
    return await _ask(connection, row, CommandKind.FORGET, now_us)


async def _ask(
    connection: AsyncConnection,
    row: Row[Any],  # Any: as above
    kind: CommandKind,
    now_us: int,
    deadline_us: int | None = None,
    by: int | None = None,
) -> int:
    command = Command(stream=row.id, hash=row.hash, kind=kind, deadline_us=deadline_us, by=by)
    return await commands.ask(connection, command, now_us)


async def add_backup(
    connection: AsyncConnection, stream: int, now_us: int, by: int | None
) -> int | None:
    """Give a stream another ingest address; returns its number, None where there is no stream.

    Raises:
        TooManyBackups: it has all that it may have.
    """
    row = await _locked(connection, stream)
    if row is None:
        return None
    table = stream_backups.c
    counted = select(func.count()).select_from(stream_backups).where(table.stream_id == stream)
    if (await connection.execute(counted)).scalar_one() >= MAX_BACKUPS:
        raise TooManyBackups(MAX_BACKUPS)
    number = row.next_backup
    made = insert(stream_backups).values(stream_id=stream, number=number, live=False)
    backup = (await connection.execute(made.returning(table.id))).scalar_one()
    await _set(connection, stream, now_us, {"next_backup": number + 1})
    facts = {"backup": backup, "number": number}
    await _note(connection, row, "backup added", facts, now_us, by)
    await broadcast.tell_stream(connection, stream, now_us)
    return backup


async def remove_backup(
    connection: AsyncConnection, stream: int, backup: int, now_us: int, by: int | None
) -> bool:
    """Take an ingest address away; False where the stream has none of that number.

    Raises:
        BackupInUse: its encoder is sending.
    """
    row = await _locked(connection, stream)
    if row is None or not 0 < backup <= MOST:
        return False
    table = stream_backups.c
    mine = (table.id == backup, table.stream_id == stream)
    asked = select(table.number, table.live).where(*mine)
    found = (await connection.execute(asked)).one_or_none()
    if found is None:
        return False
    if found.live:
        raise BackupInUse(found.number)
    await connection.execute(delete(stream_backups).where(*mine))
    await _set(connection, stream, now_us, {})
    facts = {"backup": backup, "number": found.number}
    await _note(connection, row, "backup removed", facts, now_us, by)
    await broadcast.tell_stream(connection, stream, now_us)
    return True
