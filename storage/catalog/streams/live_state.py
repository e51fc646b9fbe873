"""What ingest reads and writes of streams: their keys and their state on air.

The state that the catalog holds is that of the ingest process: it is reset when ingest starts, and
where several hosts share a catalog, when the host that owned a stream does not live.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, NotRequired, TypedDict, Unpack

from sqlalchemy import ColumnElement, or_, select, update

from media.ladder import BOX_LABELS
from media.stream_events import EncoderOffEvent, LiveEvent, OffAirEvent, StreamEvent
from media.stream_keys import PublicHash, Slot, StreamKey
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import PublishedEvent, ResumedEvent, StreamState
from storage.catalog.queries import project_lookup
from storage.catalog.queries.digest import digest
from storage.catalog.queries.living_hosts import is_living, select_owned
from storage.catalog.records.common import Change, IngestRecord
from storage.catalog.records.settings import effective_settings
from storage.catalog.schema.tables import (
    hosts,
    projects,
    stream_backups,
    stream_owners,
    stream_resolutions,
    streams,
)
from storage.catalog.schema.upload_tables import trash
from storage.catalog.streams.settings import project_slate, stream_slate

_NO_INGEST: Final = "no process receives encoders"
_RUN_OVER: Final = "its run was over"


class _KeyRow(NamedTuple):
    """The columns that are read for a key, in their order."""

    id: int
    project: int
    hash: str
    secret: str
    digest: str
    paused: bool
    held_until_us: int | None
    refused_us: int | None
    settings: str
    slate: str | None
    defaults: str
    project_key: str
    project_slate: str | None


# No stream at all: a wrong key runs the same statements for it that a right one runs.
_NO_STREAM: Final = _KeyRow(
    id=0,
    project=0,
    hash="",
    secret="00000000-0000-0000-0000-000000000000",  # noqa: S106  # of no stream
    digest="",
    paused=False,
    held_until_us=None,
    refused_us=None,
    settings="{}",
    slate=None,
    defaults="{}",
    project_key="",
    project_slate=None,
)


class AirState(TypedDict):
    """The state of a stream's run; slots go by their numbers.

    Attributes:
        live: Viewers get an encoder's media, or the slate of a run.
        processing: The run is not over yet.
        on_air: The slot whose media viewers get; None also while they get the slate.
        sending: The slots whose encoders send.
        no_audio: The media on air have no audio.
        paused: The owner paused a run that is to be continued.
        opening: The stream's host has only begun to serve it, and may continue a run that is on
            air: what the state does not have yet stays as it is stored.
    """

    live: bool
    processing: bool
    on_air: int | None
    sending: Collection[int]
    no_audio: bool
    paused: NotRequired[bool]
    opening: NotRequired[bool]


class LiveStates(Repository):
    """The live state of a catalog's streams (`catalog.live_state`); a method is one transaction."""

    async def is_deleted(self, key: StreamKey) -> bool:
        """Return whether a key is that of a stream in the trash, or of one whose project is there.

        It is looked up by its digest, so that the time tells nothing about other keys.
        """
        secret = digest(key.secret)
        of_stream = select(trash.c.hash).where(trash.c.secret_digest == secret)
        of_project = select(streams.c.hash).where(
            streams.c.secret_digest == secret, streams.c.project_id.in_(project_lookup.IN_TRASH)
        )
        async with self._database.reading() as connection:
            hashes = (await connection.execute(of_stream.union(of_project))).scalars().all()
        return any(key.hash in ("", each) for each in hashes)

    async def find_ingest(self, key: StreamKey) -> IngestRecord | None:
        """Return the stream that a key opens; a key without a hash is found by its secret alone.

        An unknown hash and a wrong secret run the same statements and the same comparison, so that
        their times do not reveal which it was.
        """
        table = streams.c
        same = table.hash == key.hash if key.hash else table.secret_digest == digest(key.secret)
        statement = (
            select(
                table.id,
                table.project_id,
                table.hash,
                table.secret,
                table.secret_digest,
                table.paused,
                table.held_until_us,
                table.refused_us,
                table.settings,
                table.slate,
                projects.c.settings.label("defaults"),
                projects.c.key,
                projects.c.slate.label("project_slate"),
            )
            .join_from(streams, projects, projects.c.id == table.project_id)
            .where(same, project_lookup.IS_PRESENT)
        )
        async with self._database.reading() as connection:
            row = (await connection.execute(statement)).one_or_none()
            candidate = _NO_STREAM if row is None else _KeyRow(*row)
            is_right = key.matches(candidate.secret) and row is not None
            stream = candidate.id if is_right else _NO_STREAM.id
            backups = await connection.execute(
                select(stream_backups.c.number).where(stream_backups.c.stream_id == stream)
            )
            active = await connection.execute(
                select(stream_resolutions.c.number).where(
                    stream_resolutions.c.stream_id == stream, stream_resolutions.c.active
                )
            )
        slots = frozenset({0, *backups.scalars()})
        labels = frozenset(
            BOX_LABELS[number] for number in active.scalars() if number in BOX_LABELS
        )
        settings = effective_settings(candidate.settings, candidate.defaults)
        own_slate = stream_slate(candidate.hash, candidate.slate)
        default_slate = project_slate(candidate.project_key, candidate.project_slate)
        if not is_right:
            return None
        return IngestRecord(
            id=stream,
            project=candidate.project,
            hash=candidate.hash,
            slots=slots,
            active=labels,
            proof=candidate.digest,
            settings=settings,
            paused=candidate.paused,
            slate=own_slate or default_slate,
            held_until_us=candidate.held_until_us,
            refused_us=candidate.refused_us,
        )

    async def find_proof(self, stream: int) -> str | None:
        """Return the proof of a stream's present key (`IngestRecord.proof`); None if it is gone."""
        statement = select(streams.c.secret_digest).where(streams.c.id == stream)
        async with self._database.reading() as connection:
            return (await connection.execute(statement)).scalar_one_or_none()

    async def find_reconnect_windows(self) -> dict[PublicHash, float | None]:
        """Return for how many seconds each stream waits for its encoder; None if not set."""
        columns = select(streams.c.hash, streams.c.settings, projects.c.settings.label("defaults"))
        statement = columns.join_from(streams, projects, projects.c.id == streams.c.project_id)
        async with self._database.reading() as connection:
            rows = await connection.execute(statement)
            return {
                hash_: effective_settings(settings, defaults).failover.reconnect_seconds
                for hash_, settings, defaults in rows
            }

    async def set(
        self,
        stream: int,
        *,
        now_us: int,
        happened: Sequence[StreamEvent] = (),
        host: str | None = None,
        generation: int = 0,
        **state: Unpack[AirState],
    ) -> None:
        """Write a stream's state, after the events that led to it; `host` is as in `announce`.

        A stream is published the first time that it is live, unless its owner unpublished it
        before. A state that changes nothing does not raise the version; any other is broadcast.
        Only the owner pauses a stream; the pause ends with the run, unless that is to be continued.
        Nothing is written of a stream that was deleted while it was on air, and nothing by a host
        that owns it by an older `generation` than the present owner (0: no other host can).
        """
        table, backups = streams.c, stream_backups.c
        sending, opening = state["sending"], state.get("opening", False)
        columns = select(
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
        )
        locked = columns.where(table.id == stream).with_for_update()
        async with self._database.writing() as connection:
            before = (await connection.execute(locked)).one_or_none()
            if before is None or await _is_older(connection, stream, generation):
                return
            changed_backups = (
                await connection.execute(
                    update(stream_backups)
                    .where(backups.stream_id == stream, backups.live != backups.number.in_(sending))
                    .values(live=backups.number.in_(sending))
                    .returning(backups.id)
                )
            ).all()
            change = Change(now_us)
            say = partial(announce, connection, before.project_id, before.hash, change=change)
            if happened:
                await say(*happened, host=host)
            live = state["live"] or (opening and before.live)
            processing = state["processing"] or (opening and before.processing)
            on_air = before.on_air if opening and state["on_air"] is None else state["on_air"]
            first = live and not before.published and not before.hidden
            after = {
                "live": live,
                "processing": processing,
                "on_air": on_air,
                "receiving_count": len(sending),
                "no_audio": state["no_audio"],
                "paused": before.paused and (processing or state.get("paused", False)),
            }
            if tuple(after.values()) == tuple(before)[4:] and not changed_backups and not first:
                return
            changed = update(streams).where(table.id == stream)
            if first:
                changed = changed.values(published=True, published_us=now_us)
            await connection.execute(changed.values(**after, version=table.version + 1))
            events: list[StreamEvent] = [StreamState()]
            if before.paused and not after["paused"]:
                events.append(ResumedEvent(stream=stream, cause=_RUN_OVER))
            if live != before.live:
                events.append(LiveEvent() if live else OffAirEvent())
            if first:
                events.append(PublishedEvent(cause="live for the first time"))
            await say(*events)

    async def reset(self, now_us: int) -> list[PublicHash]:
        """Mark every stream off air and return the hashes of those that were not.

        Ingest has not started, so a killed process left these.
        """
        async with self._database.writing() as connection:
            stale = await _lock_stale(connection)
            await _reset(connection, stale, now_us)
            return [row.hash for row in stale]

    async def reset_unowned(
        self, now_us: int, *, dead_seconds: float, besides: int | None = None
    ) -> int:
        """Mark streams off air whose owners do not live; return their number.

        Where no host lives but the host `besides`, which has just started, these are all streams.
        """
        owners = stream_owners.c
        async with self._database.writing() as connection:
            living = select(hosts.c.id).where(is_living(connection, dead_seconds))
            other_hosts = living.where(hosts.c.id != besides) if besides is not None else living
            has_no_owner = or_(owners.host_id.is_(None), owners.host_id.not_in(living))
            unowned = streams.c.id.in_(select(owners.stream_id).where(has_no_owner))
            rows = await _lock_stale(connection, or_(unowned, ~other_hosts.exists()))
            # One that was claimed during the wait for its row may be on air again.
            claimed = (await connection.execute(select_owned(connection, dead_seconds))).scalars()
            owned = frozenset(claimed)
            unclaimed = [row for row in rows if row.id not in owned]
            await _reset(connection, unclaimed, now_us)
            return len(unclaimed)

    async def end_pauses(self, hashes: Collection[PublicHash], now_us: int) -> None:
        """End the pauses of those of these streams that have no run any more."""
        table = streams.c
        has_ended = (table.paused, ~table.live, ~table.processing, table.receiving_count == 0)
        query = select(table.id, table.project_id, table.hash)
        query = query.where(table.hash.in_(hashes), *has_ended).order_by(table.id)
        async with self._database.writing() as connection:
            rows = (await connection.execute(query.with_for_update())).all()
            for stream, project, hash_ in rows:
                change = update(streams).where(table.id == stream)
                await connection.execute(change.values(paused=False, version=table.version + 1))
                event = ResumedEvent(stream=stream, cause=_RUN_OVER)
                await announce(connection, project, hash_, event, change=Change(now_us))


async def _is_older(connection: AsyncConnection, stream: int, generation: int) -> bool:
    """Return whether another host became the owner of a stream after this generation."""
    if not generation:
        return False
    query = select(stream_owners.c.generation).where(stream_owners.c.stream_id == stream)
    present = (await connection.execute(query)).scalar_one_or_none()
    return present is not None and present > generation


class _StaleRow(NamedTuple):
    """The columns of a stream that is marked off air, in their order."""

    id: int
    project: int
    hash: str
    live: bool
    receiving_count: int


async def _lock_stale(connection: AsyncConnection, *which: ColumnElement[bool]) -> list[_StaleRow]:
    """Lock those of these streams that are on air according to their rows."""
    table = streams.c
    stale = or_(
        table.live,
        table.processing,
        table.on_air.is_not(None),
        table.receiving_count != 0,
        table.no_audio,
    )
    columns = select(table.id, table.project_id, table.hash, table.live, table.receiving_count)
    locked = columns.where(stale, *which).order_by(table.id).with_for_update()
    return [_StaleRow(*row) for row in await connection.execute(locked)]


async def _reset(connection: AsyncConnection, rows: Sequence[_StaleRow], now_us: int) -> None:
    """Mark locked streams off air, with the events of what ended."""
    table = streams.c
    sent_slots = await _reset_backups(connection, [row.id for row in rows])
    for row in rows:
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
        events = [StreamState(), *_encoders_off(row.receiving_count, sent_slots[row.id])]
        if row.live:
            events.append(OffAirEvent(cause=_NO_INGEST))
        await announce(connection, row.project, row.hash, *events, change=Change(now_us))


async def _reset_backups(
    connection: AsyncConnection, ids: Sequence[int]
) -> defaultdict[int, list[int]]:
    """Mark the backups of some streams as not sending; returns the slots that were, by stream."""
    backups = stream_backups.c
    rows = await connection.execute(
        update(stream_backups)
        .where(backups.live, backups.stream_id.in_(ids))
        .values(live=False)
        .returning(backups.stream_id, backups.number)
    )
    sent_slots: defaultdict[int, list[int]] = defaultdict(list)
    for stream, number in rows:
        sent_slots[stream].append(number)
    return sent_slots


def _encoders_off(count: int, backups: list[int]) -> list[StreamEvent]:
    """Return the events of `count` encoders whose connections ended with their ingest."""
    slots = [Slot(number) for number in sorted(backups)]
    if count > len(slots):
        slots.insert(0, Slot(0))
    return [
        EncoderOffEvent(
            slot=str(slot),
            receiving_count=len(slots) - position,
            reason="closed by us",
            cause=_NO_INGEST,
        )
        for position, slot in enumerate(slots, start=1)
    ]
