"""Questions about live streams that ingest and viewers ask: keys, states, what may be shown.

Each function runs within the caller's transaction.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, NotRequired, TypedDict, Unpack

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.ladder import BOX_LABELS
from media.stream_keys import PublicHash, Slot, StreamKey
from storage.catalog.events import broadcast
from storage.catalog.events import log as event_log
from storage.catalog.queries.digest import digest
from storage.catalog.records.common import IngestRecord
from storage.catalog.schema.tables import projects, stream_backups, stream_resolutions, streams
from storage.catalog.streams.settings import in_force, own_slate, project_slate

__all__ = [
    "AirState",
    "end_pauses",
    "find_ingest",
    "find_proof",
    "find_windows",
    "reset_live_states",
    "set_live_state",
]

_NO_INGEST: Final = "nobody takes encoders in"
_RUN_OVER: Final = "its run was over"


class _Opened(NamedTuple):
    """What a key's question finds, in the order of its columns."""

    id: int
    project: int
    hash: str
    secret: str
    digest: str
    paused: bool
    settings: str
    slate: str | None
    defaults: str
    project_key: str
    project_slate: str | None


# Stands for no stream at all: a key that is wrong asks about it what a right one asks.
_NOBODY: Final = _Opened(
    id=0,
    project=0,
    hash="",
    secret="00000000-0000-0000-0000-000000000000",  # noqa: S106  # nobody's
    digest="",
    paused=False,
    settings="{}",
    slate=None,
    defaults="{}",
    project_key="",
    project_slate=None,
)


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
                table.paused,
                table.settings,
                table.slate,
                projects.c.settings.label("defaults"),
                projects.c.key,
                projects.c.slate.label("behind"),
            )
            .join_from(streams, projects, projects.c.id == table.project_id)
            .where(same)
        )
    ).one_or_none()
    opened = _NOBODY if row is None else _Opened(*row)
    right = key.matches(opened.secret) and row is not None
    stream = opened.id if right else _NOBODY.id
    backups = await connection.execute(
        select(stream_backups.c.number).where(stream_backups.c.stream_id == stream)
    )
    active = await connection.execute(
        select(stream_resolutions.c.number).where(
            stream_resolutions.c.stream_id == stream, stream_resolutions.c.active
        )
    )
    slots = frozenset({0, *backups.scalars()})
    labels = frozenset(BOX_LABELS[number] for number in active.scalars() if number in BOX_LABELS)
    held = in_force(opened.settings, opened.defaults)
    own = own_slate(opened.hash, opened.slate)
    behind = project_slate(opened.project_key, opened.project_slate)
    if not right:
        return None
    return IngestRecord(
        id=stream,
        project=opened.project,
        hash=opened.hash,
        slots=slots,
        active=labels,
        proof=opened.digest,
        failover=held.failover,
        recording=held.recording,
        paused=opened.paused,
        slate=own or behind,
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
        hash_: in_force(settings, defaults).failover.reconnect_seconds
        for hash_, settings, defaults in rows
    }


class AirState(TypedDict):
    """How a stream stands; slots are named by their numbers.

    `on_air` is who viewers get, None on the slate too, `sending` whose encoders send. `paused` says
    that its owner holds the output of a run that is to be gone on with.
    """

    live: bool
    processing: bool
    on_air: int | None
    sending: Collection[int]
    no_audio: bool
    paused: NotRequired[bool]


async def set_live_state(
    connection: AsyncConnection,
    stream: int,
    now_us: int,
    happened: Sequence[tuple[str, Mapping[str, object]]] = (),
    **state: Unpack[AirState],
) -> None:
    """Write down how a stream stands, and what happened up to then, as kinds and facts.

    The first time it is live it counts as published, unless its owner unpublished it before. A
    state that says nothing new changes nothing, its version least of all; one that does is told.
    Only its owner pauses a stream; without a run, and with none to be gone on with, it is paused
    no more.
    """
    table, backups = streams.c, stream_backups.c
    live, sending = state["live"], state["sending"]
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
        table.paused,
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
    for kind, facts in happened:
        await event_log.record(
            connection, stood.project_id, kind, facts, now_us, subject=stood.hash
        )
    first = live and not stood.published and not stood.hidden
    stands = {
        "live": live,
        "processing": state["processing"],
        "on_air": state["on_air"],
        "receiving_count": len(sending),
        "no_audio": state["no_audio"],
        "paused": stood.paused and (state["processing"] or state.get("paused", False)),
    }
    if tuple(stands.values()) == tuple(stood)[4:] and not changed_backups and not first:
        return
    change = update(streams).where(table.id == stream)
    if first:
        change = change.values(published=True, published_us=now_us)
    await connection.execute(change.values(**stands, version=table.version + 1))
    turned: dict[str, dict[str, object]] = {}
    if stood.paused and not stands["paused"]:
        turned["resumed"] = {"stream": stream, "cause": _RUN_OVER}
    if live != stood.live:
        turned["live" if live else "off air"] = {}
    if first:
        turned["published"] = {"cause": "live for the first time"}
    for kind, facts in turned.items():
        await event_log.record(
            connection, stood.project_id, kind, facts, now_us, subject=stood.hash
        )
    await broadcast.tell_stream(connection, stream, now_us)


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
    asked = select(table.id, table.project_id, table.hash, table.live, table.receiving_count)
    left = (await connection.execute(asked.where(stale).order_by(table.id).with_for_update())).all()
    sent = await _backups_off(connection)
    for row in left:
        await connection.execute(
            update(streams)
            .where(table.id == row.id)
            .values(
                live=False,
                processing=False,
                on_air=None,
                receiving_count=0,
                no_audio=False,
                version=table.version + 1,
            )
        )
        told = _encoders_off(row.receiving_count, sent[row.id])
        if row.live:
            told.append(("off air", {"cause": _NO_INGEST}))
        for kind, facts in told:
            await event_log.record(
                connection, row.project_id, kind, facts, now_us, subject=row.hash
            )
        await broadcast.tell_stream(connection, row.id, now_us)


async def _backups_off(connection: AsyncConnection) -> defaultdict[int, list[int]]:
    """Take all backups' encoders off on paper; returns the numbers of the slots, by stream."""
    backups = stream_backups.c
    found = await connection.execute(
        update(stream_backups)
        .where(backups.live)
        .values(live=False)
        .returning(backups.stream_id, backups.number)
    )
    sent: defaultdict[int, list[int]] = defaultdict(list)
    for stream, number in found:
        sent[stream].append(number)
    return sent


def _encoders_off(count: int, backups: list[int]) -> list[tuple[str, dict[str, object]]]:
    """Return the events of `count` encoders that nobody takes in any more."""
    slots = [Slot(number) for number in sorted(backups)]
    if count > len(slots):
        slots.insert(0, Slot(0))
    return [
        (
            "encoder off",
            {
                "slot": str(slot),
                "receiving_count": len(slots) - place,
                "reason": "closed by us",
                "cause": _NO_INGEST,
            },
        )
        for place, slot in enumerate(slots, start=1)
    ]


async def end_pauses(
    connection: AsyncConnection, hashes: Collection[PublicHash], now_us: int
) -> None:
    """Take the pauses back of those of these streams whose runs nobody came back to."""
    table = streams.c
    ended = (table.paused, ~table.live, ~table.processing, table.receiving_count == 0)
    asked = select(table.id, table.project_id, table.hash).where(*ended).order_by(table.id)
    for stream, project, hash_ in (await connection.execute(asked.with_for_update())).all():
        if hash_ in hashes:
            change = update(streams).where(table.id == stream)
            await connection.execute(change.values(paused=False, version=table.version + 1))
            facts = {"stream": stream, "cause": _RUN_OVER}
            await event_log.record(connection, project, "resumed", facts, now_us, subject=hash_)
            await broadcast.tell_stream(connection, stream, now_us)
