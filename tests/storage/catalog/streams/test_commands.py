"""Commands to the process that receives streams: taken once, in time, and answered."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import Database
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.streams.commands import CommandKind, CommandStatus, StreamCommand, forget
from storage.errors import StreamStateConflict
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

DEAD = 60.0  # seconds
DAY_US = 86_400 * 1_000_000
END = StreamCommand(stream=1, hash="Ab3dEf6hIj9l", kind=CommandKind.END, deadline_us=100, by=1)
FORGET = StreamCommand(stream=9, hash="Zz3dEf6hIj9l", kind=CommandKind.FORGET)


@pytest.fixture
async def second(location: str | Path, catalog: Catalog) -> AsyncGenerator[Catalog]:
    """The same catalog, as another process has it open."""
    del catalog  # made first
    async with open_catalog(location, migrate=False) as opened:
        yield opened


async def status_of(catalog: Catalog, number: int) -> CommandStatus | None:
    command = await catalog.commands.find(number)
    return None if command is None else command.status


async def on_air(catalog: Catalog) -> StreamRecord:
    """Return the first stream, live from its primary."""
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    await catalog.live_state.set(
        stream.id, live=True, processing=True, on_air=0, sending=(0,), no_audio=False, now_us=1
    )
    return stream


async def paused(catalog: Catalog, stream: StreamRecord) -> bool:
    record = await catalog.streams.find(stream.id)
    assert record is not None
    return record.paused


@ON_BOTH
async def test_a_command_waits_is_taken_and_answered(catalog: Catalog, second: Catalog) -> None:
    number = await catalog.commands.add(END, 10)
    (waiting,) = await second.commands.find_unanswered()
    assert (waiting.id, waiting.command, waiting.status) == (number, END, CommandStatus.WAITING)
    assert await second.commands.start(number, 50)
    assert await status_of(catalog, number) is CommandStatus.TAKEN
    await second.commands.answer(number, {"ended": False, "left": 3}, 60)
    command = await catalog.commands.find(number)
    assert command is not None
    assert (command.status, command.answer) == (CommandStatus.DONE, {"ended": False, "left": 3})
    assert await second.commands.find_unanswered() == ()


@ON_BOTH
async def test_a_command_is_not_taken_after_its_deadline(catalog: Catalog) -> None:
    number = await catalog.commands.add(END, 10)
    assert not await catalog.commands.start(number, 101)
    assert await status_of(catalog, number) is CommandStatus.LATE
    assert await catalog.commands.find_unanswered() == ()
    assert not await catalog.commands.start(number, 50)


async def test_a_command_without_a_deadline_is_taken_at_any_time(catalog: Catalog) -> None:
    number = await catalog.commands.add(FORGET, 10)
    assert await catalog.commands.start(number, 20 * DAY_US)
    # As after the death of the process that took the command.
    assert [record.id for record in await catalog.commands.find_unanswered()] == [number]
    assert await catalog.commands.start(number, 21 * DAY_US)


@ON_BOTH
async def test_a_command_is_either_withdrawn_or_taken(catalog: Catalog, second: Catalog) -> None:
    one, two = await catalog.commands.add(END, 10), await catalog.commands.add(END, 10)
    assert await catalog.commands.withdraw(one, 20)
    assert not await second.commands.start(one, 21)
    assert await second.commands.start(two, 21)
    assert not await catalog.commands.withdraw(two, 22)
    assert await status_of(catalog, two) is CommandStatus.TAKEN


@ON_BOTH
async def test_deleted_streams_keep_no_command_with_a_deadline_waiting(
    catalog: Catalog, database: Database
) -> None:
    async with database.writing() as connection:
        await forget(connection, [(each, f"{each}") for each in range(2, 302)], 10)
    end = await catalog.commands.add(END, 10)
    drill = await catalog.commands.add(msgspec.structs.replace(END, kind=CommandKind.DRILL), 10)
    host = await catalog.hosts.register("a", "ingest", None, "1")
    for commands in (
        await catalog.commands.find_unanswered(),
        await catalog.commands.find_for_host(host, DEAD),
    ):
        assert len(commands) == 100
        assert [each.id for each in commands[:2]] == [end, drill]
        forgotten = [each.command.stream for each in commands[2:]]
        assert forgotten == list(range(2, 100))


async def test_old_commands_are_swept_out_answered_or_not(catalog: Catalog) -> None:
    answered = await catalog.commands.add(END, 10)
    await catalog.commands.answer(answered, {}, 20)
    waiting = await catalog.commands.add(FORGET, 10)
    await catalog.commands.add(FORGET, DAY_US)
    assert await status_of(catalog, answered) is None
    assert await status_of(catalog, waiting) is CommandStatus.WAITING
    await catalog.commands.add(FORGET, 31 * DAY_US)
    assert await status_of(catalog, waiting) is None


async def test_an_end_is_an_event_once_done_and_names_the_token(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(1)
    assert first.stream is not None
    stream = first.stream
    for ended in (False, True):
        command = StreamCommand(
            stream=stream.id, hash=stream.hash, kind=CommandKind.END, deadline_us=99, by=7
        )
        number = await catalog.commands.add(command, 10)
        await catalog.commands.answer(number, {"ended": ended}, 20)
    events = await catalog.events.find_page(first.project.id)
    mine = [(each.kind, each.token) for each in events.items if each.kind == "stream ended"]
    assert mine == [("stream ended", 7)]


async def test_a_drill_is_an_event_once_another_took_over(catalog: Catalog) -> None:
    stream = await on_air(catalog)
    went = {"from": "primary", "to": "backup-1", "gap_ms": 40, "switched_after_ms": 900}
    for answer in ({"refused": "No other encoder is well."}, went):
        number = await catalog.streams.request_drill(stream.id, Change(10, by=7), deadline_us=99)
        assert number is not None
        assert await catalog.commands.start(number, 20)
        await catalog.commands.answer(number, answer, 30)
    events = await catalog.events.find_page(1)
    drills = [each for each in events.items if each.kind == "failover drill"]
    assert [(each.facts, each.token) for each in drills] == [({"stream": stream.id, **went}, 7)]


async def test_a_pause_is_written_with_its_command_and_taken_back_where_no_run_was(
    catalog: Catalog,
) -> None:
    stream = await on_air(catalog)
    for done in (True, False):
        number = await catalog.streams.pause(stream.id, Change(10, by=7))
        assert number is not None
        (command,) = await catalog.commands.find_unanswered()
        assert (command.id, command.command.kind) == (number, CommandKind.PAUSE)
        with pytest.raises(StreamStateConflict, match="paused already"):
            await catalog.streams.pause(stream.id, Change(10, by=7))
        with pytest.raises(StreamStateConflict, match="paused"):
            await catalog.streams.request_drill(stream.id, Change(10, by=7), deadline_us=99)
        assert await paused(catalog, stream)
        await catalog.commands.answer(number, {"done": done}, 20)
        assert await paused(catalog, stream) is done
        if done:
            number = await catalog.streams.resume(stream.id, Change(30, by=7))
            assert number is not None
            await catalog.commands.answer(number, {"done": True}, 40)
            assert not await paused(catalog, stream)
        with pytest.raises(StreamStateConflict, match="not paused"):
            await catalog.streams.resume(stream.id, Change(30, by=7))
    events = [(each.kind, each.token) for each in (await catalog.events.find_page(1)).items[::-1]]
    assert events[-4:] == [("paused", 7), ("resumed", 7), ("paused", 7), ("resumed", None)]


async def test_a_stream_that_is_not_live_is_not_paused_and_not_drilled(catalog: Catalog) -> None:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    with pytest.raises(StreamStateConflict, match="not live"):
        await catalog.streams.pause(stream.id, Change(10, by=7))
    with pytest.raises(StreamStateConflict, match="not live"):
        await catalog.streams.request_drill(stream.id, Change(10, by=7), deadline_us=99)
    assert await catalog.commands.find_unanswered() == ()
    assert await catalog.streams.find(stream.id) == stream


async def test_a_command_that_was_dropped_is_gone_for_all(
    catalog: Catalog, second: Catalog
) -> None:
    number = await catalog.commands.add(END, 10)
    assert await second.commands.start(number, 20)
    await catalog.commands.remove(number)
    await second.commands.answer(number, {"ended": True}, 30)
    assert await catalog.commands.find(number) is None
    await catalog.commands.remove(number)


async def test_an_unknown_command_is_not_found(catalog: Catalog) -> None:
    assert await catalog.commands.find(12) is None
    assert not await catalog.commands.start(12, 1)
    assert not await catalog.commands.withdraw(12, 1)
    await catalog.commands.answer(12, {}, 1)


async def test_a_host_gets_the_commands_of_its_streams_and_the_first_also_those_without_owner(
    catalog: Catalog, location: str | Path
) -> None:
    first, second, third = [
        await catalog.hosts.register(name, "ingest", None, "1") for name in "abc"
    ]
    for stream, host in ((1, first), (2, second), (3, third), (4, second)):
        claimed = await catalog.owners.claim(stream, host, dead_seconds=DEAD)
    await catalog.owners.release(4, second, claimed.generation)
    for stream in range(1, 6):  # 4 is released, 5 never had an owner
        await catalog.commands.add(msgspec.structs.replace(END, stream=stream), 10)

    async def streams_of(host: int) -> list[int]:
        commands = await catalog.commands.find_for_host(host, DEAD)
        return [each.command.stream for each in commands]

    assert [await streams_of(host) for host in (first, second, third)] == [[1, 4, 5], [2], [3]]
    # A host that is no longer seen loses the commands that others may carry out.
    silent = f"UPDATE hosts SET seen_us = seen_us - 2 * {round(DEAD)} * 1000000 WHERE id = "
    run_sql(location, f"{silent} {first}")
    assert [await streams_of(host) for host in (second, third)] == [[1, 2, 4, 5], [3]]
    run_sql(location, f"{silent} {third}")
    assert await streams_of(second) == [1, 2, 3, 4, 5]
    assert len(await catalog.commands.find_unanswered()) == 5
    await catalog.commands.start(2, 50)
    await catalog.commands.answer(2, {}, 60)
    assert await streams_of(second) == [1, 3, 4, 5]
