"""Commands from API processes to the process that receives streams: rows, taken and answered.

A command is written in the transaction that makes it due (a key that was changed, a stream that was
deleted), so it exists exactly when the change does. Ingest reads the waiting commands, takes one
before it acts and answers it when it has acted; the process that added it reads the answer.

A command with a deadline is not taken after it: the command to end a stream is meant for the run
that its owner saw, and keeps encoders from beginning another one by themselves
(`storage.catalog.streams.holds`). A command without one depends on the state when it is taken
(which encoders use an old key, whether the stream is deleted), so it does no harm late, and must be
carried out some day.

Each function runs within the caller's transaction; `Commands` opens them.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

import msgspec
from sqlalchemy import Row, and_, delete, func, insert, or_, select, update

from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import FailoverDrillEvent, ResumedEvent, StreamEndedEvent
from storage.catalog.queries.living_hosts import is_living, select_owned
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import commands, hosts, stream_owners, streams
from storage.catalog.streams import holds

_DEADLINE: Final = "deadline_us"
_HELD_BEFORE: Final = "held_before_us"
_KEEPS_MEDIA: Final = "keeps_media"
_MOST: Final = 100  # read at once
# Answers are read within seconds; what was not taken for weeks belongs to streams long gone.
_KEPT_US: Final = 3600 * MICROSECONDS
_FORGOTTEN_US: Final = 30 * 86_400 * MICROSECONDS
_COLUMNS: Final = (
    commands.c.id,
    commands.c.stream_id,
    commands.c.kind,
    commands.c.facts,
    commands.c.answered_us,
    commands.c.answer,
)


class CommandKind(StrEnum):
    """What can be commanded about a stream."""

    END = "end"  # its run is over now
    DISCONNECT = "disconnect"  # encoders whose key is no longer the stream's are closed
    FORGET = "forget"  # it is gone: end it, and remove its media, or have none answer
    PAUSE = "pause"  # viewers get the slate, encoders stay connected
    RESUME = "resume"  # viewers get the encoder on air again
    DRILL = "drill"  # the slot on air counts as failed until another has taken over
    REPORT = "report"  # how its encoders are, and what they sent lately


# A deleted project leaves hundreds of commands to forget, which have no deadline: they come last.
_UNANSWERED: Final = (
    select(*_COLUMNS)
    .where(commands.c.answered_us.is_(None))
    .order_by(commands.c.kind == CommandKind.FORGET.value, commands.c.id)
    .limit(_MOST)
)


class CommandStatus(StrEnum):
    """The status of a command."""

    WAITING = "waiting"
    TAKEN = "taken"
    DONE = "done"
    LATE = "late"  # it was not taken in time, so it never will be


class StreamCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command to add; `hash` is the stream's, which may be deleted by the time it is read.

    `deadline_us` is the last moment at which it may be taken, None for any time. `by` is the number
    of the caller's token. `keeps_media`: the stream to forget is in the trash.
    """

    stream: int
    hash: str
    kind: CommandKind
    deadline_us: int | None = None
    by: int | None = None
    keeps_media: bool = False


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was added, and its outcome."""

    id: int
    command: StreamCommand
    status: CommandStatus
    answer: dict[str, Any]  # Any: JSON, by the command's kind


def _record(row: Row[int, int, str, str, int | None, str | None]) -> CommandRecord:
    number, stream, kind, facts, answered_us, answer = row
    stored_facts = cast("dict[str, Any]", json.loads(facts))  # written by `_values` alone
    parsed = cast("dict[str, Any]", json.loads(answer or "{}"))  # written below alone
    if answered_us is not None:
        status = CommandStatus.LATE if parsed.pop("late", False) else CommandStatus.DONE
    else:
        status = CommandStatus.TAKEN if parsed.pop("taken", False) else CommandStatus.WAITING
    command = StreamCommand(
        stream=stream,
        hash=str(stored_facts["hash"]),
        kind=CommandKind(kind),
        deadline_us=stored_facts.get(_DEADLINE),
        by=stored_facts.get("by"),
        keeps_media=bool(stored_facts.get(_KEEPS_MEDIA)),
    )
    return CommandRecord(id=number, command=command, status=status, answer=parsed)


async def add(connection: AsyncConnection, command: StreamCommand, now_us: int) -> int:
    """Add a command and return its number; remove old ones."""
    await _remove_old(connection, now_us)
    statement = insert(commands).values(_values(command, now_us))
    return (await connection.execute(statement.returning(commands.c.id))).scalar_one()


async def forget(
    connection: AsyncConnection,
    deleted: Sequence[tuple[int, PublicHash]],
    now_us: int,
    *,
    keeps_media: bool = False,
) -> None:
    """Command ingest to forget streams that are deleted, by their numbers and hashes."""
    await _remove_old(connection, now_us)
    kind = CommandKind.FORGET
    rows = [
        _values(
            StreamCommand(stream=stream, hash=hash_, kind=kind, keeps_media=keeps_media), now_us
        )
        for stream, hash_ in deleted
    ]
    if rows:
        await connection.execute(insert(commands), rows)


async def end_forgetting(connection: AsyncConnection, streams_: Sequence[int]) -> None:
    """Remove the commands to forget streams that are restored."""
    is_over = commands.c.stream_id.in_(streams_) & (commands.c.kind == CommandKind.FORGET.value)
    await connection.execute(delete(commands).where(is_over))


async def _remove_old(connection: AsyncConnection, now_us: int) -> None:
    old = or_(
        commands.c.answered_us < now_us - _KEPT_US,
        commands.c.answered_us.is_(None) & (commands.c.created_us < now_us - _FORGOTTEN_US),
    )
    await connection.execute(delete(commands).where(old))


def _values(command: StreamCommand, now_us: int) -> dict[str, object]:
    facts: dict[str, object] = {"hash": command.hash, "by": command.by}
    if command.deadline_us is not None:
        facts[_DEADLINE] = command.deadline_us
    if command.keeps_media:
        facts[_KEEPS_MEDIA] = True
    return {
        "stream_id": command.stream,
        "kind": command.kind.value,
        "facts": json.dumps(facts),
        "created_us": now_us,
    }


class Commands(Repository):
    """The commands of a catalog."""

    async def add(self, command: StreamCommand, now_us: int) -> int:
        """Add a command by itself; return its number."""
        async with self._database.writing() as connection:
            return await add(connection, command, now_us)

    async def find_unanswered(self) -> tuple[CommandRecord, ...]:
        """Return what is not answered, at most `_MOST` commands: oldest first, `FORGET` last."""
        async with self._database.reading() as connection:
            return tuple(_record(row) for row in await connection.execute(_UNANSWERED))

    async def find_for_host(self, host: int, dead_seconds: float) -> tuple[CommandRecord, ...]:
        """Return the unanswered commands that a host carries out, in the order as above.

        These are the commands of streams that it owns. Those of streams that no living host owns
        are carried out by the living host with the smallest number.
        """
        owners, stream = stream_owners.c, commands.c.stream_id
        async with self._database.reading() as connection:
            first = select(func.min(hosts.c.id)).where(is_living(connection, dead_seconds))
            is_owned = stream.in_(select(owners.stream_id).where(owners.host_id == host))
            is_unowned = stream.not_in(select_owned(connection, dead_seconds))
            is_first = first.scalar_subquery() == host
            query = _UNANSWERED.where(or_(is_owned, and_(is_first, is_unowned)))
            return tuple(_record(row) for row in await connection.execute(query))

    async def find(self, number: int) -> CommandRecord | None:
        """Return a command with its status; None if there is none (any more)."""
        async with self._database.reading() as connection:
            row = await connection.execute(select(*_COLUMNS).where(commands.c.id == number))
            values = row.one_or_none()
            return None if values is None else _record(values)

    async def start(self, number: int, now_us: int, *, hold_us: int = 0) -> bool:
        """Record that the command is carried out from now on; return False if it must not be.

        It must not if it was answered or withdrawn, or if its deadline has passed. With `hold_us`
        it is a command to end a run, and from now on encoders are refused for that long, so that
        none which is disconnected begins another run.
        """
        async with self._database.writing() as connection:
            if hold_us:
                await _lock_stream(connection, number)
            record = await _locked(connection, number)
            if record is None or record.status in (CommandStatus.DONE, CommandStatus.LATE):
                return False
            deadline_us = record.command.deadline_us
            in_time = deadline_us is None or now_us <= deadline_us
            if in_time:
                answer = {**record.answer, "taken": True}  # also if it was taken before
                if hold_us and _HELD_BEFORE not in answer:
                    stream = record.command.stream
                    answer[_HELD_BEFORE] = await holds.begin(
                        connection, stream, hold_us=hold_us, now_us=now_us
                    )
                await _write(connection, number, answer)
            else:
                await _write(connection, number, {"late": True}, now_us)
            return in_time

    async def answer(self, number: int, answer: Mapping[str, object], now_us: int) -> None:
        """Record that the command was carried out, and its outcome, which must be fit for JSON.

        The end of a run, or a drill that succeeded, becomes an event, since it is known only now.
        """
        async with self._database.writing() as connection:
            stream = await _lock_stream(connection, number)
            record = await _locked(connection, number)
            if record is None:
                return
            await _write(connection, number, answer, now_us)
            if _HELD_BEFORE in record.answer and not answer.get("ended"):
                await holds.restore(connection, record.command.stream, record.answer[_HELD_BEFORE])
            if stream is not None:
                await _announce_done(connection, stream.project_id, record.command, answer, now_us)
            if stream is not None and _pause_found_no_run(record.command.kind, answer):
                await _unpause(connection, stream, record.command, now_us)

    async def withdraw(self, number: int, now_us: int) -> bool:
        """Withdraw a command, so that it is never taken; return False if it was taken already."""
        async with self._database.writing() as connection:
            record = await _locked(connection, number)
            if record is None or record.status is not CommandStatus.WAITING:
                return False
            await _write(connection, number, {"late": True}, now_us)
            return True

    async def remove(self, number: int) -> None:
        """Remove a command whose answer is not awaited any more, answered or not."""
        async with self._database.writing() as connection:
            await connection.execute(delete(commands).where(commands.c.id == number))


async def _announce_done(
    connection: AsyncConnection,
    project: int,
    command: StreamCommand,
    answer: Mapping[str, object],
    now_us: int,
) -> None:
    """Announce that a command was carried out, if that is an event."""
    if command.kind is CommandKind.END and answer.get("ended"):
        event = StreamEndedEvent(stream=command.stream)
    elif command.kind is CommandKind.DRILL and "refused" not in answer:
        event = msgspec.convert({**answer, "stream": command.stream}, FailoverDrillEvent)
    else:
        return
    host = answer.get("host")  # of a drill, where there are several
    await announce(
        connection, project, command.hash, event,
        change=Change(now_us, by=command.by), host=None if host is None else str(host),
    )  # fmt: skip


def _pause_found_no_run(kind: CommandKind, answer: Mapping[str, object]) -> bool:
    """Return whether a pause was commanded but its run had already ended."""
    return kind is CommandKind.PAUSE and not answer.get("done")


async def _unpause(
    connection: AsyncConnection,
    stream: Row[int, int, bool],
    command: StreamCommand,
    now_us: int,
) -> None:
    """Clear the paused state of a stream, unless that was done already."""
    number, project, paused = stream
    if not paused:
        return
    changed = update(streams).where(streams.c.id == number)
    await connection.execute(changed.values(paused=False, version=streams.c.version + 1))
    event = ResumedEvent(stream=number, cause="its run was over")
    await announce(connection, project, command.hash, event, change=Change(now_us))


async def _lock_stream(connection: AsyncConnection, number: int) -> Row[int, int, bool] | None:
    """Lock the stream of a command, before the command: callers that add commands do so, too."""
    commanded = select(commands.c.stream_id).where(commands.c.id == number).scalar_subquery()
    query = select(streams.c.id, streams.c.project_id, streams.c.paused)
    query = query.where(streams.c.id == commanded).with_for_update()
    return (await connection.execute(query)).one_or_none()


async def _locked(connection: AsyncConnection, number: int) -> CommandRecord | None:
    query = select(*_COLUMNS).where(commands.c.id == number).with_for_update()
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _record(row)


async def _write(
    connection: AsyncConnection,
    number: int,
    answer: Mapping[str, object],
    answered_us: int | None = None,
) -> None:
    """Write an answer; with `answered_us` it is the last one."""
    values = {"answer": json.dumps(answer), "answered_us": answered_us}
    await connection.execute(update(commands).where(commands.c.id == number).values(values))
