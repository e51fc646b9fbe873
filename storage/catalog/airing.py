"""Questions about live streams that ingest and viewers ask: keys, states, what may be shown.

Each function runs within the caller's transaction.
"""

from collections.abc import Collection
from typing import Final

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.keys import PublicHash, StreamKey
from media.ladder import BOXES
from storage.catalog import events, notices
from storage.catalog.records import IngestRecord
from storage.catalog.secret import digest
from storage.catalog.streamsettings import in_force
from storage.catalog.tables import projects, stream_backups, stream_resolutions, streams

__all__ = [
    "find_ingest",
    "find_proof",
    "find_windows",
    "reset_live_states",
    "set_live_state",
]

_LABELS: Final = {box.number: box.label for box in BOXES}
# Stands for no stream at all: a key that is wrong asks about it what a right one asks.
_NOBODY: Final = (0, 0, "", "00000000-0000-0000-0000-000000000000", "", "{}", "{}")


async def find_ingest(connection: AsyncConnection, key: StreamKey) -> IngestRecord | None:
    """Return the stream that a key opens; without a hash in it, the secret alone names one.

    An unknown hash and a wrong secret take the same statements and the same comparison, so that
    their times do not tell which it was.
    """
    table = streams.c
    same = table.hash == key.hash if key.hash else table.secret_digest == digest(key.secret)
    row = (
        await connection.execute(
            select(
                table.id,
                table.project_id,
                table.hash,
                table.secret,
                table.secret_digest,
                table.settings,
                projects.c.settings.label("defaults"),
            )
            .join_from(streams, projects, projects.c.id == table.project_id)
            .where(same)
        )
    ).one_or_none()
    number, project, hash_, secret, proof, settings, defaults = _NOBODY if row is None else row
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
    failover = in_force(settings, defaults)
    if not right:
        return None
    return IngestRecord(
        id=stream,
        project=project,
        hash=hash_,
        slots=slots,
        active=labels,
        proof=proof,
        reconnect_seconds=failover.reconnect_seconds,
        goodbye_seconds=failover.goodbye_seconds,
    )


async def find_proof(connection: AsyncConnection, stream: int) -> str | None:
    """Return what a right key's `IngestRecord.proof` is; None where there is no such stream."""
    asked = select(streams.c.secret_digest).where(streams.c.id == stream)
    return (await connection.execute(asked)).scalar_one_or_none()


async def find_windows(connection: AsyncConnection) -> dict[PublicHash, float | None]:
    """Return how long each stream waits for its encoder, in seconds; None: nobody said."""
    asked = select(streams.c.hash, streams.c.settings, projects.c.settings.label("defaults"))
    rows = await connection.execute(
        asked.join_from(streams, projects, projects.c.id == streams.c.project_id)
    )
    return {
        hash_: in_force(settings, defaults).reconnect_seconds for hash_, settings, defaults in rows
    }


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
    state that says nothing new changes nothing, its version least of all; one that does is told.
    """
    table, backups = streams.c, stream_backups.c
    asked = select(
        table.project_id,
        table.hash,
        table.published,
        table.hidden,
        table.live,
        table.processing,
        table.on_air,
        table.receiving_count,
        table.no_audio,
    ).where(table.id == stream)
    stood = (await connection.execute(asked.with_for_update())).one_or_none()
    if stood is None:  # deleted while it was on air
        return
    changed_backups = (
        await connection.execute(
            update(stream_backups)
            .where(backups.stream_id == stream, backups.live != backups.number.in_(sending))
            .values(live=backups.number.in_(sending))
            .returning(backups.id)
        )
    ).all()
    first = live and not stood.published and not stood.hidden
    stands = (live, processing, on_air, len(sending), no_audio)
    if stands == tuple(stood)[4:] and not changed_backups and not first:
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
    happened: dict[str, dict[str, object]] = {}
    if len(sending) != stood.receiving_count:
        kind = "encoder on" if len(sending) > stood.receiving_count else "encoder off"
        happened[kind] = {"receiving_count": len(sending)}
    if live != stood.live:
        happened["live" if live else "off air"] = {}
    if first:
        happened["published"] = {"cause": "live for the first time"}
    for kind, facts in happened.items():
        await events.record(connection, stood.project_id, kind, facts, now_us, subject=stood.hash)
    await notices.tell_stream(connection, stream, now_us)


async def reset_live_states(connection: AsyncConnection, now_us: int) -> None:
    """Take every stream off the air on paper: what a killed process left behind is not so now."""
    table = streams.c
    stale = or_(
        table.live,
        table.processing,
        table.on_air.is_not(None),
        table.receiving_count != 0,
        table.no_audio,
    )
    asked = select(table.id, table.project_id, table.hash, table.live).where(stale)
    left = (await connection.execute(asked.order_by(table.id).with_for_update())).all()
    await connection.execute(update(stream_backups).where(stream_backups.c.live).values(live=False))
    for stream, project, hash_, live in left:
        await connection.execute(
            update(streams)
            .where(table.id == stream)
            .values(
                live=False,
                processing=False,
                on_air=None,
                receiving_count=0,
                no_audio=False,
                version=table.version + 1,
            )
        )
        if live:
            facts = {"cause": "nobody takes encoders in"}
            await events.record(connection, project, "off air", facts, now_us, subject=hash_)
        await notices.tell_stream(connection, stream, now_us)
