"""Holds (`catalog.holds`): a stream that its owner ended refuses encoders for a while.

An encoder that reconnects by itself would put an ended stream on air again. So the command to end a
stream begins a hold, each attempt of an encoder extends it, and it is over once no encoder has
tried for `live.end_holds_seconds`, once the owner allows encoders again, or with a new key, which
only the owner can hand out. It is one of the stream, whichever key, slot, host or process an
encoder tries.

It is stored as the time until which encoders are refused, by the database's clock, and the time of
the last refusal that was stored: encoders try every few seconds, and most attempts write nothing.
Functions run within the caller's transaction, `Holds` opens its own.
"""

from collections.abc import Mapping
from typing import Final, TypeGuard

from sqlalchemy import select, update

from media.stream_events import RefusedEvent
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import StreamAllowedEvent, StreamState
from storage.catalog.queries.named_rows import MAX_ID
from storage.catalog.records.common import Change, IngestRecord
from storage.catalog.schema.tables import streams

# The columns of a stream without a hold.
NO_HOLD: Final[Mapping[str, None]] = {"held_until_us": None, "refused_us": None}
# An extension lasts a twelfth longer than it must, so that the attempts of that time write nothing:
# at the default of 60 s, one write in 5 s at most.
_SPARE_DIVISOR: Final = 12
# OBS waits 1.5 to 1.55 times as long before each attempt as before the last one, so after the ninth
# it stays away for longer than 60 s, and comes back all the same.
_BACKOFF_TENTHS: Final = 16
_LONGEST_PAUSE_US: Final = 900_000_000  # at which the pauses of OBS stop growing


def is_held(held_until_us: int | None, now_us: int) -> TypeGuard[int]:
    """Return whether encoders are refused now."""
    return held_until_us is not None and now_us < held_until_us


def extend(held_until_us: int, refused_us: int | None, *, hold_us: int, now_us: int) -> int | None:
    """Return until when encoders are refused after an attempt; None if nothing is to be stored.

    `refused_us` is when the last refusal was stored, None before the first.
    """
    spare_us = hold_us // _SPARE_DIVISOR
    pause_us = 0 if refused_us is None else now_us - refused_us
    if refused_us is not None and 0 <= pause_us < spare_us:
        return None
    wait_us = max(hold_us, min(pause_us, _LONGEST_PAUSE_US) * _BACKOFF_TENTHS // 10)
    return max(held_until_us, now_us + wait_us + spare_us)


async def begin(
    connection: AsyncConnection, stream: int, *, hold_us: int, now_us: int
) -> int | None:
    """Begin a hold of a stream, whose row is locked; return until when it was held before."""
    table = streams.c
    query = select(table.held_until_us).where(table.id == stream)
    before = (await connection.execute(query)).scalar_one_or_none()
    values: dict[str, int | None] = {"held_until_us": max(before or 0, now_us + hold_us)}
    if not is_held(before, now_us):
        values["refused_us"] = None
    await connection.execute(update(streams).where(table.id == stream).values(values))
    return before


async def restore(connection: AsyncConnection, stream: int, held_until_us: int | None) -> None:
    """Undo the beginning of a hold: there was nothing to end."""
    change = update(streams).where(streams.c.id == stream)
    await connection.execute(change.values(held_until_us=held_until_us))


class Holds(Repository):
    """The holds of a catalog's streams; each method is one transaction."""

    async def refuse(
        self,
        stream: IngestRecord,
        event: RefusedEvent,
        *,
        hold_us: int,
        now_us: int,
        host: str | None = None,
    ) -> int | None:
        """Refuse an encoder of a stream and extend the hold; None if it is not held (any more).

        Returns until when encoders are refused if there is no further attempt. The first refusal of
        a hold is this event; `host` is as in `announce`.
        """
        held_until_us = stream.held_until_us
        if not is_held(held_until_us, now_us):
            return None
        if extend(held_until_us, stream.refused_us, hold_us=hold_us, now_us=now_us) is None:
            return held_until_us
        return await self._extend(stream.id, event, hold_us=hold_us, now_us=now_us, host=host)

    async def _extend(
        self, stream: int, event: RefusedEvent, *, hold_us: int, now_us: int, host: str | None
    ) -> int | None:
        table = streams.c
        columns = select(table.project_id, table.hash, table.held_until_us, table.refused_us)
        query = columns.where(table.id == stream).with_for_update()
        change = update(streams).where(table.id == stream)
        async with self._database.writing() as connection:
            row = (await connection.execute(query)).one_or_none()
            if row is None or not is_held(row.held_until_us, now_us):
                return None
            until_us = extend(row.held_until_us, row.refused_us, hold_us=hold_us, now_us=now_us)
            if until_us is None:  # another process has just stored one
                return int(row.held_until_us)
            values = {"held_until_us": until_us, "refused_us": now_us}
            await connection.execute(change.values(values))
            if row.refused_us is None:
                await connection.execute(change.values(version=table.version + 1))
                await announce(
                    connection, row.project_id, row.hash, event, StreamState(),
                    change=Change(now_us), host=host,
                )  # fmt: skip
            return until_us

    async def allow(self, stream: int, change: Change) -> bool:
        """End the hold of a stream, if there is one; return False if there is no such stream."""
        table = streams.c
        columns = select(table.project_id, table.hash, table.held_until_us)
        query = columns.where(table.id == stream).with_for_update()
        if not 0 < stream <= MAX_ID:
            return False
        async with self._database.writing() as connection:
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                return False
            if not is_held(row.held_until_us, change.now_us):
                return True
            end = update(streams).where(table.id == stream)
            await connection.execute(end.values(**NO_HOLD, version=table.version + 1))
            event = StreamAllowedEvent(stream=stream)
            await announce(connection, row.project_id, row.hash, event, change=change)
            return True
