"""Questions about live streams that ingest and viewers ask: keys, states, what may be shown.

Each function runs within the caller's transaction.
"""

from collections.abc import Collection
from typing import Final

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.keys import PublicHash, StreamKey
from media.ladder import BOXES
from storage.catalog.records import IngestRecord, Shown
from storage.catalog.secret import digest
from storage.catalog.tables import stream_backups, stream_resolutions, streams

__all__ = ["find_ingest", "find_shown", "reset_live_states", "set_live_state"]

_LABELS: Final = {box.number: box.label for box in BOXES}
# Stands for no stream at all: a key that is wrong asks about it what a right one asks.
_NOBODY: Final = (0, 0, "", "00000000-0000-0000-0000-000000000000")


async def find_ingest(connection: AsyncConnection, key: StreamKey) -> IngestRecord | None:
    """Return the stream that a key opens; without a hash in it, the secret alone names one.

    An unknown hash and a wrong secret take the same statements and the same comparison, so that
    their times do not tell which it was.
    """
    table = streams.c
    same = table.hash == key.hash if key.hash else table.secret_digest == digest(key.secret)
    row = (
        await connection.execute(
            select(table.id, table.project_id, table.hash, table.secret).where(same)
        )
    ).one_or_none()
    number, project, hash_, secret = _NOBODY if row is None else row
    right = key.matches(secret) and row is not None
    stream = number if right else _NOBODY[0]
    backups = await connection.execute(
        select(stream_backups.c.number).where(stream_backups.c.stream_id == stream)
    )
    active = await connection.execute(
        select(stream_resolutions.c.number).where(
            stream_resolutions.c.stream_id == stream, stream_resolutions.c.active
        )
    )
    slots = frozenset({0, *backups.scalars()})
    labels = frozenset(_LABELS[number] for number in active.scalars() if number in _LABELS)
    if not right:
        return None
    return IngestRecord(id=stream, project=project, hash=hash_, slots=slots, active=labels)


async def find_shown(connection: AsyncConnection, hash_: PublicHash) -> Shown | None:
    """Return what viewers may come to know of a stream."""
    table = streams.c
    statement = select(
        table.project_id,
        table.title,
        table.description,
        table.published,
        table.hidden,
        table.live,
    ).where(table.hash == hash_)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    project, title, description, published, hidden, live = row
    return Shown(
        hash=hash_,
        project=project,
        title=title,
        description=description,
        published=published,
        hidden=hidden,
        live=live,
    )


async def set_live_state(
    connection: AsyncConnection,
    stream: int,
    *,
    live: bool,
    processing: bool,
    on_air: int | None,
    sending: Collection[int],
    no_audio: bool,
    now_us: int,
) -> None:
    """Write down how a stream stands; slots are named by their numbers.

    The first time it is live it counts as published, unless its owner unpublished it before. A
    state that says nothing new changes nothing, its version least of all.
    """
    table, backups = streams.c, stream_backups.c
    changed_backups = (
        await connection.execute(
            update(stream_backups)
            .where(backups.stream_id == stream, backups.live != backups.number.in_(sending))
            .values(live=backups.number.in_(sending))
            .returning(backups.id)
        )
    ).all()
    row = (
        await connection.execute(
            select(
                table.published,
                table.hidden,
                table.live,
                table.processing,
                table.on_air,
                table.receiving_count,
                table.no_audio,
            ).where(table.id == stream)
        )
    ).one_or_none()
    if row is None:  # deleted while it was on air
        return
    published, hidden, *stood = row
    first = live and not published and not hidden
    stands = [live, processing, on_air, len(sending), no_audio]
    if stands == stood and not changed_backups and not first:
        return
    change = update(streams).where(table.id == stream)
    if first:
        change = change.values(published=True, published_us=now_us)
    await connection.execute(
        change.values(
            live=live,
            processing=processing,
            on_air=on_air,
            receiving_count=len(sending),
            no_audio=no_audio,
            version=table.version + 1,
        )
    )


async def reset_live_states(connection: AsyncConnection) -> None:
    """Take every stream off the air on paper: what a killed process left behind is not so now."""
    table = streams.c
    await connection.execute(update(stream_backups).where(stream_backups.c.live).values(live=False))
    stale = or_(
        table.live,
        table.processing,
        table.on_air.is_not(None),
        table.receiving_count != 0,
        table.no_audio,
    )
    await connection.execute(
        update(streams)
        .where(stale)
        .values(
            live=False,
            processing=False,
            on_air=None,
            receiving_count=0,
            no_audio=False,
            version=table.version + 1,
        )
    )
